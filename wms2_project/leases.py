"""Due times and leases: which rows are due, and which worker works on them.

A row is due when `next_check_at` has passed. A sweep claims due rows in one statement (SKIP LOCKED), so
several sweeps may run at the same time. A claim is a lease by the database clock: its holder updates
`heartbeat_at`; without updates the row may be claimed again.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection, models
from django.db.models.functions import Now
from django.utils import timezone

QUEUED_FOR = "queue:"
WORKED_BY = "worker:"
# Columns of a row without a lease
FREE: dict[str, Any] = {"owner": "", "heartbeat_at": None, "worker_deaths": 0}
_DUE = """next_check_at <= statement_timestamp()
      AND (owner = '' OR heartbeat_at < statement_timestamp() - make_interval(secs => %(ttl)s))"""


class Leased(models.Model):
    """Abstract row that is processed repeatedly until it is finished."""

    next_check_at = models.DateTimeField(default=timezone.now)
    owner = models.CharField(max_length=200, blank=True, default="")
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    worker_deaths = models.PositiveSmallIntegerField(default=0)
    attempt = models.PositiveIntegerField(default=0)
    last_error = models.TextField(blank=True, default="")
    last_error_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True


@dataclass(frozen=True, slots=True)
class Claim:
    """A row that was due and is now leased for delivery."""

    id: UUID | int
    status: str


def claim_due(model: type[Leased], *, statuses: Sequence[str], limit: int) -> list[Claim]:
    """Lease up to `limit` due rows in these statuses, oldest due first, in one statement.

    A lease that expired at a worker counts as a death, so that work which kills its workers is not repeated
    for ever. The CTE is materialized: as the inner side of a join its LIMIT would run once per outer row,
    and each run would lock further rows.
    """
    table = connection.ops.quote_name(model._meta.db_table)
    sql = f"""
          WITH due AS MATERIALIZED (
               SELECT id FROM {table}
                WHERE {_DUE} AND status = ANY(%(statuses)s)
                ORDER BY next_check_at LIMIT %(limit)s
                  FOR UPDATE SKIP LOCKED)
        UPDATE {table} AS t
           SET owner = %(owner)s || t.status, heartbeat_at = statement_timestamp(),
               worker_deaths = t.worker_deaths + (t.owner LIKE %(worked)s)::int
          FROM due
         WHERE t.id = due.id
     RETURNING t.id, t.status"""  # noqa: S608 — the table name is our own model's
    values = {
        "owner": QUEUED_FOR,
        "worked": WORKED_BY + "%",
        "statuses": list(statuses),
        "ttl": settings.LEASE_TTL_SEC,
        "limit": limit,
    }
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return [Claim(id=row[0], status=row[1]) for row in cursor.fetchall()]


def with_due_rows(
    groups: Mapping[str, tuple[type[Leased], Sequence[str]]],
    *,
    also: Mapping[str, str] | None = None,
    given: Mapping[str, Any] | None = None,
) -> set[str]:
    """Return the names of those groups (model, statuses) that have a row to claim, in one query.

    `also` are further names, each with the end of a SELECT that finds a row, and `given` their parameters.
    """
    parts, values = list[str](), {"ttl": settings.LEASE_TTL_SEC, **(given or {})}
    for number, (model, statuses) in enumerate(groups.values()):
        table = connection.ops.quote_name(model._meta.db_table)
        parts.append(f"EXISTS (SELECT FROM {table} WHERE {_DUE} AND status = ANY(%(statuses{number})s))")
        values[f"statuses{number}"] = list(statuses)
    further = also or {}
    parts += [f"EXISTS (SELECT {rest})" for rest in further.values()]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(parts)}", values)
        found = cursor.fetchone()
    return {name for name, is_due in zip((*groups, *further), found, strict=True) if is_due}


def claim_row(model: type[Leased], row_id: UUID | str, *, statuses: Sequence[str]) -> Claim | None:
    """Lease this row for delivery, if it is due, free and in one of these statuses."""
    table = connection.ops.quote_name(model._meta.db_table)
    sql = f"""
        UPDATE {table} SET owner = %(owner)s || status, heartbeat_at = statement_timestamp()
         WHERE id = %(id)s AND owner = '' AND status = ANY(%(statuses)s)
           AND next_check_at <= statement_timestamp()
     RETURNING id, status"""  # noqa: S608 - the table name is our own model's
    with connection.cursor() as cursor:
        cursor.execute(sql, {"owner": QUEUED_FOR, "id": row_id, "statuses": list(statuses)})
        row = cursor.fetchone()
    return None if row is None else Claim(id=row[0], status=row[1])


def release(row: Leased, *, seconds: float, **changes: Any) -> None:
    """End the lease of the row and make it due in so many seconds."""
    give_back(type(row)._base_manager.filter(pk=row.pk), seconds=seconds, **changes)


def give_back(rows: models.QuerySet[Any], *, seconds: float, **changes: Any) -> int:
    """End the leases of these rows like `release`; return how many there were."""
    return rows.update(**(FREE | {"next_check_at": Now() + timedelta(seconds=seconds)} | changes))


def wake(rows: models.QuerySet[Any]) -> int:
    """Make these rows due now; return how many."""
    return rows.update(next_check_at=Now())


@contextmanager
def working_on(row: Leased) -> Iterator[None]:
    """Hold the lease for this worker and renew it until the block ends."""
    rows = type(row)._base_manager.filter(pk=row.pk)
    owner = f"{WORKED_BY}{socket.gethostname()}:{os.getpid()}"
    rows.update(owner=owner, heartbeat_at=Now())
    stopped = threading.Event()

    def renew() -> None:
        try:
            while not stopped.wait(settings.LEASE_PULSE_SEC):
                rows.filter(owner=owner).update(heartbeat_at=Now())
        finally:
            connection.close()  # this thread's own connection, opened only if the work outlived one interval

    thread = threading.Thread(target=renew, name="lease-renewal", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(timeout=2)


def backoff_seconds(attempt: int) -> float:
    """Return the wait after the n-th error in a row (1, 2, …): doubling, bounded."""
    doubled = settings.ERROR_BACKOFF_BASE_SEC * 2 ** min(attempt - 1, 20)
    return float(min(doubled, settings.ERROR_BACKOFF_MAX_SEC))
