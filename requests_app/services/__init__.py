"""Services of requests, called by the API, console and commands.

Every action takes an actor and a reason and raises a typed error with a cure if the status does not allow it.
Services only write rows and make requests due; the lifecycle does the work.
"""
