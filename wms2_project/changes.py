"""Announcements of changes to open pages: topics, and their publication after the commit.

Announcements travel by Redis and may be lost; pages read the tables, which are authoritative. Nothing waits
for
Redis, and the streams process notices losses by itself (console/streams).
"""

from __future__ import annotations

import json
from enum import StrEnum
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction

from wms2_project import redis_state


class Topic(StrEnum):
    """Subject of a change."""

    FLEET = "fleet"  # statuses and progress of requests
    ADMISSION = "admission"  # limits and quotas; the queue itself is part of the fleet
    ALERTS = "alerts"
    SITES = "sites"  # their slots; decisions on sites are in the audit
    OUTPUTS = "outputs"  # datasets, blocks, rules
    AUDIT = "audit"  # decisions of users, and those of WMS2 that the audit records


def request_topic(name: str) -> str:
    """Return the topic of one request."""
    return f"request:{name}"


def chain_topic(number: object) -> str:
    """Return the topic of one chain."""
    return f"chain:{number}"


def announce(*topics: str) -> None:
    """Announce changes of the current transaction when it is committed."""
    transaction.on_commit(lambda: _publish(topics), robust=True)


def announce_requests(*names: str) -> None:
    """Announce changes of status or progress of these requests."""
    if names:
        announce(Topic.FLEET, *map(request_topic, names))


def channel() -> str:
    """Return the Redis channel. Redis has the channels of all its databases in common."""
    return f"wms2:changes{urlsplit(settings.REDIS_URL).path or '/0'}"


def _publish(topics: tuple[str, ...]) -> None:
    message = json.dumps([str(topic) for topic in topics])
    redis_state.ask(lambda redis: redis.publish(channel(), message), otherwise=0)
