"""Calls of runners: start, heartbeat, allocate, record, confirm and abort.

Each call may be repeated and answers the same; a repeated call with another body is refused. A call for a
runner, round or request that has ended is refused and changes nothing.
"""
