"""PostgreSQL advisory locks.

A session lock is held without an open transaction and ends with the connection, so a killed process never
leaves one behind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection


def lock_key(name: str) -> int:
    """Return a signed 64-bit key for a name."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)


@contextmanager
def try_lock(name: str) -> Iterator[bool]:
    """Yield True while holding the lock, or False immediately if another session holds it."""
    key = lock_key(name)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [key])
        row = cursor.fetchone()
    held = bool(row and row[0])
    try:
        yield held
    finally:
        # A broken connection has released the lock already, and unlocking would hide the original error.
        if held and connection.connection is not None and not connection.connection.closed:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [key])
