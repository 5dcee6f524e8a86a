"""Health checks: one bounded check of each component WMS2 depends on.

Layers above register their own checks when their application starts.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TookTooLong
from dataclasses import dataclass
from typing import Annotated

import redis
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from wms2_project.access import audit
from wms2_project.api.bodies import INTERNAL
from wms2_project.locks import lock_key
from wms2_project.observation.heartbeat import queue_names, workers_per_queue
from wms2_project.service_guards import SERVICES, outages

logger = logging.getLogger(__name__)
_TIMEOUT_SEC = 2.0
_migrated = False  # once applied, migrations stay applied for the life of this process


@dataclass(frozen=True, slots=True)
class Part:
    """Health of one component."""

    name: str
    works: bool
    needed: Annotated[bool, INTERNAL] = False  # without it the API itself cannot answer
    detail: str = ""  # the error; anonymous callers do not see it
    reason: str = ""  # what it waits for, without addresses, because the answer is public


@dataclass(frozen=True, slots=True)
class Check:
    """A check of a component outside this process: `ask` returns what is wrong, or an empty text.

    Checks run in threads of their own, so they must not use the database. Results are cached, because
    health may be requested by anyone at any rate.
    """

    name: str
    ask: Callable[[], str]
    timeout_sec: float = _TIMEOUT_SEC
    keep_sec: float = 10.0


_checks: dict[str, Check] = {}
_known: dict[str, tuple[float, Part]] = {}
_local_checks: list[Callable[[], list[Part]]] = []
_ready_checks: list[Callable[[], list[Part]]] = []


def register(check: Check) -> None:
    """Register a check of an external component."""
    _checks[check.name] = check
    _known.pop(check.name, None)


def register_local(check: Callable[[], list[Part]]) -> None:
    """Register a check that runs in the calling thread and may use the database."""
    if check not in _local_checks:
        _local_checks.append(check)


def register_ready(check: Callable[[], list[Part]]) -> None:
    """Register a cheap check whose parts are also shown by the readiness probe."""
    if check not in _ready_checks:
        _ready_checks.append(check)


def database_works() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        logger.exception("the database does not answer")
        return False
    return True


def migrations_applied() -> bool:
    """Return whether the database schema is that of this code."""
    global _migrated
    if not _migrated:
        try:
            executor = MigrationExecutor(connection)
            _migrated = not executor.migration_plan(executor.loader.graph.leaf_nodes())
        except DatabaseError:
            logger.exception("the migrations of the database cannot be read")
    return _migrated


def redis_works() -> bool:
    try:
        with redis.Redis.from_url(
            settings.REDIS_URL, socket_timeout=_TIMEOUT_SEC, socket_connect_timeout=_TIMEOUT_SEC
        ) as client:
            return bool(client.ping())
    except redis.RedisError:
        logger.exception("Redis does not answer")
        return False


def beat_leads() -> bool:
    """Return whether a Beat holds the leader lock."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT 1 FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database"
            " WHERE locktype = 'advisory' AND granted AND datname = current_database()"
            " AND (classid::bigint << 32 | objid::bigint) = %s)",
            [lock_key("beat-leader")],
        )
        row = cursor.fetchone()
    return bool(row and row[0])


def services() -> list[Part]:
    """Return the state of the external services as seen by the guards of all workers."""
    down = {outage.service: outage.message for outage in outages(settings.REDIS_URL, now=time.time())}
    return [Part(name, works=name not in down, detail=down.get(name, "")) for name in SERVICES]


def readiness() -> list[Part]:
    """Return the components needed before this process accepts calls, and the services."""
    return [*_own(), *_ready(), *services()]


def health() -> list[Part]:
    """Return all components: this process, workers, Beat, audit and the registered checks."""
    parts = [*_own(), *_ready()]
    workers = workers_per_queue()
    parts += [_workers(name, workers) for name in queue_names()]
    if parts[0].works:
        leads = beat_leads()
        parts.append(Part("beat", works=leads, detail="" if leads else "no Beat holds the leader lock"))
        parts.append(_audit())
        parts += [part for check in _local_checks for part in check()]
    away = {part.name: part for part in services() if not part.works}
    return parts + [away.get(part.name, part) for part in _asked()]


def _own() -> list[Part]:
    works = database_works()
    return [
        Part("database", works=works, needed=True),
        Part("migrations", works=works and migrations_applied(), needed=True),
        Part("redis", works=redis_works()),
    ]


def _ready() -> list[Part]:
    return [part for check in _ready_checks for part in check()]


def _audit() -> Part:
    """Report rows that stay unsealed, and heads that do not reach WMS2_AUDIT_HEAD_URL."""
    now = timezone.now()
    unsealed, unshipped = audit.unsealed_sec(now=now), audit.unshipped_sec(now=now)
    if unsealed > audit.UNSEALED_ALLOWED_SEC:
        wrong = f"a row has been unsealed for {unsealed:.0f} s: run manage.py verify_audit"
    elif unshipped > audit.UNSEALED_ALLOWED_SEC:
        wrong = f"no head was sent to WMS2_AUDIT_HEAD_URL for {unshipped:.0f} s"
    else:
        wrong = ""
    return Part("audit", works=not wrong, detail=wrong)


def _workers(queue: str, workers: dict[str, int] | None) -> Part:
    if workers is None:
        return Part(f"workers.{queue}", works=False, detail="Redis does not answer")
    found = workers[queue]
    return Part(f"workers.{queue}", works=found > 0, detail="" if found else "no worker serves this queue")


def _asked() -> list[Part]:
    """Run the registered checks concurrently; use cached results that are fresh."""
    now = time.monotonic()
    due = [check for check in _checks.values() if _known.get(check.name, (0.0,))[0] <= now]
    executor = ThreadPoolExecutor(max_workers=max(len(due), 1), thread_name_prefix="health")
    began = {check.name: executor.submit(check.ask) for check in due}
    for check in due:
        try:
            wrong = began[check.name].result(timeout=max(0.0, now + check.timeout_sec - time.monotonic()))
        except TookTooLong:
            wrong = f"no answer in {check.timeout_sec:g} s"
        except Exception as error:  # a failing check must not stop the others
            logger.exception("the health check of %s failed", check.name)
            wrong = f"{type(error).__name__}: {error}"[:300]
        _known[check.name] = (time.monotonic() + check.keep_sec, Part(check.name, not wrong, detail=wrong))
    executor.shutdown(wait=False)
    return [_known[name][1] for name in _checks]
