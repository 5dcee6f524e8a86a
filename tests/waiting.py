"""Waiting for a condition: tests never wait for a duration."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from django.db import connection


def until(what: Callable[[], Any], *, seconds: float = 900, why: str = "") -> Any:
    """Return the result of the function as soon as it is true; fail after a limit for hanging tests."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, why or "it did not happen in time"
        time.sleep(0.05)
    return found


def another_session_waits() -> bool:
    """Return whether another session waits for a lock of this transaction."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT 1 FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"
        )
        return cursor.fetchone() is not None
