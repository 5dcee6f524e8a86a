"""Generation of chains: one row per call that is known from the start, with all its names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.db import transaction
from django.utils import timezone

from chains_app.cwl.graph import Graph, Leaf, build_graph
from chains_app.cwl.step_hint import pulls
from chains_app.cwl.values import as_names
from chains_app.models import Announcement, Chain, ChainDataset, ChainStep, Template
from chains_app.naming import CallName, dataset_name, log_dataset_name, request_name
from chains_app.selectors.templates import workflow_of
from chains_app.states import DatasetRole
from chains_app.transitions import record_event

ACTOR = "system:chains"


def generate_chain(*, template: Template, announcement: Announcement, inputs: dict[str, Any]) -> Chain:
    """Create a chain with the steps and datasets that are known before any step has run.

    Calls of scattered steps are added when the number of their elements is known.
    """
    now = timezone.now()
    chain = Chain.objects.create(
        template=template, announcement=announcement, inputs=inputs, status_since=now, next_check_at=now
    )
    workflow = workflow_of(template)
    graph = build_graph(workflow)
    announced: dict[str, str] = {}
    for port in workflow.inputs:
        if port.is_dataset:
            for name in as_names(inputs.get(port.id)):
                announced.setdefault(name, port.id)
    ChainDataset.objects.bulk_create(
        _dataset(chain, None, port, name, DatasetRole.INPUT) for name, port in announced.items()
    )
    add_steps(chain, [(leaf, ()) for leaf in graph.leaves if not leaf.scattered], graph)
    reason = f"{announcement} announced" if announcement.dataset_name else "started by name"
    record_event(chain, kind="chain", after=chain.status, reason=reason, actor=announcement.actor, at=now)
    return chain


def add_steps(chain: Chain, calls: Iterable[tuple[Leaf, tuple[int, ...]]], graph: Graph) -> None:
    """Create the rows of new calls and of the datasets they write, in two statements."""
    named = [(leaf, CallName(chain.template.name, chain.pk, leaf.path, index)) for leaf, index in calls]
    now = timezone.now()
    steps = ChainStep.objects.bulk_create(
        ChainStep(
            chain=chain,
            step=call.step,
            index=list(call.index),
            request_name=request_name(call),
            status_since=now,
        )
        for _, call in named
    )
    ChainDataset.objects.bulk_create(
        row
        for step, (leaf, call) in zip(steps, named, strict=True)
        for row in _datasets(step, leaf, graph, call)
    )


def add_step(chain: Chain, leaf: Leaf, graph: Graph, *, index: tuple[int, ...]) -> ChainStep:
    """Return the row of a call, created with its datasets if it is new."""
    found = ChainStep.objects.filter(chain=chain, step=leaf.path, index=list(index))
    step = found.first()
    if step is None:
        with transaction.atomic():
            add_steps(chain, [(leaf, index)], graph)
        step = found.get()
    return step


def add_datasets(step: ChainStep, leaf: Leaf, graph: Graph, call: CallName) -> None:
    """Create the rows of the datasets that a call writes, unless they exist."""
    ChainDataset.objects.bulk_create(_datasets(step, leaf, graph, call), ignore_conflicts=True)


def _datasets(step: ChainStep, leaf: Leaf, graph: Graph, call: CallName) -> Iterator[ChainDataset]:
    for port, name in output_names(step.chain, leaf, call).items():
        final = (leaf.path, port) in graph.finals
        role = DatasetRole.FINAL if final else DatasetRole.INTERMEDIATE
        yield _dataset(step.chain, step, port, name, role)
    if leaf.step.tool is not None and pulls(leaf.step.tool.document):
        return  # its jobs have no groups whose logs could be kept
    logs = log_dataset_name(dataset_name(call, like=step.chain.announcement.dataset_name))
    yield _dataset(step.chain, step, "", logs, DatasetRole.LOG)


def output_names(chain: Chain, leaf: Leaf, call: CallName) -> dict[str, str]:
    """Return the names of the datasets that a call writes, by port."""
    ports = leaf.dataset_ports
    tier = leaf.step.tool.tier if leaf.step.tool else ""
    like = chain.announcement.dataset_name
    return {
        port: dataset_name(call, like=like, tier=tier, port=port if len(ports) > 1 else "") for port in ports
    }


def _dataset(chain: Chain, step: ChainStep | None, port: str, name: str, role: DatasetRole) -> ChainDataset:
    return ChainDataset(
        chain=chain, producer=step, port=port, dataset_name=name, role=role, status_since=timezone.now()
    )
