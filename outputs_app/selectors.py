"""Output datasets and blocks of workflows: content, progress and obstacles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from django.db.models import Count, Exists, Min, OuterRef, Q, QuerySet, Sum
from django.db.models.functions import Left

from cms.types import RuleState
from dags_app.models import Workflow
from outputs_app.dataset_ownership import HELD, is_shared
from outputs_app.models import DatasetClaim, OutputBlock, OutputDataset, OutputFile, RucioRule
from outputs_app.pipeline import MOVING
from outputs_app.states import WITHDRAWN, BlockStatus, DatasetStatus, RuleKind
from wms2_project.words import counted

MAX_ERROR = 1000  # characters of an error
AWAITING = "awaiting_announcement"  # all blocks are announced, the dataset is not yet VALID in DBS
_ORDER = list(BlockStatus)
_ARRIVED = frozenset({BlockStatus.TRANSFERRED, BlockStatus.SOURCE_RELEASED, BlockStatus.ANNOUNCED})


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """One output dataset; its status is that of its least advanced block."""

    dataset_name: str
    status: Annotated[
        str, "`awaiting_announcement`: all blocks are ready, the dataset is not VALID in DBS yet."
    ]
    in_dbs: Annotated[bool, "Registered in DBS; false for datasets in Rucio only, such as log files."]
    transfers_complete: bool
    blocks: int
    blocks_announced: int
    blocks_archived: Annotated[int, "Blocks with a complete copy on tape."]
    files: int
    events: int
    size_bytes: int
    shared_with: Annotated[list[str], "Other requests that may write into the dataset."]


@dataclass(frozen=True, slots=True)
class OutputSummary:
    """Outputs of a workflow so far."""

    files: int
    events: int
    blocks: int
    announced: int


@dataclass(frozen=True, slots=True)
class Removal:
    """Content and progress of the removal of a dataset."""

    dataset_name: str
    request_name: Annotated[str, "The request that wrote it; empty if WMS2 has not written it."]
    status: Annotated[str, "Status of the dataset; empty if WMS2 has not written it."]
    blocks: int
    files: int
    size_bytes: int
    rules: Annotated[int, "Rules of WMS2 that still protect it."]
    obstacle: Annotated[str, "Why it cannot be removed; empty if it can."]
    requested: Annotated[bool, "Its removal was requested."]
    done: Annotated[bool, "It was requested and every block is withdrawn."]


@dataclass(frozen=True, slots=True)
class Trouble:
    """Blocks that keep failing: their number, the first failure and the service's message."""

    blocks: int
    since: datetime
    message: str


def datasets_of(*, workflow: Workflow) -> list[DatasetSummary]:
    """Return the datasets of a workflow, by name, in four queries."""
    datasets = list(OutputDataset.objects.filter(workflow=workflow).order_by("dataset_name"))
    blocks: dict[object, dict[BlockStatus, int]] = {}
    archived: Counter[object] = Counter()
    on_tape = RucioRule.objects.filter(
        block=OuterRef("pk"), kind=RuleKind.TAPE, state=RuleState.OK, deleted_at__isnull=True
    )
    by_status = OutputBlock.objects.filter(dataset__in=datasets).values("dataset", "status")
    for row in by_status.annotate(n=Count("id"), on_tape=Count("id", filter=Exists(on_tape))).order_by():
        blocks.setdefault(row["dataset"], {})[BlockStatus(row["status"])] = row["n"]
        archived[row["dataset"]] += row["on_tape"]
    summed = OutputFile.objects.filter(block__dataset__in=datasets).values("block__dataset")
    sums = {
        row["block__dataset"]: (row["files"], row["events"], row["bytes"])
        for row in summed.annotate(
            files=Count("id"), events=Sum("events"), bytes=Sum("size_bytes")
        ).order_by()
    }
    writers = other_writers(workflow=workflow)
    return [
        _summary(
            one,
            blocks.get(one.id, {}),
            archived[one.id],
            sums.get(one.id, (0, 0, 0)),
            writers.get(one.dataset_name, []),
        )
        for one in datasets
    ]


def removal_of(*, dataset_name: str) -> Removal:
    """Return the effect and the progress of a removal of the dataset, without calling DBS or Rucio."""
    rows = OutputDataset.objects.filter(dataset_name=dataset_name).select_related("workflow")
    usable = rows.exclude(status__in=sorted(WITHDRAWN)).order_by("-created_at").first()
    row = usable or rows.order_by("-invalidated_at").first()
    blocks = OutputBlock.objects.filter(dataset=row)
    sums = OutputFile.objects.filter(block__dataset=row).aggregate(files=Count("id"), bytes=Sum("size_bytes"))
    requested = usable is None and row is not None
    return Removal(
        dataset_name=dataset_name,
        request_name=row.workflow.request_name if row else "",
        status=row.status if row else "",
        blocks=blocks.count(),
        files=sums["files"],
        size_bytes=sums["bytes"] or 0,
        rules=RucioRule.objects.filter(block__dataset=row, deleted_at__isnull=True).count(),
        obstacle="" if requested else _removal_obstacle(usable),
        requested=requested,
        done=requested and not blocks.exclude(status=BlockStatus.INVALIDATED).exists(),
    )


def _removal_obstacle(dataset: OutputDataset | None) -> str:
    """Return why a dataset cannot be removed; empty if it can."""
    if dataset is None:
        return "WMS2 has not written it"
    if is_shared(dataset=dataset):
        return "other requests or systems write into it"
    if dataset.announced_at is None:
        return f"{dataset.workflow.request_name} has not completed it"
    return ""


def blocks_of(*, workflow: Workflow, limit: int = 100) -> QuerySet[OutputBlock]:
    """Return the newest blocks of a workflow with their sizes, newest first."""
    blocks = OutputBlock.objects.filter(dataset__workflow=workflow).select_related("dataset")
    sized = blocks.annotate(
        n_files=Count("files"), n_events=Sum("files__events"), n_bytes=Sum("files__size_bytes")
    )
    return sized.order_by("-created_at")[:limit]


def announced_count(*, workflow: Workflow) -> int:
    """Return the number of announced blocks, which DBS and Rucio must have."""
    return OutputBlock.objects.filter(dataset__workflow=workflow, status=BlockStatus.ANNOUNCED).count()


def unannounced(*, workflow: Workflow) -> str:
    """Describe the blocks that are not announced; empty if all are."""
    left = block_counts(workflow=workflow)
    left.pop(BlockStatus.ANNOUNCED, None)
    if not left:
        return ""
    message = ", ".join(f"{count.blocks} {status}" for status, count in sorted(left.items()))
    trouble = trouble_of(workflow=workflow, counts=left)
    return f"blocks not announced yet: {message}" + obstacles(workflow=workflow, counts=left, trouble=trouble)


@dataclass(frozen=True, slots=True)
class BlockCount:
    """Blocks of one workflow in one status."""

    blocks: int
    since: datetime  # of the block that is longest in the status
    failing: int
    with_message: int  # the last error, or the service they wait for


def block_counts(*, workflow: Workflow) -> dict[BlockStatus, BlockCount]:
    """Return the workflow's blocks by status."""
    rows = OutputBlock.objects.filter(dataset__workflow=workflow).order_by().values_list("status")
    counted_rows = rows.annotate(
        blocks=Count("id"),
        since=Min("status_since"),
        failing=Count("id", filter=Q(failing_since__isnull=False)),
        with_message=Count("id", filter=~Q(last_error="")),
    )
    return {BlockStatus(status): BlockCount(*numbers) for status, *numbers in counted_rows}


def obstacles(
    *, workflow: Workflow, counts: Mapping[BlockStatus, BlockCount], trouble: Trouble | None
) -> str:
    """Describe obstacles of the outputs, to be appended to a sentence; empty without obstacles."""
    message = ""
    if trouble is not None:
        failing = counted(trouble.blocks, "block")
        message += f"; {failing} failing since {trouble.since:%F %R} UTC: {trouble.message}"
    moving = [count for status, count in counts.items() if status in MOVING]
    if any(count.with_message for count in moving):
        message += _describe_waiting(workflow)
    return message + (_describe_stuck(workflow) if moving else "")


def _describe_waiting(workflow: Workflow) -> str:
    waiting = OutputBlock.objects.filter(
        dataset__workflow=workflow, failing_since__isnull=True, status__in=sorted(MOVING)
    ).exclude(last_error="")
    messages = list(waiting.values_list(Left("last_error", MAX_ERROR), flat=True))
    return f"; {counted(len(messages), 'block')} waiting for a call: {messages[0]}" if messages else ""


def _describe_stuck(workflow: Workflow) -> str:
    stuck = RucioRule.objects.filter(
        block__dataset__workflow=workflow, state=RuleState.STUCK, deleted_at__isnull=True
    )
    first = stuck.order_by("state_since").first()
    if first is None:
        return ""
    return f"; Rucio rule {first.rule_id} to {first.rse_expression} STUCK since {first.state_since:%F %R}"


def wrong_outputs(*, workflow: Workflow) -> QuerySet[OutputFile]:
    """Return the merged files on the storage that differ from the reports of their jobs, by name."""
    files = OutputFile.objects.filter(block__dataset__workflow=workflow, block__status=BlockStatus.FAILED)
    return files.exclude(check_problem="").select_related("block").order_by("lfn")


def summary(*, workflow: Workflow) -> OutputSummary:
    """Return the workflow's files, events and blocks."""
    files = OutputFile.objects.filter(block__dataset__workflow=workflow)
    totals = files.aggregate(files=Count("id"), events=Sum("events"))
    counts = block_counts(workflow=workflow)
    announced = counts.get(BlockStatus.ANNOUNCED)
    return OutputSummary(
        files=totals["files"],
        events=totals["events"] or 0,
        blocks=sum(count.blocks for count in counts.values()),
        announced=announced.blocks if announced else 0,
    )


def other_writers(*, workflow: Workflow) -> dict[str, list[str]]:
    """Return, by dataset of the workflow, the other requests that may write into it."""
    own = workflow.claims.values("dataset_name")
    others = DatasetClaim.objects.filter(HELD, dataset_name__in=own).exclude(workflow=workflow)
    found: dict[str, list[str]] = {}
    for name, request in others.order_by("claimed_at").values_list("dataset_name", "workflow__request_name"):
        found.setdefault(name, []).append(request)
    return found


def awaited_writers(*, dataset: OutputDataset, unfinished: QuerySet[Any, Any]) -> list[str]:
    """Return the other requests that still write into the dataset: not ended, or with moving blocks.

    `unfinished`: the workflows whose requests have not ended.
    """
    writers = DatasetClaim.objects.filter(HELD, dataset_name=dataset.dataset_name).exclude(
        workflow=dataset.workflow_id
    )
    moving = OutputBlock.objects.filter(
        dataset__dataset_name=dataset.dataset_name, status__in=sorted(MOVING)
    ).values("dataset__workflow")
    busy = writers.filter(Q(workflow__in=unfinished) | Q(workflow__in=moving))
    return list(busy.order_by("claimed_at").values_list("workflow__request_name", flat=True))


def trouble_of(*, workflow: Workflow, counts: Mapping[BlockStatus, BlockCount]) -> Trouble | None:
    """Return the trouble of the workflow's blocks; None if there is none."""
    if not any(count.failing for status, count in counts.items() if status in MOVING):
        return None
    return troubles(OutputBlock.objects.filter(dataset__workflow=workflow)).get(workflow.pk)


def troubles(blocks: QuerySet[OutputBlock] | None = None) -> dict[UUID, Trouble]:
    """Return the trouble of these blocks, or of all, by workflow. Blocks that ended do not count."""
    rows = OutputBlock.objects.all() if blocks is None else blocks
    failing = rows.filter(failing_since__isnull=False, status__in=sorted(MOVING)).order_by("failing_since")
    found: dict[UUID, list[tuple[datetime, str]]] = {}
    for workflow_id, since, error in failing.values_list(
        "dataset__workflow", "failing_since", Left("last_error", MAX_ERROR)
    ):
        found.setdefault(workflow_id, []).append((since, error))
    return {
        workflow_id: Trouble(blocks=len(errors), since=errors[0][0], message=errors[0][1])
        for workflow_id, errors in found.items()
    }


def _summary(
    dataset: OutputDataset,
    blocks: dict[BlockStatus, int],
    archived: int,
    sums: tuple[int, int, int],
    shared_with: list[str],
) -> DatasetSummary:
    if BlockStatus.FAILED in blocks:
        status = BlockStatus.FAILED
    else:
        status = min(blocks, key=_ORDER.index, default=BlockStatus.PENDING)
    unannounced = status is BlockStatus.ANNOUNCED and dataset.announced_at is None
    removed = dataset.status in (DatasetStatus.REMOVED, DatasetStatus.RELEASED)
    return DatasetSummary(
        dataset_name=dataset.dataset_name,
        status=dataset.status if removed else AWAITING if unannounced else status,
        in_dbs=dataset.in_dbs,
        transfers_complete=bool(blocks) and set(blocks) <= _ARRIVED,
        blocks=sum(blocks.values()),
        blocks_announced=blocks.get(BlockStatus.ANNOUNCED, 0),
        blocks_archived=archived,
        files=sums[0],
        events=sums[1],
        size_bytes=sums[2],
        shared_with=shared_with,
    )
