"""Steps of the output pipeline: each has at most one effect in an external service, find-or-create.

A step returns the status it leads to; a step that must be repeated later returns the present status.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from cms.types import BlockFile, BlockRecord, RuleState
from dags_app.adapters import dbs, rucio
from outputs_app.checking import check
from outputs_app.dataset_ownership import check_registration, is_ours_alone
from outputs_app.models import OutputBlock, OutputDataset, RucioRule
from outputs_app.pipeline import Step
from outputs_app.registered_notes import write_notes
from outputs_app.states import COPIES, BlockStatus, DatasetStatus, RuleKind
from wms2_project.errors import RateLimited, ServiceRejected
from wms2_project.tables import check_complete

ACTIVITY = "Production Output"
DAY_SEC = 24 * 3600
TAPES = "rse_type=TAPE"


def register(block: OutputBlock, now: datetime) -> BlockStatus:
    """Register the block and its files in DBS, if the workflow may write into the dataset.

    Of a dataset that is in Rucio only, nothing is registered in DBS.
    """
    check_registration(block.dataset, now)
    write_notes(block)
    if not block.dataset.in_dbs:
        return BlockStatus.DBS_REGISTERED
    dbs().register_block(_record(block))
    OutputBlock.objects.filter(pk=block.pk).update(dbs_registered_at=now)
    return BlockStatus.DBS_REGISTERED


def protect(block: OutputBlock, now: datetime) -> BlockStatus:
    """Register the block and its replicas in Rucio, with a rule that keeps them at their source."""
    put_into_rucio(block)
    _ensure_rule(block, RuleKind.SOURCE, block.rse)
    return BlockStatus.SOURCE_PROTECTED


def put_into_rucio(block: OutputBlock) -> None:
    """Register the block with its files at its source, closed, in the container of its dataset."""
    dataset = block.dataset.dataset_name
    rucio().ensure_container(dataset)
    rucio().ensure_block(block.block_name, dataset, block.rse, block_files(block))


def request_transfers(block: OutputBlock, now: datetime) -> BlockStatus:
    """Create a rule for every subscribed destination, disk or tape; without one, announce the block."""
    wanted = rucio().subscriptions_matching(block.dataset.dataset_name)
    storages = {destination: set(rucio().rses(destination.rse_expression)) for destination in wanted}
    reachable = {destination: found for destination, found in storages.items() if found - {block.rse}}
    tapes = set(rucio().rses(TAPES)) if reachable else set()
    for destination, found in reachable.items():
        kind = RuleKind.TAPE if found <= tapes else RuleKind.TRANSFER
        _ensure_rule(block, kind, destination.rse_expression, copies=destination.copies or len(found))
    return BlockStatus.TRANSFERS_REQUESTED if reachable else announce(block, now)


def poll_transfers(block: OutputBlock, now: datetime) -> BlockStatus:
    """Check whether all copies exist; boost stuck rules, and create lost ones again."""
    previous = block.last_transfer_check
    _note_check(block, now)
    try:
        return BlockStatus.TRANSFERRED if _copies_are_safe(block, now) else BlockStatus.TRANSFERRING
    except RateLimited:  # not checked
        _note_check(block, previous)
        raise


def _note_check(block: OutputBlock, at: datetime | None) -> None:
    OutputBlock.objects.filter(pk=block.pk).update(last_transfer_check=at)
    block.last_transfer_check = at


def _copies_are_safe(block: OutputBlock, now: datetime) -> bool:
    """Return whether every copy is complete under a lasting rule; repair what can be repaired."""
    rules = list(block.rules.filter(kind__in=COPIES, deleted_at__isnull=True))
    states = {_check_rule(rule, now) for rule in rules}
    suspended = [rule for rule in rules if rule.state == RuleState.SUSPENDED]
    if suspended:
        raise ServiceRejected(
            f"Rucio suspended rule {suspended[0].rule_id} for {suspended[0].rse_expression}: "
            f"{suspended[0].error or 'no reason given'}",
            cure="Fix the cause in Rucio and release the rule there",
        )
    return states <= {RuleState.OK}


def _check_rule(rule: RucioRule, now: datetime) -> RuleState:
    """Store and return the state of the rule. A deleted rule is created again: it protects nothing."""
    seen = rucio().rule(rule.rule_id)
    if seen is None or seen.expires_at is not None:
        _make_again(rule)
        state, error = RuleState.INJECT, ""
    else:
        state, error = seen.state, seen.error
    if state is RuleState.STUCK:
        rucio().boost_rule(rule.rule_id)
    if rule.state != state:
        rule.state, rule.state_since = state, now
    rule.error = error
    rule.save(update_fields=["state", "state_since", "error"])
    return state


def release_source(block: OutputBlock, now: datetime) -> BlockStatus:
    """Delete the rule at the source if the copies are safe, which is checked once more.

    Otherwise the block waits for them again, and its source stays or becomes protected.
    """
    if _copies_are_safe(block, now):
        _delete_rules(block, [RuleKind.SOURCE], now)
        return BlockStatus.SOURCE_RELEASED
    for rule in block.rules.filter(kind=RuleKind.SOURCE, deleted_at__isnull=False):
        if not expires(rule):
            _make_again(rule)
    return BlockStatus.TRANSFERRING


def announce(block: OutputBlock, now: datetime) -> BlockStatus:
    """Record that the block is at its destination. `announce_datasets` makes its dataset VALID later."""
    OutputBlock.objects.filter(pk=block.pk).update(announced_at=now)
    return BlockStatus.ANNOUNCED


def undo(block: OutputBlock, now: datetime) -> BlockStatus:
    """Withdraw all effects that any status may have left, including those a crash kept from being recorded.

    A dataset with blocks of other systems, or with usable ones of other workflows, stays as it is: then
    only the files of this block are invalidated. Of a released dataset only the rules are deleted.
    """
    dataset = block.dataset
    in_dbs = dataset.in_dbs and dataset.status != DatasetStatus.RELEASED
    if in_dbs and dbs().block(block.block_name) is not None:
        if is_ours_alone(dataset):
            removed = dataset.status == DatasetStatus.REMOVED
            dbs().set_dataset_status(dataset.dataset_name, "DELETED" if removed else "INVALID")
        else:
            dbs().invalidate_files([file.lfn for file in block_files(block)])
    _delete_rules(block, list(RuleKind), now)
    OutputBlock.objects.filter(pk=block.pk).update(invalidated_at=now)
    return BlockStatus.INVALIDATED


STEPS: dict[Step, Callable[[OutputBlock, datetime], BlockStatus]] = {
    Step.CHECK: check,
    Step.REGISTER: register,
    Step.PROTECT: protect,
    Step.REQUEST_TRANSFERS: request_transfers,
    Step.POLL_TRANSFERS: poll_transfers,
    Step.RELEASE_SOURCE: release_source,
    Step.ANNOUNCE: announce,
    Step.UNDO: undo,
}
check_complete("STEPS", STEPS, Step)


def _ensure_rule(block: OutputBlock, kind: RuleKind, rse: str, *, copies: int = 1) -> None:
    """Store the row, then create the rule: after a crash the rule is found by the row."""
    rule, _ = RucioRule.objects.get_or_create(
        block=block, kind=kind, rse_expression=rse, defaults={"copies": copies}
    )
    if not rule.rule_id:
        _put_into_effect(rule)


def _put_into_effect(rule: RucioRule) -> None:
    rule_id = rucio().ensure_rule(
        rule.block.block_name,
        rule.rse_expression,
        copies=rule.copies,
        activity=ACTIVITY,
        comment=f"WMS2 {rule.kind}",
        lifetime_sec=DAY_SEC * (rule.block.dataset.lifetime_days or 0) if expires(rule) else None,
    )
    RucioRule.objects.filter(pk=rule.pk).update(rule_id=rule_id)


def expires(rule: RucioRule) -> bool:
    """Return whether the rule is meant to run out: it is never created a second time."""
    return rule.kind == RuleKind.SOURCE and rule.block.dataset.lifetime_days is not None


def _make_again(rule: RucioRule) -> None:
    """Create a lost or deleted rule again."""
    rule.rule_id, rule.deleted_at = "", None
    rule.save(update_fields=["rule_id", "deleted_at"])
    _put_into_effect(rule)


def ensure_rules(block: OutputBlock) -> None:
    """Create every rule of the block again that Rucio has lost or is about to delete."""
    for rule in block.rules.filter(deleted_at__isnull=True):
        if not (expires(rule) and rule.rule_id):
            _put_into_effect(rule)


def _delete_rules(block: OutputBlock, kinds: list[RuleKind], now: datetime) -> None:
    """Delete rules; one that was created but not recorded is found by its row, and recorded."""
    for rule in block.rules.filter(kind__in=kinds, deleted_at__isnull=True):
        if not rule.rule_id:
            found = rucio().find_rule(block.block_name, rule.rse_expression, copies=rule.copies)
            rule.rule_id = found or ""
            rule.save(update_fields=["rule_id"])
        if rule.rule_id:
            rucio().delete_rule(rule.rule_id)
        RucioRule.objects.filter(pk=rule.pk).update(deleted_at=now)


def block_files(block: OutputBlock) -> tuple[BlockFile, ...]:
    """Return the block's files for DBS and Rucio."""
    return tuple(
        BlockFile(
            lfn=file.lfn,
            size_bytes=file.size_bytes,
            events=file.events,
            adler32=file.adler32,
            lumis=tuple((run, first, last) for run, first, last in file.lumis),
            parents=tuple(file.parents),
            lumi_events=tuple((run, first, last, events) for run, first, last, events in file.lumi_events),
        )
        for file in block.files.order_by("lfn")
    )


def _primary_type(dataset: OutputDataset) -> str:
    """Return the data type: mc for generated events, else that of the input in DBS."""
    read = dataset.workflow.input_dataset  # several inputs: the first one decides, as for the name
    if not read:
        return "mc"
    if not dataset.primary_type:
        found = dbs().dataset(read)
        if found is None or not found.primary_type:
            raise ServiceRejected(
                f"DBS has no data type of {read}", cure="Have the input dataset restored in DBS"
            )
        dataset.primary_type = found.primary_type
        dataset.save(update_fields=["primary_type"])
    return dataset.primary_type


def _record(block: OutputBlock) -> BlockRecord:
    workflow = block.dataset.workflow
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
        primary_type=_primary_type(block.dataset),
        created_at=int(block.created_at.timestamp()),
        parent_datasets=workflow.input_datasets,
    )
