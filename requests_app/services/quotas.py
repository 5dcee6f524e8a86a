"""Quotas of requestors and groups: limits that operators change at any time, and their usage.

Open requests and submissions are checked when a request is stored, queued jobs and storage at a gate before
admission. A request without a group counts for its requestor only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, make_dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Annotated, Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Count, F, Q, QuerySet, Sum

from dags_app.states import IN_QUEUE, DAGStatus
from requests_app.models import Quota, Request
from requests_app.states import TAKES_CAPACITY, TERMINAL, QuotaScope, RequestStatus
from wms2_project.access import audit
from wms2_project.changes import Topic, announce
from wms2_project.errors import InvalidInput, QuotaExceeded, StaleVersion
from wms2_project.grammar import Name, matches
from wms2_project.leases import wake
from wms2_project.locks import lock_key
from wms2_project.wakeups import wake_waiting

GATE = "quota"  # name of the gate
DEFAULT = "*"  # name of the default row
MAX_NAME = 100
WOKEN = 100  # requests woken when a requestor or group has free quota
_HOUR = timedelta(hours=1)
_KB_PER_GB = 1_000_000


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit of a quota: default values, maximum, and unit in messages."""

    unit: str
    requestor: int
    group: int
    most: int
    help: str


LIMITS: dict[str, Limit] = {
    "open_requests": Limit(
        "open requests", 20_000, 100_000, 10_000_000, "Maximum open requests, drafts included."
    ),
    "submissions_per_hour": Limit(
        "submissions in the last hour", 20_000, 100_000, 10_000_000, "Maximum requests submitted per hour."
    ),
    "queued_jobs": Limit(
        "queued jobs", 5_000_000, 20_000_000, 1_000_000_000, "Maximum unfinished jobs of submitted DAGs."
    ),
    "storage_gb": Limit(
        "GB of storage", 50_000_000, 200_000_000, 10**12, "Maximum expected output of running requests (GB)."
    ),
}
Share = tuple[QuotaScope, str]
Numbers = dict[str, int]
QuotaNumbers = make_dataclass(
    "QuotaNumbers",
    [(name, Annotated[int, limit.help]) for name, limit in LIMITS.items()],
    namespace={"__doc__": "One number per limit."},
)


@dataclass(frozen=True, slots=True)
class QuotaState:
    """Limits and usage of one requestor or group. The default has no usage."""

    scope: QuotaScope
    name: Annotated[str, "`*` is the default."]
    limits: Annotated[Numbers, QuotaNumbers]
    usage: Annotated[Numbers | None, QuotaNumbers]
    own: Annotated[list[str], "Limits set for this name; the others come from `*`."]
    updated_by: str
    updated_at: datetime | None
    version: int


def shares_of(request: Request) -> list[Share]:
    """Return the quotas the request counts against."""
    group = [(QuotaScope.GROUP, request.group)] if request.group else []
    return [(QuotaScope.REQUESTOR, request.requestor), *group]


def default_of(scope: QuotaScope) -> Quota:
    """Return the default quota; created on first use."""
    first = {name: getattr(limit, scope) for name, limit in LIMITS.items()}
    return Quota.objects.get_or_create(scope=scope, name=DEFAULT, defaults=first)[0]


def limits_of(scope: QuotaScope, names: Iterable[str]) -> dict[str, Numbers]:
    """Return the effective limits of each name."""
    wanted = set(names)
    rows = {row.name: row for row in Quota.objects.filter(scope=scope, name__in=wanted | {DEFAULT})}
    rest = rows.get(DEFAULT) or default_of(scope)
    return {name: _effective(rows.get(name), rest) for name in wanted}


def known_shares() -> list[Share]:
    """Return every name with a quota or open requests, the defaults first."""
    found: set[Share] = set()
    for scope in QuotaScope:
        default_of(scope)
        named = Quota.objects.filter(scope=scope).values_list("name", flat=True)
        active = _open(Request.objects.exclude(**{scope: ""})).order_by().values_list(scope, flat=True)
        found.update((scope, name) for name in {*named, *active.distinct()})
    return sorted(found, key=lambda share: (share[1] != DEFAULT, share))


def states_of(shares: Iterable[Share], *, now: datetime) -> list[QuotaState]:
    """Return limits and usage of these names, in their order."""
    wanted = list(shares)
    found: dict[Share, QuotaState] = {}
    for scope in {scope for scope, _ in wanted}:
        names = [name for one, name in wanted if one is scope]
        limits, usage = limits_of(scope, names), usage_of(scope, names, now=now)
        rows = {row.name: row for row in Quota.objects.filter(scope=scope, name__in=names)}
        for name in names:
            row = rows.get(name)
            found[scope, name] = QuotaState(
                scope, name, limits[name],
                usage=usage[name] if name != DEFAULT else None,
                own=[what for what in LIMITS if getattr(row, what, None) is not None],
                updated_by=row.updated_by if row else "",
                updated_at=row.updated_at if row else None,
                version=row.version if row else 0,
            )  # fmt: skip
    return [found[share] for share in wanted]


def state_of(row: Quota, *, now: datetime) -> QuotaState:
    """Return limits and usage of the name the quota is for."""
    return states_of([(QuotaScope(row.scope), row.name)], now=now)[0]


def quota_of(scope: str, name: str) -> Quota:
    """Return the quota of this name; an unsaved one if none is set."""
    return Quota.objects.filter(scope=scope, name=name).first() or Quota(scope=scope, name=name)


def _effective(own: Quota | None, rest: Quota) -> Numbers:
    values = {name: getattr(own, name, None) for name in LIMITS}
    return {name: getattr(rest, name) if value is None else value for name, value in values.items()}


def usage_of(
    scope: QuotaScope,
    names: Collection[str],
    *,
    now: datetime,
    without: UUID | None = None,
    of: Collection[str] = tuple(LIMITS),
) -> dict[str, Numbers]:
    """Return the usage of each name for the limits `of`, `without` this request."""
    rows = Request.objects.filter(**{f"{scope}__in": list(names)}).order_by()
    rows = rows if without is None else rows.exclude(pk=without)
    count: dict[str, Callable[[], dict[str, int]]] = {
        "open_requests": lambda: _counted(_open(rows), scope),
        "submissions_per_hour": lambda: _counted(_submitted(rows, now), scope),
        "queued_jobs": lambda: _queued_jobs(rows, scope),
        "storage_gb": lambda: _storage_gb(rows, scope),
    }
    counts = {what: count[what]() for what in of}
    return {name: {what: counts[what].get(name, 0) for what in of} for name in names}


def _counted(rows: QuerySet[Request], scope: QuotaScope) -> dict[str, int]:
    return dict(rows.values_list(scope.value).annotate(n=Count("pk")))


def _open(rows: QuerySet[Request]) -> QuerySet[Request]:
    return rows.exclude(status__in=sorted(TERMINAL))


def _submitted(rows: QuerySet[Request], now: datetime) -> QuerySet[Request]:
    """Return the requests stored within the last hour. Restarts do not count."""
    return rows.filter(created_at__gt=now - _HOUR).exclude(source="restart")


def _queued_jobs(rows: QuerySet[Request], scope: QuotaScope) -> dict[str, int]:
    """Count unfinished jobs of DAGs that are queued or being submitted.

    A DAG of a queued request is not counted: it waits for quota itself.
    """
    dag = "workflow__dags__"
    going = Q(**{f"{dag}status__in": sorted(IN_QUEUE)}) | Q(
        **{f"{dag}status": DAGStatus.READY}, status__in=sorted(TAKES_CAPACITY)
    )
    left = F(f"{dag}round__jobs") * 1.0 * (F(f"{dag}total_nodes") - F(f"{dag}nodes_done"))
    live = rows.filter(going, **{f"{dag}total_nodes__gt": 0})
    sums = live.values_list(scope.value).annotate(n=Sum(left / F(f"{dag}total_nodes")))
    return {name: ceil(jobs) for name, jobs in sums}


def _storage_gb(rows: QuerySet[Request], scope: QuotaScope) -> dict[str, int]:
    """Sum the expected output of running requests."""
    sums: dict[str, float] = {}
    running = rows.filter(status__in=sorted(TAKES_CAPACITY))
    for name, *columns in running.values_list(scope.value, *_SIZE):
        sums[name] = sums.get(name, 0.0) + expected_gb(*columns)
    return {name: ceil(gb) for name, gb in sums.items()}


# Arguments of expected_gb and the columns they are read from
_SIZE = tuple(
    f"workflow__{name}"
    for name in (
        "input_dataset", "total_events", "filter_efficiency", "input_events", "input_events_excluded",
        "size_per_event_kb", "pilot_metrics__recommended__output_size_per_event_kb",
    )
)  # fmt: skip


def storage_needed_gb(request: Request) -> float:
    """Return the expected output of the request in GB."""
    return expected_gb(*Request.objects.values_list(*_SIZE).get(pk=request.pk))


def expected_gb(
    dataset: str | None,
    wanted: int | None,
    efficiency: float,
    events: int,
    excluded: int,
    kb: float,
    pilot: Any,
) -> float:
    """Return the expected output in GB: all events at the declared or measured size, whichever is larger."""
    read = (wanted or 0) / efficiency if dataset is None else max(events - excluded, 0)
    measured = pilot if isinstance(pilot, int | float) else 0.0
    return read * max(kb, measured) / _KB_PER_GB


def check_submission(*, request: Request, now: datetime) -> None:
    """Raise QuotaExceeded if the requestor or group has no free quota for a new request.

    Call this first in the transaction that stores the request. It locks both names until the commit, so that
    concurrent calls count each other.
    """
    shares = shares_of(request)
    with connection.cursor() as cursor:
        for scope, name in sorted(shares):
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [lock_key(f"quota {scope} {name}")])
    for scope, name in shares:
        rows, limits = Request.objects.filter(**{scope: name}), limits_of(scope, [name])[name]
        owner = f"{scope} {name}"
        _check_rate(_submitted(rows, now), limits["submissions_per_hour"], owner, now)
        used, limit = _open(rows).count(), limits["open_requests"]
        if used >= limit:
            raise QuotaExceeded(
                f"{owner}: {used:,} of {limit:,} open requests",
                cure="Wait until requests end, abort some, or ask an operator for a larger quota",
            )


def _check_rate(recent: QuerySet[Request], limit: int, owner: str, now: datetime) -> None:
    used = recent.count()
    if used < limit:
        return
    # Quota is free again when fewer than `limit` submissions are younger than an hour.
    last = recent.order_by("-created_at").values_list("created_at", flat=True)[limit - 1] if limit else None
    wait = max((last + _HOUR - now).total_seconds(), 0.0) if last is not None else None
    again = "" if wait is None else f"Submit again in {int(wait) + 1} s, or "
    raise QuotaExceeded(
        f"{owner}: {used:,} of {limit:,} submissions in the last hour",
        cure=f"{again}ask an operator for a larger quota".capitalize(),
        retry_after_sec=wait,
    )


def wake_behind(request: Request) -> int:
    """Make requests due that wait for the quotas this request counted against. Return their number.

    Locked rows are skipped: they are being processed, and waiting for them could deadlock.
    """
    same = Q(requestor=request.requestor) | (Q(group=request.group) if request.group else Q())
    waiting = Request.objects.filter(same, status=RequestStatus.QUEUED, wait_gate=GATE)
    with transaction.atomic():
        rows = waiting.order_by("-rank", "created_at").select_for_update(skip_locked=True)
        return wake(Request.objects.filter(pk__in=list(rows.values_list("pk", flat=True)[:WOKEN])))


def change_quota(
    *,
    scope: str,
    name: str,
    changes: Mapping[str, int | None],
    actor: str,
    reason: str,
    expected_version: int | None = None,
) -> Quota:
    """Change the quota of a requestor, a group, or the default (`*`). None resets a limit to the default."""
    audit.need_reason(reason)
    if wrong := _wrong(scope, name, changes):
        raise InvalidInput("the quota was not changed", fields=wrong)
    default_of(QuotaScope(scope))
    with transaction.atomic():
        Quota.objects.get_or_create(scope=scope, name=name)
        row = Quota.objects.select_for_update().get(scope=scope, name=name)
        if expected_version not in (None, row.version):
            raise StaleVersion(
                f"the quota of {row} changed since you read it", cure="Read it again and retry"
            )
        previous = {what: getattr(row, what) for what in changes}
        for what, value in changes.items():
            setattr(row, what, value)
        row.version += 1
        row.updated_by = actor
        row.save()
        audit.record(
            actor=actor, action="change quota", target=f"quota {row}", reason=reason,
            changes=dict(changes), previous=previous,
        )  # fmt: skip
        announce(Topic.ADMISSION)
        wake_waiting(GATE)
    return row


def _wrong(scope: str, name: str, changes: Mapping[str, int | None]) -> dict[str, str]:
    wrong: dict[str, str] = {}
    if scope not in list(QuotaScope):
        wrong["scope"] = f"must be one of {', '.join(QuotaScope)}"
    if name != DEFAULT and not (matches(Name.WORD, name) and len(name) <= MAX_NAME):
        wrong["name"] = f"must be a name of at most {MAX_NAME} letters, digits, '_', '.', '-', or {DEFAULT}"
    if not changes:
        wrong["changes"] = f"name at least one of {', '.join(LIMITS)}"
    for what, value in changes.items():
        if value is None and name == DEFAULT:
            wrong[what] = "must be a number, because it is the default"
    return wrong
