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


def limits_of(shares: Collection[Share]) -> dict[Share, Numbers]:
    """Return the effective limits of each name."""
    wanted = {name for _, name in shares} | {DEFAULT}
    rows = {(row.scope, row.name): row for row in Quota.objects.filter(name__in=wanted)}
    scopes = {scope for scope, _ in shares}
    rest = {scope: rows.get((scope, DEFAULT)) or default_of(scope) for scope in scopes}
    return {share: _effective(rows.get(share), rest[share[0]]) for share in shares}


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
    limits, usage = limits_of(wanted), usage_of(wanted, now=now)
    named = Quota.objects.filter(name__in={name for _, name in wanted})
    rows = {(row.scope, row.name): row for row in named}
    found = []
    for scope, name in wanted:
        row = rows.get((scope, name))
        found.append(
            QuotaState(
                scope, name, limits[scope, name],
                usage=usage[scope, name] if name != DEFAULT else None,
                own=[what for what in LIMITS if getattr(row, what, None) is not None],
                updated_by=row.updated_by if row else "",
                updated_at=row.updated_at if row else None,
                version=row.version if row else 0,
            )
        )  # fmt: skip
    return found


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
    shares: Collection[Share],
    *,
    now: datetime,
    without: UUID | None = None,
    of: Collection[str] = tuple(LIMITS),
) -> dict[Share, Numbers]:
    """Return the usage of each name for the limits `of`, `without` this request."""
    if not shares:
        return {}
    names: dict[str, list[str]] = {scope: [] for scope in QuotaScope}
    for scope, name in shares:
        names[scope].append(name)
    concerned = Q(*(Q(**{f"{scope}__in": some}) for scope, some in names.items() if some), _connector=Q.OR)
    rows = Request.objects.filter(concerned).order_by()
    rows = rows if without is None else rows.exclude(pk=without)
    used = {share: dict.fromkeys(of, 0.0) for share in shares}
    for what in of:
        for requestor, group, number in _USAGE[what](rows, now):
            for share in ((QuotaScope.REQUESTOR, requestor), (QuotaScope.GROUP, group)):
                if share in used:
                    used[share][what] += number
    return {
        share: {what: ceil(number) for what, number in numbers.items()} for share, numbers in used.items()
    }


Counted = Iterable[tuple[str, str, float]]  # requestor, group, number
_OWNERS = ("requestor", "group")


def _counted(rows: QuerySet[Request]) -> Counted:
    return rows.values_list(*_OWNERS).annotate(n=Count("pk"))


def _open(rows: QuerySet[Request]) -> QuerySet[Request]:
    return rows.exclude(status__in=sorted(TERMINAL))


def _submitted(rows: QuerySet[Request], now: datetime) -> QuerySet[Request]:
    """Return the requests stored within the last hour. Restarts do not count."""
    return rows.filter(created_at__gt=now - _HOUR).exclude(source="restart")


def _queued_jobs(rows: QuerySet[Request], _now: datetime) -> Counted:
    """Count unfinished jobs of DAGs that are queued or being submitted.

    A DAG of a queued request is not counted: it waits for quota itself.
    """
    dag = "workflow__dags__"
    going = Q(**{f"{dag}status__in": sorted(IN_QUEUE)}) | Q(
        **{f"{dag}status": DAGStatus.READY}, status__in=sorted(TAKES_CAPACITY)
    )
    left = F(f"{dag}round__jobs") * 1.0 * (F(f"{dag}total_nodes") - F(f"{dag}nodes_done"))
    live = rows.filter(going, **{f"{dag}total_nodes__gt": 0})
    return live.values_list(*_OWNERS).annotate(n=Sum(left / F(f"{dag}total_nodes")))


def _storage_gb(rows: QuerySet[Request], _now: datetime) -> Counted:
    """Return the expected output of running requests."""
    running = rows.filter(status__in=sorted(TAKES_CAPACITY)).values_list(*_OWNERS, *_SIZE)
    return ((requestor, group, expected_gb(*columns)) for requestor, group, *columns in running)


_USAGE: dict[str, Callable[[QuerySet[Request], datetime], Counted]] = {
    "open_requests": lambda rows, _now: _counted(_open(rows)),
    "submissions_per_hour": lambda rows, now: _counted(_submitted(rows, now)),
    "queued_jobs": _queued_jobs,
    "storage_gb": _storage_gb,
}
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
    workflow = request.workflow
    recommended = (workflow.pilot_metrics or {}).get("recommended", {})
    return expected_gb(
        workflow.input_dataset,
        workflow.total_events,
        workflow.filter_efficiency,
        workflow.input_events,
        workflow.input_events_excluded,
        workflow.size_per_event_kb,
        recommended.get("output_size_per_event_kb"),
    )


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
    limits_by_share = limits_of(shares)
    for scope, name in shares:
        rows, limits = Request.objects.filter(**{scope: name}), limits_by_share[scope, name]
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
    with transaction.atomic(savepoint=False):
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
