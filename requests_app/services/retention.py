"""Retention: removal of old rows, by one table of policies.

Rows are removed in batches of short transactions, oldest first, for a bounded time with pauses. A call that
is interrupted is continued by the next one. Nothing is removed before what is to stay of it is stored: the
ledger of input files, the file of audit rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import Error as DatabaseError
from django.db.models import F, QuerySet

from dags_app.models import DAGEvent, Workflow
from dags_app.services.input_folding import fold_input, foldable_files
from requests_app.models import Request, RetentionRecord
from requests_app.states import TERMINAL
from wms2_project.access import audit_archive
from wms2_project.errors import Wms2Error
from wms2_project.locks import try_lock
from wms2_project.time_budget import TimeBudget

logger = logging.getLogger(__name__)
BATCH = 2_000
REQUESTS_PER_CALL = 20_000
LAG_ALLOWED = timedelta(days=7)  # then health reports it


@dataclass(frozen=True, slots=True)
class Policy:
    """One kind of rows, and how long they are kept. All functions take the time before which rows are old."""

    name: str
    setting: str  # days
    count: Callable[[datetime], int]
    oldest: Callable[[datetime], datetime | None]  # time of the oldest row that is too old; None without any
    remove: Callable[[datetime, TimeBudget], int]  # how many; Wms2Error or OSError if it cannot

    def limit(self, now: datetime) -> datetime:
        """Return the time before which rows are removed."""
        return now - timedelta(days=getattr(settings, self.setting))


@dataclass(frozen=True, slots=True)
class Outcome:
    """Rows of one policy: removed, or to be removed in a dry run."""

    name: str
    limit: datetime
    rows: int
    message: str = ""


class NotOwner(Wms2Error):
    """The database role of this process may not delete rows that are to be removed."""

    code = "not_owner"


def plan_retention(*, now: datetime, only: Collection[str] = ()) -> list[Outcome]:
    """Return how many rows are past their time. Nothing is changed."""
    chosen = [policy for policy in POLICIES if not only or policy.name in only]
    return [Outcome(one.name, one.limit(now), one.count(one.limit(now))) for one in chosen]


def apply_retention(
    *, now: datetime, seconds: float, only: Collection[str] = (), rest: float = 1.0
) -> list[Outcome]:
    """Remove rows that are past their time, for about so many seconds per policy. Only one runs at a time."""
    with try_lock("retention") as held:
        if not held:
            return []
        chosen = [policy for policy in POLICIES if not only or policy.name in only]
        return [_apply(policy, now=now, budget=TimeBudget(seconds=seconds, rest=rest)) for policy in chosen]


def retention_lags(*, now: datetime) -> dict[str, timedelta]:
    """Return, by policy, for how long its oldest row has been past its time."""
    found = {policy.name: (policy.limit(now), policy.oldest(policy.limit(now))) for policy in POLICIES}
    return {
        name: max(limit - oldest, timedelta(0)) if oldest else timedelta(0)
        for name, (limit, oldest) in found.items()
    }


def _apply(policy: Policy, *, now: datetime, budget: TimeBudget) -> Outcome:
    limit, rows, message = policy.limit(now), 0, ""
    record, _ = RetentionRecord.objects.get_or_create(name=policy.name)
    try:
        rows = policy.remove(limit, budget)
    except (Wms2Error, OSError, DatabaseError) as error:
        message = f"{error}"
        logger.warning("retention of %s: %s", policy.name, message)
    RetentionRecord.objects.filter(pk=record.pk).update(
        removed=F("removed") + rows, ran_at=now, message=message
    )
    return Outcome(policy.name, limit, rows, message)


def _ended(limit: datetime) -> QuerySet[Request]:
    """Return the requests that ended before the limit and have not been folded, oldest end first."""
    through = RetentionRecord.objects.filter(name=FILES).values_list("through", flat=True).first()
    ended = Request.objects.filter(status__in=sorted(TERMINAL), status_since__lt=limit)
    return (ended.filter(status_since__gte=through) if through else ended).order_by("status_since", "pk")


def _count_files(limit: datetime) -> int:
    return foldable_files(Workflow.objects.filter(pk__in=_ended(limit).order_by().values("workflow"))).count()


def _oldest_files(limit: datetime) -> datetime | None:
    return _ended(limit).values_list("status_since", flat=True).first()


def _fold_files(limit: datetime, budget: TimeBudget) -> int:
    """Fold the input of ended requests in the order of their ends, and record the progress."""
    rows = list(_ended(limit).values_list("workflow_id", "status_since")[:REQUESTS_PER_CALL])
    through = limit if len(rows) < REQUESTS_PER_CALL else rows[-1][1]
    removed = 0
    for workflow_id, ended_at in rows:
        if not budget.goes_on():
            through = ended_at
            break
        count, all_gone = fold_input(workflow=Workflow.objects.get(pk=workflow_id), budget=budget)
        removed += count
        if not all_gone:
            through = ended_at
            break
    RetentionRecord.objects.filter(name=FILES).update(through=through)
    return removed


def _oldest_event(limit: datetime) -> datetime | None:
    times = DAGEvent.objects.order_by("id").values_list("at", flat=True)[:BATCH]
    return min((at for at in times if at < limit), default=None)


def _remove_events(limit: datetime, budget: TimeBudget) -> int:
    """Remove events in the order of their ids, which is nearly that of their times: no index is needed.

    A row that a wrong clock made younger stays among the first ones and stops nothing.
    """
    removed = 0
    while budget.goes_on():
        rows = DAGEvent.objects.order_by("id").values_list("id", "at")[:BATCH]
        keys = [key for key, at in rows if at < limit]
        if not keys:
            break
        removed += DAGEvent.objects.filter(pk__in=keys).delete()[0]
    return removed


def _oldest_audit(limit: datetime) -> datetime | None:
    oldest = audit_archive.oldest_row()
    return oldest if oldest is not None and oldest < limit else None


def _remove_audit(limit: datetime, budget: TimeBudget) -> int:
    while budget.goes_on() and audit_archive.export_rows(before=limit):
        pass
    if not audit_archive.may_delete():
        if audit_archive.exported_rows().exists():
            raise NotOwner(
                "audit rows are in files and wait to be deleted, which this database role may not do",
                cure="Run manage.py retention --only audit as the owner of the tables",
            )
        return 0
    removed = 0
    while budget.goes_on() and (count := audit_archive.delete_exported()):
        removed += count
    return removed


FILES = "files"
POLICIES = (
    Policy(FILES, "KEEP_FILES_DAYS", _count_files, _oldest_files, _fold_files),
    Policy(
        "events",
        "KEEP_EVENTS_DAYS",
        lambda limit: DAGEvent.objects.filter(at__lt=limit).count(),
        _oldest_event,
        _remove_events,
    ),
    Policy(
        "audit",
        "KEEP_AUDIT_DAYS",
        lambda limit: audit_archive.old_rows(before=limit),
        _oldest_audit,
        _remove_audit,
    ),
)
