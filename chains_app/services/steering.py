"""Operator actions on chains and their steps: cancel, retry, skip, approve, reject."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils import timezone

from chains_app.cwl.graph import build_graph
from chains_app.models import Chain, ChainDataset, ChainStep
from chains_app.naming import CallName, request_name
from chains_app.selectors.templates import workflow_of
from chains_app.services.generating import add_datasets
from chains_app.states import ENDED, STEP_ENDED, ChainStatus, DatasetStatus, StepStatus
from chains_app.transitions import move_chain, move_step, record_event
from requests_app.services.stopping import abort_request
from requests_app.states import TERMINAL, RequestStatus
from wms2_project.access import audit
from wms2_project.errors import Conflict, NotFound
from wms2_project.leases import wake

LOST = (RequestStatus.FAILED, RequestStatus.ABORTED)


def step_of(chain: Chain, name: str) -> ChainStep:
    """Return the call with this name, such as `skim` or `skim[2]`. Raise NotFound if there is none."""
    rows = chain.steps.select_related("chain__template", "chain__announcement", "request__workflow")
    for row in rows.filter(step=name.partition("[")[0]):
        if str(row) == name:
            return row
    raise NotFound(f"{chain} has no step {name}", cure=f"See GET /api/v1/chains/{chain.pk}")


def cancel_chain(*, chain: Chain, actor: str, reason: str) -> Chain:
    """Cancel a chain: its unfinished requests are aborted. No dataset is removed."""
    audit.need_reason(reason)
    with transaction.atomic():
        row = _locked(chain)
        if row.status in ENDED:
            raise Conflict(f"{row} is {row.status}", cure="Only open chains can be cancelled")
        for step in row.steps.exclude(status__in=sorted(STEP_ENDED)).select_related(
            "chain", "request__workflow"
        ):
            if step.request is not None and step.request.status not in TERMINAL:
                abort_request(request=step.request, actor=actor, reason=f"{row} was cancelled: {reason}")
            move_step(step=step, to=StepStatus.CANCELLED, reason=reason, actor=actor)
        ChainDataset.objects.filter(chain=row, status=DatasetStatus.REMOVING).update(
            status=DatasetStatus.COMPLETE, removal_reason=""
        )
        return move_chain(chain=row, to=ChainStatus.CANCELLED, reason=reason, actor=actor)


def retry_step(*, chain: Chain, step: str, actor: str, reason: str) -> Chain:
    """Start a held step again, with a new request if it had one. Raise Conflict if it is not held."""
    with transaction.atomic():
        row = _open(chain, reason)
        call = step_of(row, step)
        if call.status != StepStatus.HELD:
            raise Conflict(f"step {call} is {call.status}", cure="Only held steps can be retried")
        if call.request is not None and call.request.status not in TERMINAL:
            raise Conflict(
                f"request {call.request} is {call.request.status}",
                cure="Release the request; abort it first if the step needs a new one",
            )
        changes: dict[str, Any] = {"document": None, "inputs": None, "deadline_at": None, "approved_by": ""}
        if call.request is not None:
            changes |= _next_try(call)
        move_step(step=call, to=StepStatus.DEFINED, reason=reason, actor=actor, changes=changes)
        return _acted(row, call, "retry", actor=actor, reason=reason)


def _next_try(call: ChainStep) -> dict[str, Any]:
    """Give the call new names: the names of its earlier requests exist already."""
    graph = build_graph(workflow_of(call.chain.template))
    leaf = next(one for one in graph.leaves if one.path == call.step)
    name = CallName(call.chain.template.name, call.chain_id, call.step, tuple(call.index), call.tries + 1)
    call.datasets.all().delete()
    add_datasets(call, leaf, graph, name)
    return {"tries": call.tries + 1, "request": None, "request_name": request_name(name), "started_at": None}


def skip_step(*, chain: Chain, step: str, actor: str, reason: str) -> Chain:
    """Skip a step that is not done: its outputs are null, and its request is aborted."""
    with transaction.atomic():
        row = _open(chain, reason)
        call = step_of(row, step)
        if call.status in STEP_ENDED:
            raise Conflict(
                f"step {call} is {call.status}", cure="Only steps that are not done can be skipped"
            )
        if call.request is not None and call.request.status not in TERMINAL:
            abort_request(request=call.request, actor=actor, reason=f"step {call} was skipped: {reason}")
        move_step(step=call, to=StepStatus.SKIPPED, reason=reason, actor=actor, changes={"outputs": {}})
        return _acted(row, call, "skip", actor=actor, reason=reason)


def approve_step(*, chain: Chain, step: str, actor: str, reason: str) -> Chain:
    """Approve a step that waits for it."""
    with transaction.atomic():
        row = _open(chain, reason)
        call = _awaiting(row, step)
        ChainStep.objects.filter(pk=call.pk).update(approved_by=actor, wait_reason="")
        return _acted(row, call, "approve", actor=actor, reason=reason)


def reject_step(*, chain: Chain, step: str, actor: str, reason: str) -> Chain:
    """Reject a step that waits for approval: it is held, to be retried or skipped, or the chain cancelled."""
    with transaction.atomic():
        row = _open(chain, reason)
        call = _awaiting(row, step)
        evidence = {"reason": f"{call} was rejected by {actor}: {reason}"}
        move_step(
            step=call, to=StepStatus.HELD, reason=reason, actor=actor, changes={"hold_evidence": evidence}
        )
        return _acted(row, call, "reject", actor=actor, reason=reason)


def needs_approval(chain: Chain) -> list[str]:
    """Return the names of the calls that wait for approval."""
    return [str(one) for one in chain.steps.filter(status=StepStatus.DEFINED) if _awaits(one)]


def _awaits(step: ChainStep) -> bool:
    graph = build_graph(workflow_of(step.chain.template))
    tool = next((one.step.tool for one in graph.leaves if one.path == step.step), None)
    return tool is not None and tool.approval and not step.approved_by


def _awaiting(chain: Chain, step: str) -> ChainStep:
    call = step_of(chain, step)
    if call.status != StepStatus.DEFINED or not _awaits(call):
        raise Conflict(f"step {call} is {call.status} and waits for no approval")
    return call


def _open(chain: Chain, reason: str) -> Chain:
    audit.need_reason(reason)
    row = _locked(chain)
    if row.status in ENDED:
        raise Conflict(f"{row} is {row.status}", cure="Its steps cannot be changed any more")
    return row


def _locked(chain: Chain) -> Chain:
    rows = Chain.objects.select_for_update(of=("self",)).select_related("template", "announcement")
    return rows.get(pk=chain.pk)


def _acted(chain: Chain, step: ChainStep, action: str, *, actor: str, reason: str) -> Chain:
    """Record the action, and make the chain due."""
    record_event(chain, step=step, kind=action, reason=reason, actor=actor, at=timezone.now())
    audit.record(actor=actor, action=action, target=f"{chain}, step {step}", reason=reason)
    wake(Chain.objects.filter(pk=chain.pk))
    chain.refresh_from_db()
    return chain
