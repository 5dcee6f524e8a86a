"""Content of the two live parts of the request page, each read in a fixed number of queries."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.utils import timezone

from console.markup import Share
from console.request import facts, failures, work
from console.request.burndown import Burndown, Forecast, build_burndown
from console.request.next_action import NextAction, decide_next_action, only_waits, status_sentence
from dags_app.services.ledger import gap_of
from outputs_app.selectors import datasets_of
from requests_app.guide import hold_entry
from requests_app.models import Request
from requests_app.operations import REQUEST_OPERATIONS
from requests_app.selectors.diagnosis import Diagnosis, diagnose
from requests_app.selectors.history import history_of
from requests_app.selectors.progress import ProgressDetail, detail_of
from requests_app.selectors.requests import position_in_queue, request_by_name
from requests_app.selectors.why import why
from requests_app.states import STATUSES, TERMINAL, RequestStatus
from wms2_project.access.roles import Role


def read_status(name: str, role: Role) -> Mapping[str, Any]:
    """Return status, next action, progress and the reasons of the status."""
    row, now = request_by_name(name), _minute()
    status = RequestStatus(row.status)
    explained = why(row, now=now, ask_condor=False)  # a page must not wait for HTCondor
    blocking = [gate for gate in explained.gates if gate.blocks]
    found = diagnose(row, now=now, with_previews=False) if status is RequestStatus.HELD else None
    action = _action(row, role, found, remedy=blocking[0].remedy if blocking else "")
    progress = detail_of(row)
    reason = row.last_error if status is RequestStatus.HELD or row.attempt else explained.summary
    return {
        "row": row,
        "tone": STATUSES[status].colour,
        "sentence": status_sentence(status, reason=reason),
        "meaning": STATUSES[status].why,
        "action": action,
        "guide": hold_entry(row.last_error, row.hold_evidence) if found is not None else None,
        "action_url": failures.operation_url(row, action.operation, action.values)
        if action.operation
        else "",
        "alerts": list(row.alerts.filter(closed_at__isnull=True).order_by("id")),
        "position": position_in_queue(row),
        "turn": explained.turn,
        "progress": progress,
        "shares": _shares(progress),
        "burndown": _burndown(row, progress, now),
        "blocking": [(gate, "info" if only_waits(gate.remedy) else "warning") for gate in blocking],
        "passed": [gate for gate in explained.gates if not gate.blocks],
        "gaps": explained.gaps,
    }


def read_work(name: str, role: Role) -> Mapping[str, Any]:
    """Return failures, timeline, resources, outputs, coverage and history of the request."""
    row, now = request_by_name(name), _minute()
    found = diagnose(row, now=now, with_previews=False)
    blocks = work.block_rows(row.workflow)
    progress = detail_of(row)
    return {
        "row": row,
        "ended": row.status in TERMINAL,
        "matrix": failures.matrix_of(found),
        "clusters": failures.cluster_rows(row, found, allowed=_allowed(row, role)),
        "gantt": work.gantt_of(row, blocks, now=now),
        "histograms": work.histograms_of(row.workflow),
        "steps": work.STEPS,
        "datasets": datasets_of(workflow=row.workflow),
        "blocks": blocks,
        "coverage": work.coverage_of(row.workflow, progress),
        "facts": facts.facts_of(row, gaps=str(gap_of(workflow=row.workflow) or "")),
        "rounds": facts.round_rows(row),
        "events": facts.event_rows(row),
        "evidence": row.hold_evidence,
    }


def _minute() -> datetime:
    """Return the present minute: a fragment that only shows a later second is not sent again."""
    return timezone.now().replace(second=0, microsecond=0)


def _allowed(row: Request, role: Role) -> frozenset[str]:
    """Return the operations that the status and the role allow."""
    return frozenset(one.name for one in REQUEST_OPERATIONS if role >= one.role and one.allows(row))


def _action(row: Request, role: Role, found: Diagnosis | None, *, remedy: str) -> NextAction:
    clusters = sorted(found.clusters, key=lambda one: -one.jobs) if found else []
    return decide_next_action(
        RequestStatus(row.status),
        suggestions=[one.suggestion for one in clusters],
        remedy=remedy,
        allowed=_allowed(row, role),
    )


def _shares(progress: ProgressDetail) -> list[Share]:
    done, running, excluded = progress.events_done, progress.events_running, progress.events_excluded
    left = max(progress.events_total - done - running - excluded, 0)
    return [
        Share("processed", done, "success"),
        Share("in unmerged jobs", running, "primary"),
        Share("to do", left, "neutral"),
        Share("excluded", excluded, "danger"),
    ]


def _burndown(row: Request, progress: ProgressDetail, now: datetime) -> Burndown | None:
    pace, samples = progress.pace, history_of(row).samples
    forecast = None
    if pace.earliest and pace.estimated_completion and pace.latest:
        forecast = Forecast(pace.earliest, pace.estimated_completion, pace.latest)
    last = samples[-1].at if samples else now
    return build_burndown(samples, now=last if row.status in TERMINAL else max(now, last), forecast=forecast)
