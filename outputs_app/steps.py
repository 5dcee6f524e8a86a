"""The steps of the pipeline: each has one effect, find-or-create, and answers the state it leads to.

A step that must be looked at again later answers the state the block is in.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from cms.types import BlockFile, BlockRecord, RuleState
from dags_app.adapters import dbs, rucio
from outputs_app.models import OutputBlock, RucioRule
from outputs_app.pipeline import Step
from outputs_app.states import BlockStatus, RuleKind

ACTIVITY = "Production Output"


def register(block: OutputBlock, now: datetime) -> BlockStatus:
    """The block and its files in DBS."""
    dbs().register_block(_record(block))
    OutputBlock.objects.filter(pk=block.pk).update(dbs_registered_at=now)
    return BlockStatus.DBS_REGISTERED


def protect(block: OutputBlock, now: datetime) -> BlockStatus:
    """The block and its replicas in Rucio, with a rule that keeps them where they were made."""
    dataset = block.dataset.dataset_name
    rucio().ensure_container(dataset)
    rucio().ensure_block(block.block_name, dataset, block.rse, block_files(block))
    _ensure_rule(block, RuleKind.SOURCE, block.rse)
    return BlockStatus.SOURCE_PROTECTED


def request_transfers(block: OutputBlock, now: datetime) -> BlockStatus:
    """A rule for every place the subscriptions want it at; none means the block stays, announced."""
    wanted = rucio().subscriptions_matching(block.dataset.dataset_name)
    reachable = [expression for expression in wanted if set(rucio().rses(expression)) - {block.rse}]
    for expression in reachable:
        _ensure_rule(block, RuleKind.TRANSFER, expression)
    return BlockStatus.TRANSFERS_REQUESTED if reachable else announce(block, now)


def poll_transfers(block: OutputBlock, now: datetime) -> BlockStatus:
    """Are all copies there? A stuck rule is pushed on."""
    OutputBlock.objects.filter(pk=block.pk).update(last_transfer_check=now)
    arrived = True
    for rule in block.rules.filter(kind=RuleKind.TRANSFER, deleted_at__isnull=True):
        seen = rucio().rule(rule.rule_id)
        state = seen.state if seen is not None else RuleState.STUCK
        RucioRule.objects.filter(pk=rule.pk).update(state=state)
        if seen is not None and state is RuleState.STUCK:
            rucio().boost_rule(rule.rule_id)
        arrived = arrived and state is RuleState.OK
    return BlockStatus.TRANSFERRED if arrived else BlockStatus.TRANSFERRING


def release_source(block: OutputBlock, now: datetime) -> BlockStatus:
    """The copies are safe: the rule at the source may go."""
    for rule in block.rules.filter(kind=RuleKind.SOURCE, deleted_at__isnull=True):
        rucio().delete_rule(rule.rule_id)
        RucioRule.objects.filter(pk=rule.pk).update(deleted_at=now)
    return BlockStatus.SOURCE_RELEASED


def announce(block: OutputBlock, now: datetime) -> BlockStatus:
    """The dataset may be used: it is VALID in DBS."""
    dbs().set_dataset_status(block.dataset.dataset_name, "VALID")
    OutputBlock.objects.filter(pk=block.pk).update(announced_at=now)
    return BlockStatus.ANNOUNCED


STEPS: dict[Step, Callable[[OutputBlock, datetime], BlockStatus]] = {
    Step.REGISTER: register,
    Step.PROTECT: protect,
    Step.REQUEST_TRANSFERS: request_transfers,
    Step.POLL_TRANSFERS: poll_transfers,
    Step.RELEASE_SOURCE: release_source,
    Step.ANNOUNCE: announce,
}


def _ensure_rule(block: OutputBlock, kind: RuleKind, rse: str) -> None:
    """The row first, then the rule: a crash in between finds the rule again by what the row says."""
    rule, _ = RucioRule.objects.get_or_create(block=block, kind=kind, rse_expression=rse)
    if not rule.rule_id:
        rule_id = rucio().ensure_rule(block.block_name, rse, activity=ACTIVITY, comment=f"WMS2 {kind}")
        RucioRule.objects.filter(pk=rule.pk).update(rule_id=rule_id)


def block_files(block: OutputBlock) -> tuple[BlockFile, ...]:
    """The block's files as the catalogues want them."""
    return tuple(
        BlockFile(
            lfn=file.lfn,
            size_bytes=file.size_bytes,
            events=file.events,
            adler32=file.adler32,
            lumis=tuple((run, first, last) for run, first, last in file.lumis),
            parents=tuple(file.parents),
        )
        for file in block.files.order_by("lfn")
    )


def _record(block: OutputBlock) -> BlockRecord:
    workflow = block.dataset.workflow
    parents = (workflow.input_dataset,) if workflow.input_dataset else ()
    return BlockRecord(
        block_name=block.block_name,
        dataset=block.dataset.dataset_name,
        site=block.rse,
        files=block_files(block),
        acquisition_era=workflow.acquisition_era,
        processing_version=workflow.processing_version,
        physics_group="NoGroup",
        prep_id=workflow.prep_id,
        release=workflow.cmssw_version,
        global_tag=workflow.global_tag,
        primary_type="mc" if workflow.generates else "data",
        created_at=int(block.created_at.timestamp()),
        parent_datasets=parents,
    )
