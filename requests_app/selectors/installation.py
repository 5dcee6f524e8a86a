"""Checks of a whole installation, each with its remedy: settings, database, queue, pool, services, host.

Parts that `/health` checks are taken from there; the other checks are about the installation of WMS2.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.request import urlopen

from django.conf import settings
from django.core.checks import run_checks
from django.db import Error as DatabaseError
from django.db import connection

from sites_app.services.storage_probe import probe_storages
from wms2_project.access import audit
from wms2_project.observation.health import health

CLOCK_ALLOWED_SEC = 5.0
DISK_ALLOWED = 0.9  # used fraction above which a file system is reported
TIMEOUT_SEC = 5.0
CURES = {
    "database": "Start PostgreSQL and check DATABASE_URL",
    "migrations": "Run manage.py migrate with the owner's DATABASE_URL",
    "redis": "Start Redis and check REDIS_URL",
    "beat": "Start a Beat: celery -A wms2_project.celery beat",
    "audit": "Run manage.py verify_audit",
    "retention": "Run manage.py retention; for the audit, with the owner's DATABASE_URL",
    "sweep": "Start more workers, or see the logs of those that run",
    "schedd": "Check CONDOR_CONFIG, WMS2_SCHEDDS and the pool",
    "space": "Free space, or lower WMS2_MIN_FREE_BYTES",
    "credentials": "Replace the named file",
    "site_sync": "Check WMS2_CRIC_URL, then run manage.py sync_sites",
    "site_slots": "Check CONDOR_CONFIG and the collector",
    "site_storage": "Check WMS2_RUCIO_URL and its login",
}
WORKERS_CURE = "Start a worker: celery -A wms2_project.celery worker -Q {}"
SERVICE_CURE = "Check its address, certificate and token in the settings"


@dataclass(frozen=True, slots=True)
class Finding:
    """One checked thing; `cure` says what to do if it does not work."""

    name: str
    works: bool
    detail: str = ""
    cure: str = ""


def examine(*, now: datetime) -> Iterator[Finding]:
    """Yield what was checked, in the order in which problems have to be fixed."""
    yield from _settings()
    for check in (_components, _clock, _disks, _streams, _audit_chain):
        yield from _apart(check, now)
    yield from _apart(_storages, now)


def _apart(check: Callable[[datetime], Iterator[Finding]], now: datetime) -> Iterator[Finding]:
    """Yield the findings of a check; one that breaks is a finding, and the others still run."""
    try:
        yield from check(now)
    except (DatabaseError, OSError) as error:
        yield Finding(
            check.__name__.strip("_"), False, f"{type(error).__name__}: {error}", "Fix the above first"
        )


def _settings() -> Iterator[Finding]:
    serious = [message for message in run_checks() if message.is_serious()]
    for message in serious:
        yield Finding("settings", False, message.msg, message.hint or "")
    if not serious:
        yield Finding("settings", True, "all checks passed")


def _components(_now: datetime) -> Iterator[Finding]:
    for part in health():
        queue = part.name.removeprefix("workers.")
        cure = WORKERS_CURE.format(queue) if queue != part.name else CURES.get(part.name, SERVICE_CURE)
        yield Finding(part.name, part.works, part.detail or ("" if part.works else "does not answer"), cure)


def _clock(_now: datetime) -> Iterator[Finding]:
    """Compare this host's clock with that of the database, by which leases are kept."""
    with connection.cursor() as cursor:
        before = datetime.now(UTC)
        cursor.execute("SELECT clock_timestamp()")
        (there,) = cursor.fetchone() or (before,)
    apart = abs((there - before).total_seconds())
    works = apart <= CLOCK_ALLOWED_SEC
    yield Finding("clock", works, f"{apart:.1f} s from the database's", "Synchronise both hosts (NTP)")


def _disks(_now: datetime) -> Iterator[Finding]:
    for path in dict.fromkeys(filter(None, (settings.SUBMIT_ROOT, settings.STATE_DIR))):
        if not Path(path).is_dir():
            yield Finding(
                f"disk {path}", False, "there is no such directory", "Create it, or correct the setting"
            )
            continue
        usage = shutil.disk_usage(path)
        share = usage.used / usage.total
        yield Finding(f"disk {path}", share <= DISK_ALLOWED, f"{share:.0%} used", "Free space, or move it")


def _streams(_now: datetime) -> Iterator[Finding]:
    """Check the process of live pages. Without it, pages poll."""
    if not settings.STREAMS_PORT:
        return
    url = f"http://127.0.0.1:{settings.STREAMS_PORT}/streams/livez"
    try:
        with urlopen(url, timeout=TIMEOUT_SEC) as answer:
            yield Finding("streams", answer.status == 200, f"{url} answers")
    except OSError as error:
        yield Finding("streams", False, f"{url}: {error}", "Start uvicorn console.streams.asgi:application")


def _audit_chain(_now: datetime) -> Iterator[Finding]:
    flaw = next(audit.flaws(), "")
    yield Finding("audit chain", not flaw, flaw or "intact", "Compare with the heads in the logs")


def _storages(now: datetime) -> Iterator[Finding]:
    for probe in probe_storages(now=now):
        name = f"storage {probe.site} {probe.prefix}".rstrip()
        yield Finding(name, probe.works, probe.detail, "Check the prefix and the token of this process")
