"""Comparing our tables with DBS and Rucio, and mending what a machine can mend.

DBS is asked once per dataset, and block by block only where its sums are not ours.
"""

from __future__ import annotations

from datetime import datetime

from django.db.models import QuerySet

from cms.types import FileCounts, LumiRange
from dags_app.adapters import dbs, rucio
from dags_app.models import MergeGroup, Workflow
from dags_app.states import GroupStatus
from outputs_app.models import OutputBlock, OutputDataset
from outputs_app.reconciliation import Difference, compare_counts, count_lumis
from outputs_app.states import BlockStatus, DatasetStatus, RuleKind
from outputs_app.steps import block_files, ensure_rules, put_into_rucio, register
from wms2_project import audit
from wms2_project.locks import try_lock


def find_differences(*, workflow: Workflow) -> list[Difference]:
    """Everything finished that DBS or Rucio has otherwise, or not at all; asks both."""
    found = _groups_without_files(workflow)
    for dataset in OutputDataset.objects.filter(workflow=workflow).order_by("dataset_name"):
        found += _differences_of(dataset)
    return found


def repair_outputs(*, workflow: Workflow, actor: str, reason: str, now: datetime) -> list[Difference]:
    """Register and protect again what is missing outside, and answer what still differs."""
    found = find_differences(workflow=workflow)
    told = [str(difference) for difference in found]
    audit.record(
        actor=actor, action="repair_outputs", target=workflow.request_name, reason=reason, differences=told
    )
    wrong = {difference.name for difference in found}
    for block in _announced(OutputBlock.objects.filter(dataset__workflow=workflow)):
        if wrong & {block.block_name, block.dataset.dataset_name}:
            with try_lock(f"block {block.pk}") as held:
                if held:
                    _repair(block, now)
    return find_differences(workflow=workflow)


def _repair(block: OutputBlock, now: datetime) -> None:
    """A block released at its source may be gone from there, so its replicas are not claimed again."""
    register(block, now)
    if block.rules.filter(kind=RuleKind.SOURCE, deleted_at__isnull=True).exists():
        put_into_rucio(block)
    ensure_rules(block)
    if block.dataset.status != DatasetStatus.INVALIDATED:
        dbs().set_dataset_status(block.dataset.dataset_name, "VALID")


def _groups_without_files(workflow: Workflow) -> list[Difference]:
    """A group that wrote events has left files, or they were lost between its manifest and our tables."""
    collected = MergeGroup.objects.filter(round__workflow=workflow, status=GroupStatus.COLLECTED)
    return [
        Difference(
            "our own table", f"group {group.index} of round {group.round.number}", "files", "some", "none"
        )
        for group in collected.filter(events_written__gt=0, outputs__isnull=True).select_related("round")
    ]


def _differences_of(dataset: OutputDataset) -> list[Difference]:
    name, info = dataset.dataset_name, dbs().dataset(dataset.dataset_name)
    access_type = info.access_type if info else "none"
    if dataset.status == DatasetStatus.INVALIDATED:
        usable = access_type == "VALID" and not _is_shared(dataset)
        return [Difference("DBS", name, "access type", "INVALID", access_type)] if usable else []
    blocks = _announced(dataset.blocks.all())
    found = []
    if blocks and access_type != "VALID":
        found.append(Difference("DBS", name, "access type", "VALID", access_type))
    counts, total = _count(blocks)
    theirs = FileCounts(info.files, info.size_bytes, info.events, info.lumis) if info else None
    if blocks and compare_counts("DBS", name, ours=total, theirs=theirs):
        for block in blocks:
            seen = dbs().block_counts(block.block_name)
            found += compare_counts("DBS", block.block_name, ours=counts[block.block_name], theirs=seen)
        if not found and not _is_shared(dataset):
            found += compare_counts("DBS", name, ours=total, theirs=theirs)
    for block in blocks:
        found += _differences_in_rucio(block, counts[block.block_name])
    return found


def _differences_in_rucio(block: OutputBlock, ours: FileCounts) -> list[Difference]:
    name = block.block_name
    found = compare_counts("Rucio", name, ours=ours, theirs=rucio().block_counts(name))
    for row in block.rules.filter(deleted_at__isnull=True):
        rule = rucio().rule(row.rule_id)
        if rule is None or rule.expires_at is not None:
            found.append(Difference("Rucio", name, f"rule at {row.rse_expression}", "one", "none"))
    return found


def _count(blocks: list[OutputBlock]) -> tuple[dict[str, FileCounts], FileCounts]:
    """Our own counts, of each block and of all of them; lumis that blocks share count once in the sum."""
    counts: dict[str, FileCounts] = {}
    every: list[LumiRange] = []
    for block in blocks:
        files = block_files(block)
        lumis = [part for file in files for part in file.lumis]
        every += lumis
        counts[block.block_name] = FileCounts(
            files=len(files),
            bytes=sum(file.size_bytes for file in files),
            events=sum(file.events for file in files),
            lumis=count_lumis(lumis),
        )
    total = FileCounts(
        files=sum(one.files for one in counts.values()),
        bytes=sum(one.bytes for one in counts.values()),
        events=sum(one.events or 0 for one in counts.values()),
        lumis=count_lumis(every),
    )
    return counts, total


def _is_shared(dataset: OutputDataset) -> bool:
    others = OutputDataset.objects.filter(dataset_name=dataset.dataset_name).exclude(pk=dataset.pk)
    return others.exclude(status=DatasetStatus.INVALIDATED).exists()


def _announced(blocks: QuerySet[OutputBlock]) -> list[OutputBlock]:
    finished = blocks.filter(status=BlockStatus.ANNOUNCED).select_related("dataset__workflow")
    return list(finished.order_by("block_name"))
