"""Reading what a workflow has produced and how far it is on its way."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, QuerySet, Sum

from dags_app.models import Workflow
from outputs_app.models import OutputBlock, OutputDataset, OutputFile
from outputs_app.states import BlockStatus

_ORDER = list(BlockStatus)
_ARRIVED = frozenset({BlockStatus.TRANSFERRED, BlockStatus.SOURCE_RELEASED, BlockStatus.ANNOUNCED})


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """One output dataset. Its status is that of its least advanced block; a failed block shows."""

    dataset_name: str
    status: str
    transfers_complete: bool
    blocks: int
    blocks_announced: int
    files: int
    events: int
    size_bytes: int


def datasets_of(*, workflow: Workflow) -> list[DatasetSummary]:
    """The datasets of a workflow, by name, in three queries."""
    datasets = list(OutputDataset.objects.filter(workflow=workflow).order_by("dataset_name"))
    blocks: dict[object, dict[BlockStatus, int]] = {}
    counted = OutputBlock.objects.filter(dataset__in=datasets).values("dataset", "status")
    for row in counted.annotate(n=Count("id")).order_by():
        blocks.setdefault(row["dataset"], {})[BlockStatus(row["status"])] = row["n"]
    summed = OutputFile.objects.filter(block__dataset__in=datasets).values("block__dataset")
    sums = {
        row["block__dataset"]: (row["files"], row["events"], row["bytes"])
        for row in summed.annotate(
            files=Count("id"), events=Sum("events"), bytes=Sum("size_bytes")
        ).order_by()
    }
    return [_summary(one, blocks.get(one.id, {}), sums.get(one.id, (0, 0, 0))) for one in datasets]


def blocks_of(*, workflow: Workflow, limit: int = 100) -> QuerySet[OutputBlock]:
    """The newest blocks of a workflow with their size, newest first."""
    blocks = OutputBlock.objects.filter(dataset__workflow=workflow).select_related("dataset")
    sized = blocks.annotate(
        n_files=Count("files"), n_events=Sum("files__events"), n_bytes=Sum("files__size_bytes")
    )
    return sized.order_by("-created_at")[:limit]


def _summary(
    dataset: OutputDataset, blocks: dict[BlockStatus, int], sums: tuple[int, int, int]
) -> DatasetSummary:
    if BlockStatus.FAILED in blocks:
        status = BlockStatus.FAILED
    else:
        status = min(blocks, key=_ORDER.index, default=BlockStatus.PENDING)
    return DatasetSummary(
        dataset_name=dataset.dataset_name,
        status=status,
        transfers_complete=bool(blocks) and set(blocks) <= _ARRIVED,
        blocks=sum(blocks.values()),
        blocks_announced=blocks.get(BlockStatus.ANNOUNCED, 0),
        files=sums[0],
        events=sums[1],
        size_bytes=sums[2],
    )
