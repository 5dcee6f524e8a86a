"""Datasets, blocks, files and rules of one request of the fleet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from uuid import UUID

from dags_app.models import MergeGroup, Workflow
from dags_app.planning import names
from dags_app.states import GroupStatus
from lab.fleet.stories import Story
from lab.fleet.world import PLACES
from outputs_app.models import DatasetClaim, OutputBlock, OutputDataset, OutputFile, RucioRule
from outputs_app.states import BlockStatus, DatasetStatus, RuleKind
from requests_app.states import RequestStatus

B = BlockStatus
FILES_PER_BLOCK = 6
STUCK_AT = "T2_BR_SPRACE"  # whose storage is full
# From the oldest block of a running request to the newest
_LINE = (
    B.ANNOUNCED, B.ANNOUNCED, B.SOURCE_RELEASED, B.TRANSFERRED, B.TRANSFERRING, B.TRANSFERRING,
    B.TRANSFERS_REQUESTED, B.SOURCE_PROTECTED, B.DBS_REGISTERED, B.CHECKED,
)  # fmt: skip
_WITH_TRANSFER = (B.TRANSFERS_REQUESTED, B.TRANSFERRING, B.TRANSFERRED, B.SOURCE_RELEASED, B.ANNOUNCED)


@dataclass(slots=True)
class Outputs:
    """The rows of one request's outputs."""

    datasets: list[OutputDataset]
    claims: list[DatasetClaim]
    blocks: list[OutputBlock]
    files: list[OutputFile]
    rules: list[RucioRule]


def make_outputs(
    workflow: Workflow, story: Story, groups: Sequence[MergeGroup], random: Random, now: datetime
) -> Outputs:
    """Return the outputs of the collected production groups, in blocks by site."""
    made = Outputs([], [], [], [], [])
    (name,) = workflow.output_datasets
    begun = story.since(RequestStatus.SUBMITTED)
    if begun is None:
        return made
    made.claims.append(
        DatasetClaim(
            workflow=workflow, dataset_name=name, chain=workflow, is_owner=True, claimed_at=begun,
            checked_at=begun,
        )
    )  # fmt: skip
    collected = [group for group in groups if group.status == GroupStatus.COLLECTED]
    if not collected:
        return made
    dataset = _dataset(workflow, story, name, min(group.finished_at or now for group in collected))
    made.datasets.append(dataset)
    blocks = list(_blocks(collected))
    for number, (site, members) in enumerate(blocks):
        status = _status(story, number, len(blocks), site, random)
        block = _block(dataset, site, members, status, story.number << 20 | number, now)
        made.blocks.append(block)
        made.files += [_file(block, group, name, random) for group in members]
        made.rules += _rules(block, now)
    return made


def _dataset(workflow: Workflow, story: Story, name: str, at: datetime) -> OutputDataset:
    complete, failed = story.status is RequestStatus.COMPLETED, story.status is RequestStatus.FAILED
    end = story.steps[-1].at
    return OutputDataset(
        id=names.dag_id(f"dataset {name}", round_number=story.number), workflow=workflow, dataset_name=name,
        status=DatasetStatus.INVALIDATED if failed else DatasetStatus.ACTIVE, created_at=at, updated_at=at,
        announced_at=end if complete else None, invalidated_at=end if failed else None,
        invalidation_reason=story.steps[-1].reason if failed else "",
        primary_type="mc" if workflow.generates else "data",
    )  # fmt: skip


def _blocks(groups: Sequence[MergeGroup]) -> Iterator[tuple[str, list[MergeGroup]]]:
    """Yield sites with the groups of one block each, the oldest first."""
    by_site: dict[str, list[MergeGroup]] = {}
    for group in groups:
        by_site.setdefault(group.site, []).append(group)
    cut = [
        (site, found[first : first + FILES_PER_BLOCK])
        for site, found in by_site.items()
        for first in range(0, len(found), FILES_PER_BLOCK)
    ]
    yield from sorted(cut, key=lambda one: (one[1][0].finished_at, one[0]))


def _status(story: Story, number: int, blocks: int, site: str, random: Random) -> BlockStatus:
    match story.status:
        case RequestStatus.COMPLETED:
            return B.ANNOUNCED
        case RequestStatus.FAILED:
            return B.INVALIDATED
        case RequestStatus.HELD if story.failure is None and number == 0:
            return B.FAILED
    if site == STUCK_AT:
        return B.TRANSFERRING
    place = (number + random.random()) / blocks
    return _LINE[min(int(place * len(_LINE)), len(_LINE) - 1)]


def _block(
    dataset: OutputDataset,
    site: str,
    members: Sequence[MergeGroup],
    status: BlockStatus,
    key: int,
    now: datetime,
) -> OutputBlock:
    closed = max(group.finished_at or now for group in members)
    stuck = site == STUCK_AT and status is B.TRANSFERRING
    return OutputBlock(
        id=UUID(int=0xB10C << 96 | key), dataset=dataset, site=site, rse=site, status=status,
        block_name=f"{dataset.dataset_name}#{UUID(int=0xB10C << 96 | key)}",
        created_at=members[0].finished_at or now, updated_at=closed, closed_at=closed,
        status_since=min(closed + timedelta(minutes=11), now),
        dbs_registered_at=None if status in (B.CHECKED, B.FAILED) else closed + timedelta(minutes=2),
        announced_at=closed + timedelta(hours=2) if status is B.ANNOUNCED else None,
        failing_since=closed if stuck else None, attempt=14 if stuck else 0,
        last_error="Rucio: the rule is STUCK: RSE over quota" if stuck else "",
        last_error_at=now if stuck else None,
        invalidated_at=closed + timedelta(hours=3) if status is B.INVALIDATED else None,
    )  # fmt: skip


def _file(block: OutputBlock, group: MergeGroup, dataset: str, random: Random) -> OutputFile:
    lfn = names.merged_lfn(
        "/store/data", str(block.dataset.workflow_id), round_number=group.round.number, group=group.index,
        dataset=dataset,
    )  # fmt: skip
    problem = "the storage has 3 120 004 bytes where the manifest has 3 211 992"
    return OutputFile(
        block=block, group=group, lfn=lfn, size_bytes=max(group.events_written, 1) * 2_300,
        events=group.events_written, adler32=f"{random.getrandbits(32):08x}",
        created_at=group.finished_at or block.created_at,
        checked_at=group.finished_at, checked_content=True,
        check_problem=problem if block.status == B.FAILED else "",
    )  # fmt: skip


def _rules(block: OutputBlock, now: datetime) -> Iterator[RucioRule]:
    """Yield the rule that protects the block at its source, and the one that copies it."""
    if block.status in (B.CHECKED, B.DBS_REGISTERED, B.FAILED, B.PENDING):
        return
    gone = block.status in (B.SOURCE_RELEASED, B.ANNOUNCED, B.INVALIDATED)
    since = block.status_since
    yield _rule(block, RuleKind.SOURCE, block.rse, "OK", since, deleted=since if gone else None)
    if block.status in _WITH_TRANSFER:
        where = PLACES[block.id.int % 4].name
        stuck = bool(block.failing_since)
        moving = block.status in (B.TRANSFERS_REQUESTED, B.TRANSFERRING)
        state = "STUCK" if stuck else "REPLICATING" if moving else "OK"
        rse = STUCK_AT if stuck else f"{where}_Disk"
        error = "the destination is over its quota (97 % used)" if stuck else ""
        yield _rule(block, RuleKind.TRANSFER, rse, state, since, error=error)


def _rule(
    block: OutputBlock,
    kind: RuleKind,
    where: str,
    state: str,
    at: datetime,
    *,
    deleted: datetime | None = None,
    error: str = "",
) -> RucioRule:
    key = names.dag_id(f"{block.pk} {kind}", round_number=0)
    return RucioRule(
        block=block, kind=kind, rse_expression=where, rule_id=key.hex, state=state, state_since=at,
        created_at=at, deleted_at=deleted, error=error,
    )  # fmt: skip
