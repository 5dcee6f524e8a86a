"""Schedds: choice for the next DAG, answers and limits; drain, fence and enable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Q
from django.utils import timezone

from condor.types import ScheddLimits
from dags_app.adapters import schedd, schedd_names
from dags_app.models import DAG, Schedd
from dags_app.schedd_choice import Candidate, decide_schedd, has_room, share_groups
from dags_app.states import IN_QUEUE, LIVE_DAG, DAGStatus, ScheddStatus
from wms2_project.access import audit
from wms2_project.changes import Topic, announce, request_topic
from wms2_project.errors import Conflict, NotFound, ScheddUnreachable, TransientError
from wms2_project.wakeups import SCHEDDS, wake_waiting

_WAITING = (DAGStatus.READY, DAGStatus.SUBMITTED)
COUNT_SEC = 10.0  # how often a schedd's DAGMans are counted
_COUNT_VALID_SEC = 60.0  # older counts are ignored
Schedds = dict[str, Schedd]  # by name


def known_schedds() -> list[Schedd]:
    """Return a row for every schedd of the settings, and for others that still run DAGs."""
    try:
        names = set(schedd_names())
    except ScheddUnreachable:  # the name of the pool's own schedd is unknown then
        names = set(Schedd.objects.values_list("name", flat=True))
    Schedd.objects.bulk_create([Schedd(name=name) for name in sorted(names)], ignore_conflicts=True)
    busy = DAG.objects.filter(status__in=sorted(LIVE_DAG)).exclude(schedd_name="").values("schedd_name")
    return list(Schedd.objects.filter(Q(name__in=names) | Q(name__in=busy)).order_by("name"))


def schedd_rows() -> Schedds:
    """Return all schedds that WMS2 has a row of; there are few, so that callers read them once."""
    return {row.name: row for row in Schedd.objects.order_by("name")}


def _known(rows: Schedds | None) -> Schedds:
    return schedd_rows() if rows is None else rows


def open_schedds(rows: Schedds | None = None) -> list[str]:
    """Return the schedds that take new DAGs; one without a row does."""
    known = _known(rows)
    return [
        name for name in schedd_names() if name not in known or known[name].status == ScheddStatus.ENABLED
    ]


def all_closed(rows: Schedds | None = None) -> bool:
    """Return whether no schedd takes DAGs. If none is closed, the pool is not queried."""
    known = _known(rows)
    return any(row.status != ScheddStatus.ENABLED for row in known.values()) and not open_schedds(known)


def is_fenced(name: str, rows: Schedds | None = None) -> bool:
    """Return whether the schedd is fenced: it is not queried."""
    row = _known(rows).get(name)
    return row is not None and row.status == ScheddStatus.FENCED


def choose_schedd(rows: Schedds | None = None) -> str:
    """Return the schedd for the next DAG: open, answering, with most free scheduler slots."""
    known, now = _known(rows), timezone.now()
    names = open_schedds(known)
    if not names:
        raise TransientError("every schedd is draining or fenced", cure="Enable one. Retried automatically")
    asked = [name for name in names if may_be_asked(name, known, now=now)]
    limits = {name: found for name in asked if (found := _ask_limits(name, known)) is not None}
    if not limits:
        raise ScheddUnreachable("no schedd answers", cure="Retried automatically")
    counts = {name: (one.allowed, one.scheduler_jobs_running) for name, one in limits.items()}
    chosen = decide_schedd(_candidates(counts))
    if chosen is None:
        raise TransientError(
            f"{', '.join(sorted(limits))}: no free scheduler slots for a DAG and one of its groups",
            cure="Retried automatically. MAX_RUNNING_SCHEDULER_JOBS_PER_OWNER and START_SCHEDULER_UNIVERSE"
            " set the limits",
        )
    return chosen


def _ask_limits(name: str, rows: Schedds) -> ScheddLimits | None:
    """Return the schedd's limits; None if it does not answer."""
    try:
        limits = schedd(name).limits()
    except ScheddUnreachable:
        note_silence(name, now=timezone.now())
        return None
    note_answer(name, now=timezone.now())
    note_limits(name, limits, rows, now=timezone.now())
    return limits


def _candidates(counts: Mapping[str, tuple[int | None, int]]) -> list[Candidate]:
    """Add WMS2's own DAGs to each schedd's limit and number of running DAGMans."""
    counted = (
        DAG.objects.filter(status__in=sorted(LIVE_DAG), schedd_name__in=list(counts))
        .values("schedd_name")
        .annotate(dags=Count("id"), waiting=Count("id", filter=Q(status__in=_WAITING)))
    )
    load = {row["schedd_name"]: (row["waiting"], row["dags"]) for row in counted}
    return [Candidate(name, *count, *load.get(name, (0, 0))) for name, count in counts.items()]


def groups_of_next_dag(name: str) -> int | None:
    """Return how many groups the next DAG may run there at a time, by the limit read last; None: no limit."""
    allowed = Schedd.objects.filter(name=name).values_list("dagmans_allowed", flat=True).first()
    dags = DAG.objects.filter(status__in=sorted(IN_QUEUE), schedd_name=name).count()
    return share_groups(allowed=allowed, dags=dags + 1)


def count_is_due(name: str, rows: Schedds | None = None, *, now: datetime) -> bool:
    """Return whether the last count of the schedd's DAGMans is too old."""
    row = _known(rows).get(name)
    return row is None or row.counted_at is None or row.counted_at <= now - timedelta(seconds=COUNT_SEC)


def note_limits(name: str, limits: ScheddLimits, rows: Schedds | None = None, *, now: datetime) -> None:
    """Store how many DAGMans the schedd allows and runs; wake waiting requests if fewer run than before."""
    before = _known(rows).get(name)
    was = before.dagmans_running if before is not None else 0
    Schedd.objects.filter(name=name).update(
        dagmans_allowed=limits.allowed, dagmans_running=limits.scheduler_jobs_running, counted_at=now
    )
    if limits.scheduler_jobs_running < was:
        wake_waiting(SCHEDDS)


def full_schedds(rows: Schedds | None = None, *, now: datetime) -> list[Schedd]:
    """Return the open schedds that answer if none has room for a DAG and one of its groups; else nothing.

    This uses the last counts. A schedd without a recent count may have room.
    """
    known, valid = _known(rows), now - timedelta(seconds=_COUNT_VALID_SEC)
    silent = {name for name, row in known.items() if row.silent_since is not None}
    counts = {
        name: (row.dagmans_allowed, row.dagmans_running)
        for name, row in known.items()
        if name not in silent and row.counted_at is not None and row.counted_at > valid
    }
    limited = {name: count for name, count in counts.items() if count[0] is not None}
    full = {one.name for one in _candidates(limited) if not has_room(one)} if limited else set()
    usable = [name for name in open_schedds(known) if name not in silent] if full else []
    return [known[name] for name in usable] if usable and full.issuperset(usable) else []


def may_be_asked(name: str, rows: Schedds | None = None, *, now: datetime) -> bool:
    """Return whether to query the schedd: a silent one only after a pause, because it delays the others."""
    row = _known(rows).get(name)
    if row is None or row.silent_since is None or row.asked_at is None:
        return True
    return row.asked_at <= now - timedelta(seconds=settings.SCHEDD_ASK_AGAIN_SEC)


def note_answer(name: str, *, now: datetime) -> None:
    """Record that the schedd answered."""
    _note(name, {"asked_at": now, "answered_at": now}, silent_since=None)


def note_silence(name: str, *, now: datetime) -> None:
    """Record that the schedd did not answer, and since when."""
    _note(name, {"asked_at": now}, silent_since=now)


def _note(name: str, values: dict[str, datetime], *, silent_since: datetime | None) -> None:
    """Store the values. If the schedd stopped or resumed answering, announce it with its requests."""
    rows = Schedd.objects.filter(name=name)
    if not name or rows.filter(silent_since__isnull=silent_since is None).update(**values):
        return
    changed = values | {"silent_since": silent_since}
    if not rows.update(**changed):
        Schedd.objects.get_or_create(name=name, defaults=changed)
    queued = DAG.objects.filter(status__in=sorted(IN_QUEUE), schedd_name=name)
    requests = queued.values_list("workflow__request_name", flat=True)
    announce(Topic.FLEET, *map(request_topic, requests))


def silent_schedds(rows: Schedds | None = None, *, now: datetime) -> list[Schedd]:
    """Return schedds that have been silent for longer than the alert limit."""
    long_ago = now - timedelta(seconds=settings.SCHEDD_SILENT_ALERT_SEC)
    known = _known(rows).values()
    return [row for row in known if row.silent_since is not None and row.silent_since <= long_ago]


def is_silent(name: str, rows: Schedds | None = None) -> bool:
    """Return whether the schedd did not answer last."""
    row = _known(rows).get(name)
    return row is not None and row.silent_since is not None


def workflows_on(rows: Iterable[Schedd]) -> list[UUID]:
    """Return the workflows whose DAG is in the queue of one of these schedds."""
    names = [row.name for row in rows]
    queued = DAG.objects.filter(status__in=sorted(IN_QUEUE), schedd_name__in=names)
    return list(queued.values_list("workflow_id", flat=True))


def to_be_emptied(rows: Schedds | None = None, *, now: datetime) -> list[Schedd]:
    """Return fenced schedds, and draining ones whose deadline has passed."""
    return [
        row
        for row in _known(rows).values()
        if row.status == ScheddStatus.FENCED
        or (row.status == ScheddStatus.DRAINING and row.drain_deadline and row.drain_deadline <= now)
    ]


def drain_schedd(*, name: str, actor: str, reason: str, deadline: datetime | None = None) -> Schedd:
    """Send no new DAGs to the schedd. At the deadline, if any, its DAGs are stopped and resume elsewhere."""
    return _set_status(name, ScheddStatus.DRAINING, deadline=deadline, reason=reason, actor=actor)


def fence_schedd(*, name: str, actor: str, reason: str) -> Schedd:
    """Fence a lost schedd, at which nothing runs any more: its DAGs end as stopped and resume elsewhere.

    Raise Conflict while it answers, because then it can be drained.
    """
    audit.need_reason(reason)
    known = {row.name: row for row in known_schedds()}
    if name in known and known[name].silent_since is None:
        raise Conflict(f"{name} is not known to be silent", cure="Drain it, with a deadline if necessary")
    return _set_status(name, ScheddStatus.FENCED, deadline=None, reason=reason, actor=actor)


def enable_schedd(*, name: str, actor: str, reason: str) -> Schedd:
    """Submit new DAGs to the schedd again."""
    return _set_status(name, ScheddStatus.ENABLED, deadline=None, reason=reason, actor=actor)


def _remove_left_behind(name: str) -> None:
    """Remove DAGs from the schedd that have continued elsewhere."""
    port = schedd(name)
    found = DAG.objects.filter(token__in=list(port.query_dags()))
    for dag in found.exclude(schedd_name=name, status__in=sorted(LIVE_DAG)):
        port.clear_batch(dag.token, reason="it continues at another schedd")


def _set_status(
    name: str, status: ScheddStatus, *, deadline: datetime | None, reason: str, actor: str
) -> Schedd:
    """Set the status. A schedd that is no longer fenced must answer, and its old DAGs are removed."""
    audit.need_reason(reason)
    known = {row.name: row for row in known_schedds()}
    if name not in known:
        raise NotFound(f"There is no schedd {name}", cure="GET /api/v1/schedds lists them")
    if status is not ScheddStatus.FENCED and is_fenced(name, known):
        _remove_left_behind(name)
    with transaction.atomic():
        row = Schedd.objects.select_for_update().get(name=name)
        row.status, row.drain_deadline, row.reason = status, deadline, reason
        row.version += 1
        row.save()
        ends = deadline.isoformat() if deadline is not None else None
        audit.record(actor=actor, action=status.value, target=name, reason=reason, deadline=ends)
        wake_waiting(SCHEDDS)
    return row
