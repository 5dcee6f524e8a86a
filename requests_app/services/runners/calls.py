"""The runner that calls, whether it may, and the digest by which a repeated call is recognised."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Count
from django.utils import timezone

from dags_app.models import Round, Runner, Workflow
from dags_app.pull.outcomes import decide_stop
from dags_app.services.decisions import decided_numbers
from dags_app.states import RoundStatus, RunnerState
from requests_app.models import Request
from requests_app.states import SWEPT, TERMINAL, RequestStatus
from wms2_project.errors import Conflict, Gone, NotFound
from wms2_project.leases import wake

# Statuses in which a workflow's runners are lent no more files, with the word for it
CLOSED = {RequestStatus.HELD: "held", RequestStatus.STOPPING: "being stopped"}


def calling_runner(*, workflow_id: UUID, runner_id: UUID, lock: bool = False) -> Runner:
    """Return the runner. Raise Gone if it is unknown."""
    rows = Runner.objects.select_related("round", "workflow")
    if lock:
        rows = rows.select_for_update(of=("self",))
    runner = rows.filter(pk=runner_id, workflow_id=workflow_id).first()
    if runner is None:
        raise Gone("the runner is unknown", cure="End the job")
    return runner


def request_of(workflow_id: UUID, *, lock: bool = False) -> Request:
    """Return the name and status of the workflow's request."""
    rows = Request.objects.select_for_update(of=("self",)) if lock else Request.objects.all()
    request = rows.filter(workflow_id=workflow_id).only("request_name", "status").first()
    if request is None:
        raise NotFound(f"There is no workflow {workflow_id}")
    return request


def check_open(runner: Runner, request: Request) -> None:
    """Raise Gone if the runner, its round or request is over."""
    if runner.state == RunnerState.ENDED:
        why = f": {runner.message}" if runner.message else ""
        raise Gone(f"the runner has ended as {runner.outcome}{why}", cure="End the job")
    check_round(runner.round, request)


def check_round(round_: Round, request: Request) -> None:
    """Raise Gone if the round or request is over."""
    if request.status in TERMINAL:
        raise Gone(f"the request is {request.status}", cure="End the job")
    if round_.status != RoundStatus.PLANNED:
        raise Gone(f"round {round_.number} is over", cure="End the job")


def check_lending(round_: Round, request: Request) -> None:
    """Raise Gone if no more files are lent in the round."""
    if round_.lending_stopped_at is not None:
        raise Gone(f"no more files are lent: {round_.lending_stopped_reason}", cure="End the job")
    if request.status in CLOSED:
        raise Gone(f"the request is {CLOSED[RequestStatus(request.status)]}", cure="End the job")


def digest_of(body: Mapping[str, Any]) -> str:
    """Return the digest of a call's body."""
    return hashlib.sha256(json.dumps(body, sort_keys=True, default=str).encode()).hexdigest()


def is_repeated(runner: Runner, call: str, digest: str) -> bool:
    """Return whether the runner made this call before. Raise Conflict if the body was another one."""
    known = runner.calls.get(call)
    if known is not None and known != digest:
        raise Conflict(f"{call} was called before with another body", cure="Repeat the first body, or abort")
    return known is not None


def note_end(*, round_: Round, workflow: Workflow) -> str:
    """Stop lending in the round if too many of its runners have failed; return the reason or an empty text.

    The request is woken to be held. Called in the transaction in which a runner ended.
    """
    ended = round_.runners.filter(state=RunnerState.ENDED).order_by().values_list("outcome")
    counts = dict(ended.annotate(count=Count("id")))
    threshold = decided_numbers(workflow).get("error_hold_threshold", settings.ERROR_HOLD_THRESHOLD)
    reason = decide_stop(counts, threshold=threshold)
    if reason:
        lending = Round.objects.filter(pk=round_.pk, lending_stopped_at__isnull=True)
        if lending.update(lending_stopped_at=timezone.now(), lending_stopped_reason=reason):
            wake(Request.objects.filter(workflow=workflow, status__in=sorted(SWEPT)))
    return reason
