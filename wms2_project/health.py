"""Is WMS2 able to work? One short, bounded question to each part it stands on."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import redis
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from kombu.exceptions import OperationalError

from wms2_project.celery import app

logger = logging.getLogger(__name__)
_TIMEOUT_SEC = 2.0
_WORKER_ANSWER_SEC = 1.0
_migrated = False  # once applied, migrations stay applied for the life of this process


@dataclass(frozen=True, slots=True)
class Part:
    """One thing WMS2 stands on."""

    name: str
    works: bool
    needed: bool  # without it the API itself cannot answer


def database_works() -> bool:
    """Does PostgreSQL answer?"""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        logger.exception("the database does not answer")
        return False
    return True


def migrations_applied() -> bool:
    """Is the schema the one this code was written for?"""
    global _migrated
    if not _migrated:
        try:
            executor = MigrationExecutor(connection)
            _migrated = not executor.migration_plan(executor.loader.graph.leaf_nodes())
        except DatabaseError:
            logger.exception("the database does not tell its migrations")
    return _migrated


def redis_works() -> bool:
    """Does the message broker answer?"""
    try:
        with redis.Redis.from_url(
            settings.REDIS_URL, socket_timeout=_TIMEOUT_SEC, socket_connect_timeout=_TIMEOUT_SEC
        ) as client:
            return bool(client.ping())
    except redis.RedisError:
        logger.exception("Redis does not answer")
        return False


def workers_answer() -> bool:
    """Does at least one Celery worker answer? The first answer ends the wait."""
    try:
        return bool(app.control.ping(timeout=_WORKER_ANSWER_SEC, limit=1))
    except (OperationalError, OSError, redis.RedisError):
        logger.exception("the broker does not carry a question to the workers")
        return False


def readiness() -> list[Part]:
    """What must work before this process takes calls; Redis may be away, writes wait in PostgreSQL."""
    works = database_works()
    return [
        Part("database", works=works, needed=True),
        Part("migrations", works=works and migrations_applied(), needed=True),
        Part("redis", works=redis_works(), needed=False),
    ]


def health() -> list[Part]:
    """Readiness, and whether anybody works on what the API takes in."""
    parts = readiness()
    broker = next(part for part in parts if part.name == "redis")
    return [*parts, Part("workers", works=broker.works and workers_answer(), needed=False)]
