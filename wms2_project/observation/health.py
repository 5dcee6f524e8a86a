"""Is WMS2 able to work? One short, bounded question to each part it stands on.

Every layer registers its own checks when its application starts; nothing here knows them.
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


@dataclass(frozen=True, slots=True)
class Check:
    """A question about one part outside this process: it answers what is wrong, or nothing.

    It runs in a thread of its own, so it must not use the database, and its answer is kept for a while:
    anybody may ask for health, as often as they like.
    """

    name: str
    ask: Callable[[], str]
    timeout_sec: float = _TIMEOUT_SEC
    keep_sec: float = 10.0


_checks: dict[str, Check] = {}
_known: dict[str, tuple[float, Part]] = {}
_local_checks: list[Callable[[], list[Part]]] = []


def register(check: Check) -> None:
    """Ask this too, whenever somebody asks for health."""
    _checks[check.name] = check
    _known.pop(check.name, None)


def register_local(check: Callable[[], list[Part]]) -> None:
    """Ask this in the calling thread: it may use the database."""
    if check not in _local_checks:
        _local_checks.append(check)


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
            logger.exception("the migrations of the database cannot be read")
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


def beat_leads() -> bool:
    """Does some Beat hold the leader lock?"""
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
    """The outside services, as the guards of all workers see them; work that needs none of them goes on."""
    said = {outage.service: outage.message for outage in outages(settings.REDIS_URL, now=time.time())}
    return [Part(name, works=name not in said, detail=said.get(name, "")) for name in SERVICES]


def readiness() -> list[Part]:
    """What must work before this process takes calls; the rest may be away, writes wait in PostgreSQL."""
    return [*_own(), *services()]


def health() -> list[Part]:
    """Ourselves, whether anybody works on what the API takes in, and what the layers above registered."""
    parts = _own()
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
    """The registered checks, all at once; what is known and fresh is not asked again."""
    now = time.monotonic()
    due = [check for check in _checks.values() if _known.get(check.name, (0.0,))[0] <= now]
    executor = ThreadPoolExecutor(max_workers=max(len(due), 1), thread_name_prefix="health")
    began = {check.name: executor.submit(check.ask) for check in due}
    for check in due:
        try:
            wrong = began[check.name].result(timeout=max(0.0, now + check.timeout_sec - time.monotonic()))
        except TookTooLong:
            wrong = f"no answer in {check.timeout_sec:g} s"
        except Exception as error:  # whatever it is, the part does not work and the others are asked
            logger.exception("%s cannot be asked", check.name)
            wrong = f"{type(error).__name__}: {error}"[:300]
        _known[check.name] = (time.monotonic() + check.keep_sec, Part(check.name, not wrong, detail=wrong))
    executor.shutdown(wait=False)
    return [_known[name][1] for name in _checks]
