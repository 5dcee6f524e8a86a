"""DAGMan files and the schedd: files that DAGMan reads, files it writes, and calls to the schedd.

Independent of Django, the database and the lifecycle of requests.
"""
