"""What people can do with requests. API, admin, console and commands all call these, and nothing else.

Every action names its actor, takes a reason, is refused with a sentence when the state does not allow
it, and only ever sets a request due: the lifecycle does the work.
"""
