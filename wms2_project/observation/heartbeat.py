"""Heartbeats of workers per queue, in Redis. A worker without a recent heartbeat counts as dead."""

from __future__ import annotations

import time
from typing import Any

from django.conf import settings

from wms2_project.redis_state import ask

INTERVAL_SEC = 5.0
ALIVE_SEC = 20.0
_KEY = "wms2:workers:{}"
LEAST_URGENT = 9
_PRIORITY_MARK, _PRIORITY_STEPS = "\x06\x16", (3, 6, LEAST_URGENT)  # Celery's own, on Redis


def beat(worker: str, queues: tuple[str, ...]) -> None:
    """Record a heartbeat of the worker for its queues."""

    def write(client: Any) -> None:
        now = time.time()
        pipe = client.pipeline(transaction=False)
        for queue in queues:
            pipe.zadd(_KEY.format(queue), {worker: now})
            pipe.zremrangebyscore(_KEY.format(queue), 0, now - 3600)
        pipe.execute()

    ask(write, otherwise=None)


def silence(worker: str, queues: tuple[str, ...]) -> None:
    """Remove the worker from its queues."""
    ask(lambda client: [client.zrem(_KEY.format(queue), worker) for queue in queues], otherwise=[])


def queue_names() -> list[str]:
    """Return the names of all queues."""
    return [queue.name for queue in settings.CELERY_TASK_QUEUES]


def workers_per_queue() -> dict[str, int] | None:
    """Return the number of live workers per queue; None if Redis does not answer."""

    def read(client: Any) -> dict[str, int] | None:
        since = time.time() - ALIVE_SEC
        return {name: int(client.zcount(_KEY.format(name), since, "+inf")) for name in queue_names()}

    return ask(read, otherwise=None)


def queue_lengths(*, priority: int = LEAST_URGENT) -> dict[str, int] | None:
    """Return the waiting messages per queue of at least this urgency; None if Redis does not answer."""

    def read(client: Any) -> dict[str, int] | None:
        return {name: sum(int(client.llen(key)) for key in _lists(name, priority)) for name in queue_names()}

    return ask(read, otherwise=None)


def _lists(queue: str, priority: int) -> list[str]:
    """Return the Redis lists of a queue: one per step of priority."""
    return [queue, *(f"{queue}{_PRIORITY_MARK}{step}" for step in _PRIORITY_STEPS if step <= priority)]
