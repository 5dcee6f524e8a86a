"""Advance one chain: copy the results of its requests, then start and skip steps according to the wiring.

An advisory lock makes duplicate deliveries harmless. A request is stored in three steps, each safe to repeat:
the row gets its document, the request is imported with the key of chain, step, index and try, the row gets
the request.
"""

from __future__ import annotations

import logging
from datetime import datetime
from time import monotonic
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from chains_app.cwl.graph import Graph, Leaf, build_graph
from chains_app.cwl.wiring import Wiring, wire
from chains_app.deciding import (
    LOST,
    Decision,
    Key,
    StepFacts,
    decide,
    early_of,
    hold_reason,
    lookup_of,
    settle,
)
from chains_app.models import Chain, ChainDataset, ChainStep
from chains_app.selectors.facts import port_values
from chains_app.selectors.templates import workflow_of
from chains_app.services import cleaning, starting
from chains_app.services.generating import add_step, add_steps
from chains_app.services.readiness import input_states, outside_datasets
from chains_app.states import ENDED, ChainStatus, DatasetStatus, StepStatus
from chains_app.transitions import move_chain, move_dataset, move_step
from requests_app.models import Request
from wms2_project.access.causes import caused
from wms2_project.errors import Conflict, RateLimited, TransientError, Wms2Error
from wms2_project.failpoints import failpoint
from wms2_project.leases import backoff_seconds, give_back, release, working_on
from wms2_project.locks import try_lock

logger = logging.getLogger(__name__)
ACTOR = "system:chains"
SETTLED_SEC = 3600.0  # until the next check of a chain that only waits for its requests, which wake it
MOST_SEC = 60.0  # for the starts of one task
LOST_PRODUCER = (
    "lost_producer"  # in the evidence of a step that streamed from a request which did not complete
)


def advance_chain(chain_id: int | str) -> None:
    """Advance a chain as far as possible. Do nothing if another worker holds its lock."""
    with try_lock(f"chain {chain_id}") as held:
        if not held:
            return
        chain = Chain.objects.select_related("template", "announcement").get(pk=chain_id)
        if chain.status in ENDED:
            return
        with caused("advance chain", target=str(chain), status=chain.status), working_on(chain):
            try:
                seconds, why = _advance(chain, timezone.now())
            except (RateLimited, Conflict) as error:
                release(chain, seconds=1.0, wait_reason=str(error)[:1000])
            except TransientError as error:
                _retry(chain, str(error))
            except Wms2Error as error:
                logger.warning("%s: %s", chain, error)
                _retry(chain, str(error))
            except Exception as error:  # a bug must stop only this chain and be visible on it
                logger.exception("unexpected error")
                _retry(chain, f"{type(error).__name__}: {error}")
            else:
                _rest(chain, seconds, why)


def _retry(chain: Chain, error: str) -> None:
    attempt = chain.attempt + 1
    seconds = backoff_seconds(attempt)
    changes: dict[str, Any] = {
        "attempt": attempt,
        "last_error": error[:4000],
        "last_error_at": timezone.now(),
    }
    release(chain, seconds=seconds, wait_reason=f"error {attempt}, retried: {error}"[:1000], **changes)


def _rest(chain: Chain, seconds: float, why: str) -> None:
    """Release the lease. If the chain was woken in the meantime, make it due at once."""
    calm = {"attempt": 0, "last_error": "", "last_error_at": None, "wait_reason": why[:1000]}
    unwoken = Chain.objects.filter(pk=chain.pk, next_check_at=chain.next_check_at)
    if not give_back(unwoken, seconds=seconds, **calm):
        release(chain, seconds=0, **calm)


def _advance(chain: Chain, now: datetime) -> tuple[float, str]:
    """Evaluate the chain once. Return the seconds until the next evaluation and what the chain waits for."""
    graph = build_graph(workflow_of(chain.template))
    leaves = {leaf.path: leaf for leaf in graph.leaves}
    for step in _open_steps(chain):
        _settle(step, leaves[step.step])
    failpoint("chain.settled")
    facts = step_facts(chain)
    streaming = any(leaf.step.tool is not None and leaf.step.tool.streams for leaf in graph.leaves)
    wiring = wire(
        workflow_of(chain.template), chain.inputs, lookup_of(facts), max_calls=settings.CHAIN_MAX_STEPS,
        early=early_of(facts),
    )  # fmt: skip
    _add_rows(chain, wiring, facts, leaves, graph)
    decision = _decided(chain, wiring, facts, leaves)
    _apply_skips(chain, decision, leaves, graph)
    complete = _apply_starts(chain, decision, leaves, graph, now)
    _note_waits(chain, decision, leaves, graph)
    cleaning.mark_unneeded(chain=chain)
    failpoint("chain.cleaned")
    _apply_status(chain, decision)
    if not complete or decision.skip or (streaming and decision.start):  # started steps have consumers
        return 0.0, decision.reason
    return (settings.CHAIN_LOOK_SEC if decision.wait else SETTLED_SEC), decision.reason


def _add_rows(
    chain: Chain, wiring: Wiring, facts: dict[Key, StepFacts], leaves: dict[str, Leaf], graph: Graph
) -> None:
    """Create the rows of newly known calls, all or none: a scattered step with rows has all of them."""
    known = [(call.step, call.index) for call in wiring.calls] + wiring.skipped
    new = [key for key in known if key not in facts and key[0] in leaves]
    if new:
        with transaction.atomic():
            add_steps(chain, [(leaves[path], index) for path, index in new], graph)


def _open_steps(chain: Chain) -> list[ChainStep]:
    rows = chain.steps.filter(status__in=[StepStatus.RUNNING, StepStatus.HELD], request__isnull=False)
    return list(rows.select_related("chain", "request"))


def _settle(step: ChainStep, leaf: Leaf) -> None:
    """Move the step according to the status of its request, or of the newest version that replaced it."""
    request = newest_version(step.request)
    facts = StepFacts(StepStatus(step.status), request.request_name, request.status)
    if request != step.request:
        _follow(step, request, leaf)
    to = settle(facts)
    if to is None:
        return
    changes: dict[str, Any] = {}
    reason = f"request {request.request_name} is {request.status}"
    lost = _lost_producer(step) if to is StepStatus.FINISHED else ""
    if to is StepStatus.HELD or lost:
        to, changes["hold_evidence"] = StepStatus.HELD, _hold_evidence(step, request, facts, lost)
    if step.status == to:
        ChainStep.objects.filter(pk=step.pk).update(**changes)
        return
    with transaction.atomic():
        if to is StepStatus.FINISHED:
            names = {row.port: row.dataset_name for row in step.datasets.all()}
            changes["outputs"] = port_values(leaf, names, request.workflow)
            for row in step.datasets.select_related("chain", "producer"):
                move_dataset(dataset=row, to=DatasetStatus.COMPLETE, reason=reason, actor=ACTOR)
        move_step(step=step, to=to, reason=reason, actor=ACTOR, changes=changes)


def _hold_evidence(step: ChainStep, request: Request, facts: StepFacts, lost: str) -> dict[str, Any]:
    text, remedy = hold_reason(facts, (step.step, tuple(step.index)))
    if lost:
        text = f"{step}: its producer {lost} did not complete, so that its input is a part only"
        remedy = "Retry the producer, then this step; or skip it, or cancel the chain"
    evidence: dict[str, Any] = {"reason": text, "remedy": remedy, "request_evidence": request.hold_evidence}
    evidence["last_error"] = request.last_error[:1000]
    return evidence | ({LOST_PRODUCER: lost} if lost else {})


def _lost_producer(step: ChainStep) -> str:
    """Return the request that a streaming step read from, if that request failed or was aborted."""
    name = (step.document or {}).get("input_from", "")
    lost = Request.objects.filter(request_name=name, status__in=LOST) if name else Request.objects.none()
    return name if lost.exists() else ""


def newest_version(request: Request | None) -> Request:
    """Return the newest version of a request among its restarts."""
    if request is None:
        raise ValueError("the step has no request")
    while newer := Request.objects.select_related("workflow").filter(previous_version=request).first():
        request = newer
    return request


def _follow(step: ChainStep, request: Request, leaf: Leaf) -> None:
    """Continue with a restarted request, whose datasets have new names."""
    with transaction.atomic():
        ChainStep.objects.filter(pk=step.pk).update(request=request)
        for port, name in zip(leaf.dataset_ports, request.workflow.output_datasets, strict=False):
            ChainDataset.objects.filter(producer=step, port=port).update(dataset_name=name)
    step.request = request


def step_facts(chain: Chain) -> dict[Key, StepFacts]:
    """Return the facts about the calls of a chain."""
    rows = chain.steps.select_related("request").order_by("id")
    written: dict[int, dict[str, str]] = {}
    for producer, port, name in chain.datasets.exclude(producer=None).values_list(
        "producer", "port", "dataset_name"
    ):
        written.setdefault(producer, {})[port] = name
    return {
        (row.step, tuple(row.index)): StepFacts(
            status=StepStatus(row.status),
            request_name=row.request.request_name if row.request else row.request_name,
            request_status=row.request.status if row.request else "",
            approved=bool(row.approved_by),
            outputs=row.outputs,
            held_for=str((row.hold_evidence or {}).get("reason", "")),
            writes=written.get(row.pk),
        )
        for row in rows
    }


def _decided(chain: Chain, wiring: Wiring, facts: dict[Key, StepFacts], leaves: dict[str, Leaf]) -> Decision:
    outside = outside_datasets(chain)
    waiting = [
        call for call in wiring.calls
        if (call.step, call.index) not in facts or facts[call.step, call.index].status == StepStatus.DEFINED
    ]  # fmt: skip
    needs = {
        (call.step, call.index): [name for name in starting.datasets_read(call) if name in outside]
        for call in waiting
    }
    asked = {name: outside[name] for names in needs.values() for name in names}
    approvals = frozenset(
        path for path, leaf in leaves.items() if leaf.step.tool is not None and leaf.step.tool.approval
    )
    return decide(wiring, facts, needs=needs, inputs=input_states(asked), approvals=approvals)


def _apply_skips(chain: Chain, decision: Decision, leaves: dict[str, Leaf], graph: Graph) -> None:
    for path, index in decision.skip:
        if path not in leaves:
            continue  # an inner workflow without rows
        step = add_step(chain, leaves[path], graph, index=index)
        if step.status == StepStatus.DEFINED:
            move_step(
                step=step, to=StepStatus.SKIPPED, reason="its condition is false", actor=ACTOR,
                changes={"outputs": dict.fromkeys(leaves[path].step.outputs)},
            )  # fmt: skip


def _apply_starts(
    chain: Chain, decision: Decision, leaves: dict[str, Leaf], graph: Graph, now: datetime
) -> bool:
    """Start the calls. Return False if the time was not sufficient for all, or a step became held."""
    began, settled = monotonic(), True
    for number, call in enumerate(decision.start):
        if number and monotonic() - began > MOST_SEC:
            return False
        step = add_step(chain, leaves[call.step], graph, index=call.index)
        status = starting.start_step(step=step, leaf=leaves[call.step], call=call, now=now)
        if status is StepStatus.DEFINED:
            decision.wait[call.step, call.index] = "the quota of the requestor is exhausted"
        settled = settled and status is not StepStatus.HELD
    return settled


def _note_waits(chain: Chain, decision: Decision, leaves: dict[str, Leaf], graph: Graph) -> None:
    for (path, index), reason in decision.wait.items():
        step = add_step(chain, leaves[path], graph, index=index)
        if step.wait_reason != reason:
            ChainStep.objects.filter(pk=step.pk).update(wait_reason=reason[:1000])


def _apply_status(chain: Chain, decision: Decision) -> None:
    current, to = ChainStatus(chain.status), decision.status
    evidence = {"steps": decision.holds} if decision.holds else None
    if to is current:
        if evidence != chain.hold_evidence:
            Chain.objects.filter(pk=chain.pk).update(hold_evidence=evidence)
        return
    if to is ChainStatus.DEFINED:
        return  # an approval or input is awaited again: a chain never returns to defined
    with transaction.atomic():
        move_chain(
            chain=chain, to=to, reason=decision.reason[:1000] or to, actor=ACTOR,
            changes={"hold_evidence": evidence},
        )  # fmt: skip
        if to is ChainStatus.FINISHED:
            cleaning.on_finished(chain=chain)
    failpoint("chain.moved")
