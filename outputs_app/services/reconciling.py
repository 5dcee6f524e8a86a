"""Comparison of the WMS2 database with DBS and Rucio, and automatic repair.

DBS is queried once per dataset, and per block only if the sums differ.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from math import inf
from time import monotonic

from django.db.models import QuerySet
from django.utils import timezone

from cms.types import FileCounts, RuleState
from dags_app.adapters import dbs, rucio
from dags_app.models import MergeGroup, Workflow
from dags_app.states import GroupStatus
from outputs_app.dataset_ownership import claims_on, is_shared
from outputs_app.models import OutputBlock, OutputDataset, OutputFile
from outputs_app.reconciliation import Comparison, Difference, compare_counts
from outputs_app.states import ACCESS_TYPES, WITHDRAWN, BlockStatus, DatasetStatus, RuleKind
from outputs_app.steps import ensure_rules, expires, put_into_rucio, register
from sandbox.lumis import LumiRange, count, merged
from wms2_project.access import audit
from wms2_project.locks import try_lock


def find_differences(*, workflow: Workflow) -> list[Difference]:
    """Return all differences of announced outputs, without a time limit."""
    return compare_outputs(workflow=workflow, since=timezone.now()).differences


def compare_outputs(*, workflow: Workflow, since: datetime, seconds: float = inf) -> Comparison:
    """Compare the blocks not compared since `since`, for about so many seconds.

    Agreement is recorded per block, so that the next call continues with the rest.
    """
    ends_at = monotonic() + seconds
    differences, left = _groups_without_files(workflow), 0
    for dataset in OutputDataset.objects.filter(workflow=workflow).order_by("dataset_name"):
        compared = _compare_dataset(dataset, since=since, ends_at=ends_at)
        differences += compared.differences
        left += compared.blocks_left
    return Comparison(differences, left)


def repair_outputs(*, workflow: Workflow, actor: str, reason: str, now: datetime) -> list[Difference]:
    """Register and protect outputs that are missing in DBS or Rucio; return the remaining differences."""
    found = find_differences(workflow=workflow)
    texts = [str(difference) for difference in found]
    audit.record(
        actor=actor, action="repair_outputs", target=workflow.request_name, reason=reason, differences=texts
    )
    wrong = {difference.name for difference in found}
    for block in _announced(OutputBlock.objects.filter(dataset__workflow=workflow)):
        if wrong & {block.block_name, block.dataset.dataset_name}:
            with try_lock(f"block {block.pk}") as held:
                if held:
                    _repair(block, now)
    return find_differences(workflow=workflow)


def _repair(block: OutputBlock, now: datetime) -> None:
    """Repair one block. Replicas at a released source may be gone and are not added again."""
    register(block, now)
    kept = block.dataset.lifetime_days is None
    if kept and block.rules.filter(kind=RuleKind.SOURCE, deleted_at__isnull=True).exists():
        put_into_rucio(block)
    ensure_rules(block)
    announced = block.dataset.in_dbs and block.dataset.announced_at is not None
    if announced and block.dataset.status not in WITHDRAWN:
        name, status = block.dataset.dataset_name, ACCESS_TYPES[DatasetStatus(block.dataset.status)]
        if not claims_on(name).exclude(conflict="").exists():  # not if others registered blocks in it
            dbs().set_dataset_status(name, status)


def _groups_without_files(workflow: Workflow) -> list[Difference]:
    """Return collected groups that wrote events but have no files in the database."""
    collected = MergeGroup.objects.filter(round__workflow=workflow, status=GroupStatus.COLLECTED)
    return [
        Difference(
            "WMS2 database", f"group {group.index} of round {group.round.number}", "files", "some", "none"
        )
        for group in collected.filter(events_written__gt=0, outputs__isnull=True).select_related("round")
    ]


def _compare_dataset(dataset: OutputDataset, *, since: datetime, ends_at: float) -> Comparison:
    """Compare a dataset; at least one block per call, so that every call makes progress."""
    name, in_dbs = dataset.dataset_name, dataset.in_dbs
    info = dbs().dataset(name) if in_dbs else None
    access_type = info.access_type if info else "none"
    expected = ACCESS_TYPES[DatasetStatus(dataset.status)]
    if dataset.status in WITHDRAWN:
        usable = access_type == "VALID" != expected and not is_shared(dataset=dataset)
        return Comparison([Difference("DBS", name, "access type", expected, access_type)] if usable else [])
    blocks = _announced(dataset.blocks.all())
    if not blocks:
        return Comparison([])
    found = []
    if in_dbs and dataset.announced_at is not None and access_type != expected:
        found.append(Difference("DBS", name, "access type", expected, access_type))
    counts, total = _count(dataset)
    theirs = FileCounts(info.files, info.size_bytes, info.events, info.lumis) if info else None
    sums = compare_counts("DBS", name, ours=total, theirs=theirs) if in_dbs else []
    waiting = [block for block in blocks if block.compared_at is None or block.compared_at < since]
    left = len(waiting)
    for block in waiting:
        found += _compare_block(block, counts.get(block.block_name, _sum([])), ask_dbs=bool(sums))
        left -= 1
        if monotonic() >= ends_at:
            break
    if sums and not found and not left and not is_shared(dataset=dataset):
        found += sums
    return Comparison(found, left)


def _compare_block(block: OutputBlock, ours: FileCounts, *, ask_dbs: bool) -> list[Difference]:
    name, found = block.block_name, []
    if ask_dbs:
        found += compare_counts("DBS", name, ours=ours, theirs=dbs().block_counts(name))
    found += compare_counts("Rucio", name, ours=ours, theirs=rucio().block_counts(name))
    for row in block.rules.filter(deleted_at__isnull=True):
        if expires(row):
            continue
        rule, what = rucio().rule(row.rule_id), f"rule at {row.rse_expression}"
        if rule is None or rule.expires_at is not None:
            found.append(Difference("Rucio", name, what, "one", "none"))
        elif rule.state is not RuleState.OK:  # a rule is not yet a copy
            found.append(Difference("Rucio", name, what, RuleState.OK, rule.state))
    if not found:
        OutputBlock.objects.filter(pk=block.pk).update(compared_at=timezone.now())
    return found


def _count(dataset: OutputDataset) -> tuple[dict[str, FileCounts], FileCounts]:
    """Return the counts of each block and of all; lumis shared by blocks count once in the total."""
    files = OutputFile.objects.filter(block__dataset=dataset, block__status=BlockStatus.ANNOUNCED)
    facts: defaultdict[str, list[tuple[int, int, list[LumiRange]]]] = defaultdict(list)
    for name, size, events, lumis in files.values_list("block__block_name", "size_bytes", "events", "lumis"):
        facts[name].append((size, events, [(run, first, last) for run, first, last in lumis]))
    counts = {name: _sum(of_block) for name, of_block in facts.items()}
    return counts, _sum([fact for of_block in facts.values() for fact in of_block])


def _sum(facts: list[tuple[int, int, list[LumiRange]]]) -> FileCounts:
    return FileCounts(
        files=len(facts),
        bytes=sum(size for size, _, _ in facts),
        events=sum(events for _, events, _ in facts),
        lumis=count(merged(part for _, _, lumis in facts for part in lumis)),
    )


def _announced(blocks: QuerySet[OutputBlock]) -> list[OutputBlock]:
    finished = blocks.filter(status=BlockStatus.ANNOUNCED).select_related("dataset__workflow")
    return list(finished.order_by("block_name"))
