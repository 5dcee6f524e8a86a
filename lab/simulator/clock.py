"""The virtual clock: events in order of time, and the clocks of hosts and database that follow it."""

from __future__ import annotations

import heapq
import time
import types
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, tzinfo
from itertools import count
from random import Random
from typing import Any
from unittest.mock import patch

from django.db import connection, connections
from django.db.backends.signals import connection_created
from django.utils import timezone

from sandbox import post_script

START = datetime(2031, 1, 6, 8, 0, tzinfo=UTC).timestamp()
Event = Callable[[], None]


class VirtualClock:
    """The time of the simulation. It moves only when the simulation moves it.

    `skew_sec` is how far the clocks of WMS2's hosts are ahead of the database's, which is always right.
    """

    def __init__(self, start: float = START) -> None:
        self.now = start
        self.skew_sec = 0.0
        self.slept_sec = 0.0
        self._events: list[tuple[float, int, Event]] = []
        self._numbers = count()

    def time(self) -> float:
        """Return the time in seconds since the epoch."""
        return self.now

    def host_time(self) -> float:
        """Return the time by the clock of a host of WMS2."""
        return self.now + self.skew_sec

    def after(self, seconds: float, event: Event) -> None:
        """Run the event so many seconds from now."""
        heapq.heappush(self._events, (self.now + max(seconds, 0.0), next(self._numbers), event))

    def refuse_sleep(self, seconds: float) -> None:
        """Record that a script of DAGMan slept, which blocks the scripts of all other nodes."""
        self.slept_sec += seconds

    @property
    def next_event_at(self) -> float:
        """Time of the next event; infinite if there is none."""
        return self._events[0][0] if self._events else float("inf")

    def run_until(self, moment: float) -> int:
        """Run all events up to this moment in order and move there; return how many."""
        done = 0
        while self._events and self._events[0][0] <= moment:
            at, _, event = heapq.heappop(self._events)
            self.now = max(self.now, at)
            event()
            done += 1
        self.now = max(self.now, moment)
        return done


def show_to_database(clock: VirtualClock) -> None:
    """Make the virtual time the time of this thread's database session."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET wms2.now = '{clock.now!r}'")


@contextmanager
def virtual_time(clock: VirtualClock, random: Random) -> Iterator[None]:
    """Make it the clock of Django, POST scripts and database sessions; derive UUIDs from `random`."""

    class HostDatetime(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.fromtimestamp(clock.host_time(), tz)

    def on_connection(*, connection: Any, **_given: Any) -> None:
        connection.connection.execute(f"SET wms2.now = '{clock.now!r}'")

    system = types.SimpleNamespace(**vars(uuid.os))  # type: ignore[attr-defined]
    system.urandom = random.randbytes
    script_time = types.SimpleNamespace(**vars(time))
    script_time.time = clock.time
    script_time.sleep = clock.refuse_sleep
    connection_created.connect(on_connection, weak=False)
    try:
        with (
            patch.object(timezone, "datetime", HostDatetime),
            patch.object(uuid, "os", system),
            patch.object(post_script, "time", script_time),
        ):
            if connections["default"].connection is not None:
                show_to_database(clock)
            yield
    finally:
        connection_created.disconnect(on_connection)
