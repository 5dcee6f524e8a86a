"""A request as it was: its progress over time, and its state at an earlier time."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Annotated, Any

from django.db.models import Q

from dags_app.models import DAG
from requests_app.models import Request, StatusTransition
from requests_app.selectors.requests import timeline_of
from requests_app.states import WHY, RequestStatus
from wms2_project.errors import InvalidInput

MAX_SAMPLES = 2000
MAX_DECISIONS = 50  # the newest before the time


@dataclass(frozen=True, slots=True)
class Sample:
    """Progress at one time."""

    at: datetime
    status: str
    gate: Annotated[str, "The gate the request waited at; empty if none."]
    reason: Annotated[str, "What it waited for."]
    events_total: int
    events_done: int
    events_running: int
    events_excluded: int
    groups_total: int
    groups_done: int
    jobs_running: int
    jobs_idle: int
    jobs_held: int
    estimated_completion: datetime | None
    earliest: datetime | None
    latest: datetime | None

    @property
    def fraction(self) -> float:
        """The finished part of the events, from 0 to 1."""
        return min((self.events_done + self.events_running) / (self.events_total or 1), 1.0)


@dataclass(frozen=True, slots=True)
class History:
    """Progress samples of a request, oldest first. Older ones are farther apart."""

    request_name: str
    samples: list[Sample]


@dataclass(frozen=True, slots=True)
class Decision:
    """A status change, or an action of a person."""

    at: datetime
    kind: Annotated[str, "`status`, or the action, such as `change`."]
    from_status: str
    to_status: str
    actor: str
    reason: str
    detail: Annotated[dict[str, Any], "What an action changed."]


@dataclass(frozen=True, slots=True)
class EarlierDAG:
    """A DAG that was submitted and had not ended at that time."""

    token: str
    kind: str
    round: int
    submitted_at: datetime


@dataclass(frozen=True, slots=True)
class EarlierState:
    """A request at an earlier time, as it was recorded then."""

    request_name: str
    at: datetime
    status: str
    status_why: Annotated[str, "What this status means."]
    status_since: datetime
    reason: Annotated[str, "Reason of the last status change before that time."]
    actor: str
    wait_reason: Annotated[str, "What the request waited for; empty if it was not recorded."]
    gate: str
    hold_evidence: Annotated[dict[str, Any] | None, "Of a hold at that time: its evidence, as recorded then."]
    progress: Annotated[Sample | None, "The last sample before that time; null if there is none."]
    dags: list[EarlierDAG]
    decisions: Annotated[list[Decision], f"Newest first, at most {MAX_DECISIONS}."]


_SAMPLE = [field.name for field in fields(Sample)]
_DECISION = [field.name for field in fields(Decision)]


def history_of(request: Request) -> History:
    """Return the newest samples of the request, oldest first."""
    newest = request.samples.order_by("-at").values_list(*_SAMPLE)[:MAX_SAMPLES]
    return History(request.request_name, [Sample(*row) for row in reversed(newest)])


def state_at(request: Request, at: datetime, *, now: datetime) -> EarlierState:
    """Return the request as recorded at a time; raise InvalidInput before its creation and in the future."""
    _check_time(request, at, now)
    moves = request.transitions.filter(at__lte=at).order_by("-id")
    last = moves.first() or request.transitions.order_by("id")[0]
    sample = request.samples.filter(at__lte=at).order_by("-at").values_list(*_SAMPLE).first()
    progress = Sample(*sample) if sample else None
    waits = progress if progress and progress.at >= last.at and progress.status == last.to_status else None
    return EarlierState(
        request_name=request.request_name,
        at=at,
        status=last.to_status,
        status_why=WHY[RequestStatus(last.to_status)],
        status_since=last.at,
        reason=last.reason,
        actor=last.actor,
        wait_reason=waits.reason if waits else "",
        gate=waits.gate if waits else "",
        hold_evidence=_evidence(request, last),
        progress=progress,
        dags=_dags_at(request, at),
        decisions=[Decision(*row) for row in _decisions_before(request, at)],
    )


def _evidence(request: Request, last: StatusTransition) -> dict[str, Any] | None:
    """Return the evidence of a hold. Older changes have none; then that of the present hold is known only."""
    if last.to_status != RequestStatus.HELD:
        return None
    present = request.status == RequestStatus.HELD and request.status_since == last.at
    found: dict[str, Any] | None = last.evidence or (request.hold_evidence if present else None)
    return found


def _check_time(request: Request, at: datetime, now: datetime) -> None:
    message = ""
    begun = request.transitions.order_by("at").values_list("at", flat=True).first() or request.created_at
    first = min(begun, request.created_at)
    if at < first.replace(microsecond=0):
        message = f"{request.request_name} was created at {first:%FT%TZ}. Give that time or a later one."
    elif at > now:
        message = f"This is in the future: it is {now:%FT%TZ}. Give an earlier time."
    if message:
        raise InvalidInput(f"at: {message}", fields={"at": message})


def _dags_at(request: Request, at: datetime) -> list[EarlierDAG]:
    running = DAG.objects.filter(workflow=request.workflow_id, submitted_at__lte=at)
    rows = running.filter(Q(completed_at__isnull=True) | Q(completed_at__gt=at)).order_by("submitted_at")
    values: Any = rows.values_list("token", "kind", "round__number", "submitted_at")
    return [EarlierDAG(*row) for row in values]


def _decisions_before(request: Request, at: datetime) -> Any:
    entries = timeline_of(request).filter(at__lte=at).order_by("-at", "-id")
    return entries.values_list(*_DECISION)[:MAX_DECISIONS]
