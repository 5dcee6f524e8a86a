"""Explain the status of a request: its gates, expected start, and HTCondor's analysis of idle jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from django.db.models import Max

from condor.analysis import MatchAnalysis
from dags_app.models import DAG
from dags_app.services import control
from dags_app.services.ledger import gap_of
from dags_app.states import DAGStatus
from requests_app import admission
from requests_app.lifecycle import gates
from requests_app.lifecycle.gate_result import Gate
from requests_app.lifecycle.snapshot import Snapshot
from requests_app.models import Request
from requests_app.selectors.forecast import Turn, expected_turn
from requests_app.states import TERMINAL, WHY, RequestStatus
from wms2_project.errors import Wms2Error


@dataclass(frozen=True, slots=True)
class Why:
    """Explanation of a request's status: a summary sentence and its evidence."""

    request_name: str
    status: str
    status_why: str
    status_since: datetime
    summary: str
    gates: list[Gate]
    turn: Turn | None
    idle_jobs: MatchAnalysis | None
    idle_jobs_note: str
    gaps: Annotated[str, "Input that will not be processed, and why."]
    learned: Annotated[
        dict[str, Any] | None, "What finished requests of the campaign taught: the estimate, avoided sites."
    ]


def why(request: Request, *, now: datetime, ask_condor: bool = True) -> Why:
    """Evaluate every gate of the status. HTCondor analyses idle jobs only if no job runs."""
    status = RequestStatus(request.status)
    snapshot = Snapshot(request, now)
    asked = [ask(snapshot) for ask in gates.ASKED[status]]
    queued = status is RequestStatus.QUEUED
    turn = expected_turn(request, now=now) if queued else None
    analysis, note = _idle_jobs(snapshot.dag) if ask_condor else (None, "")
    gap = gap_of(workflow=request.workflow)
    summary = _summary(request, asked, turn, now)
    if gap is not None and not any(gate.blocks for gate in asked):
        summary = f"{summary.rstrip('.')}; {gap}"
    if status in TERMINAL:
        summary += _removed(request)
    return Why(
        request_name=request.request_name,
        status=request.status,
        status_why=WHY[status],
        status_since=request.status_since,
        summary=summary,
        gates=asked,
        turn=turn,
        idle_jobs=analysis,
        idle_jobs_note=note,
        gaps=str(gap or ""),
        learned=request.workflow.learned,
    )


def _removed(request: Request) -> str:
    last = request.workflow.rounds.aggregate(last=Max("directory_removed_at"))["last"]
    return f" The submit directory was removed on {last:%F} by policy." if last is not None else ""


def _summary(request: Request, asked: list[Gate], turn: Turn | None, now: datetime) -> str:
    blocking = [gate for gate in asked if gate.blocks]
    if not blocking:
        return request.wait_reason or WHY[RequestStatus(request.status)]
    message = blocking[0].detail
    if blocking[0].name == admission.GATE and not admission.limits().paused:
        message += f", {_start(turn, now)}"
    return message


def _start(turn: Turn | None, now: datetime) -> str:
    if turn is None:
        return "start time unknown"
    earliest, likely, latest = (
        _hours((moment - now).total_seconds()) for moment in (turn.earliest, turn.likely, turn.latest)
    )
    return f"expected start in {likely} ({earliest} to {latest})"


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{max(seconds / 60, 1):.0f} min"


def _idle_jobs(dag: DAG | None) -> tuple[MatchAnalysis | None, str]:
    if dag is None or not _idles(dag):
        return None, ""
    try:
        return control.explain_idle(dag=dag), ""
    except Wms2Error as error:
        return None, str(error)


def _idles(dag: DAG) -> bool:
    return dag.status == DAGStatus.RUNNING and dag.nodes_idle > 0 and dag.nodes_running == 0
