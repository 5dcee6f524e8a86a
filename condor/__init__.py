"""DAGMan text and the schedd: files that DAGMan reads, files it writes, and the calls that steer it.

Nothing here knows Django, a database or a request's lifecycle.
"""
