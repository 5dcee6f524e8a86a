"""State that processes share through Redis and may lose: counters, throttles, heartbeats.

Nothing blocks on Redis. While it is unavailable, `ask` returns the caller's default and retries only after
a pause, so that an outage costs one short timeout and not one per call.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import redis
from django.conf import settings

logger = logging.getLogger(__name__)
TIMEOUT_SEC = 0.5
PAUSE_SEC = 5.0
Answer = TypeVar("Answer")
_paused_until: dict[str, float] = {}


@cache
def _client(url: str) -> Any:
    return redis.Redis.from_url(
        url, socket_timeout=TIMEOUT_SEC, socket_connect_timeout=TIMEOUT_SEC, decode_responses=True
    )


def ask(question: Callable[[Any], Answer], *, otherwise: Answer) -> Answer:
    """Return the result of `question` called with the client, or `otherwise` if Redis does not answer."""
    url = settings.REDIS_URL
    now = time.monotonic()
    if now < _paused_until.get(url, 0.0):
        return otherwise
    try:
        return question(_client(url))
    except redis.RedisError as error:
        _paused_until[url] = now + PAUSE_SEC
        logger.warning("Redis does not answer; retrying in %g s: %s", PAUSE_SEC, error)
        return otherwise
