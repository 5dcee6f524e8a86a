"""Work of a request for its page: timeline bars, resources used, coverage of the input, output blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import Count, Sum
from django.urls import reverse

from console.request.gantt import Gantt, Span, build_gantt
from console.request.histogram import Histogram, Marker, build_histogram
from dags_app.models import DAG, FoldedInput, InputFile, MergeGroup, Workflow
from dags_app.planning.layout import MIN_WALL_MINUTES, WALL_MARGIN
from dags_app.states import DAGStatus, FileState, GroupStatus, RoundStatus
from outputs_app.models import OutputBlock, OutputFile, RucioRule
from outputs_app.pipeline import PIPELINE
from outputs_app.selectors import blocks_of
from outputs_app.states import BlockStatus
from requests_app.models import Request
from requests_app.selectors.progress import Progress
from requests_app.selectors.requests import timeline_of
from requests_app.states import STATUSES, TERMINAL, RequestStatus

MAX_MEASURED = 5000
MAX_ACTIONS = 200
DAG_TONES = {
    DAGStatus.COMPLETED: "success", DAGStatus.FAILED: "danger", DAGStatus.PARTIAL: "warning",
    DAGStatus.REMOVED: "warning", DAGStatus.STOPPED: "warning",
}  # fmt: skip
BLOCK_TONES = {
    BlockStatus.ANNOUNCED: "success", BlockStatus.FAILED: "danger", BlockStatus.INVALIDATED: "",
    BlockStatus.INVALIDATING: "warning",
}  # fmt: skip
# Steps of a block that is transferred. A block without transfer goes from protected to announced.
STEPS = [
    status for status, stage in PIPELINE.items() if stage.step and status is not BlockStatus.INVALIDATING
]
STEPS.append(BlockStatus.ANNOUNCED)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the input: its files or groups, its events, and where they are listed."""

    label: str
    count: int
    events: int
    tone: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class BlockRow:
    """An output block; `step` is its place in the pipeline, from 0."""

    block: Any
    step: int
    tone: str
    rules: list[RucioRule]


def gantt_of(request: Request, blocks: list[BlockRow], *, now: datetime) -> Gantt:
    """Return the timeline from the creation of the request to its end, or to now."""
    moves = list(request.transitions.order_by("id").values_list("to_status", "at", "reason"))
    ended = request.status in TERMINAL
    announced = [row.block.announced_at for row in blocks if row.block.announced_at]
    end = max([request.status_since, *announced]) if ended else now
    begin = min(moves[0][1], request.created_at) if moves else request.created_at
    return build_gantt(
        [
            ("Status", list(_statuses(moves, ended=ended))),
            ("Rounds", list(_rounds(request.workflow))),
            ("DAGs", list(_dags(request.workflow))),
            ("Actions", list(_actions(request))),
            ("Output blocks", [_block(row) for row in blocks]),
        ],
        begin=begin,
        end=end,
    )


def _statuses(moves: list[tuple[str, datetime, str]], *, ended: bool) -> Iterator[Span]:
    """Yield the statuses; holds are among them."""
    after: list[datetime | None] = [at for _, at, _ in moves[1:]]
    after.append(moves[-1][1] if ended and moves else None)
    for (status, at, reason), end in zip(moves, after, strict=False):
        tone = STATUSES[RequestStatus(status)].colour
        yield Span(status.replace("_", " "), at, end, tone, reason)


def _rounds(workflow: Workflow) -> Iterator[Span]:
    for one in workflow.rounds.order_by("number"):
        tone = "success" if one.status == RoundStatus.RESOLVED else "primary"
        jobs = f"{one.jobs:,} jobs, {one.input_events:,} events"
        yield Span(f"{one.kind} {one.number}", one.created_at, one.resolved_at, tone, jobs)


def _dags(workflow: Workflow) -> Iterator[Span]:
    for dag in DAG.objects.filter(workflow=workflow).order_by("created_at"):
        tone = DAG_TONES.get(DAGStatus(dag.status), "primary")
        detail = f"{dag.status}, {dag.nodes_done:,} of {dag.total_nodes:,} nodes done"
        url = reverse("admin:dags_app_dag_change", args=[dag.pk])
        yield Span(dag.kind, dag.submitted_at or dag.created_at, dag.completed_at, tone, detail, url)


def _actions(request: Request) -> Iterator[Span]:
    people = timeline_of(request).exclude(kind="status").exclude(actor__startswith="system:")
    for one in people.order_by("-at", "-id")[:MAX_ACTIONS]:
        who = one.actor.removeprefix("user:")
        yield Span(one.kind.replace("_", " "), one.at, one.at, "info", f"{who}: {one.reason}")


def _block(row: BlockRow) -> Span:
    block = row.block
    end = block.announced_at or block.invalidated_at
    url = reverse("admin:outputs_app_outputblock_change", args=[block.pk])
    label = block.block_name.rpartition("#")[2]
    return Span(label, block.created_at, end, row.tone, block.status.replace("_", " "), url)


def histograms_of(workflow: Workflow) -> list[Histogram]:
    """Return memory and wall time of jobs and the size of merged files, with the requested values."""
    groups = MergeGroup.objects.filter(round__workflow=workflow, metrics__isnull=False).order_by("-id")
    metrics: list[Any] = list(groups.values_list("metrics", flat=True)[:MAX_MEASURED])
    files = OutputFile.objects.filter(group__round__workflow=workflow).order_by("-id")
    sizes = [size / 1e6 for size in files.values_list("size_bytes", flat=True)[:MAX_MEASURED]]
    last = workflow.rounds.order_by("-number").first()
    estimate: dict[str, Any] = last.estimate if last else {}
    cores = estimate.get("cores") or workflow.cores
    asked_mb = estimate.get("memory_mb") or workflow.memory_mb
    events = last.input_events / last.jobs if last and last.jobs else 0
    expected_min = events * (estimate.get("time_per_event_sec") or workflow.time_per_event_sec) / 60
    asked_min = max(MIN_WALL_MINUTES, WALL_MARGIN * expected_min) if expected_min else 0
    found = (
        build_histogram(
            [one.get("peak_rss_mb", 0) for one in metrics],
            title="Memory of jobs", unit="MB",
            markers=[
                Marker("asked", asked_mb, "info"),
                Marker("limit", max(asked_mb, cores * settings.MEMORY_CEILING_PER_CORE_MB), "danger"),
            ],
        ),
        build_histogram(
            [(one.get("job_wall_p95_sec") or one["wall_time_sec"] / max(one["jobs"], 1)) / 60
             for one in metrics],
            title="Wall time of jobs", unit="min",
            markers=[Marker("expected", expected_min, "primary"), Marker("limit", asked_min, "danger")],
        ),
        build_histogram(
            sizes,
            title="Size of merged files", unit="MB",
            markers=[Marker("target", workflow.target_merged_size_kb / 1000, "info")],
        ),
    )  # fmt: skip
    return [one for one in found if one is not None]


def coverage_of(workflow: Workflow, progress: Progress) -> list[Part]:
    """Return the input by state: processed, running, waiting, failed, excluded."""
    return _generated(workflow, progress) if workflow.generates else _files(workflow)


_FILE_PARTS = {
    FileState.PROCESSED: ("processed", "success"),
    FileState.ASSIGNED: ("running", "primary"),
    FileState.FRESH: ("waiting", "neutral"),
    FileState.ATTEMPTED: ("failed, to be retried", "warning"),
    FileState.EXCLUDED: ("excluded", "danger"),
}


def _files(workflow: Workflow) -> list[Part]:
    counts = _folded_counts(workflow) or _row_counts(workflow)
    url = reverse("admin:dags_app_inputfile_changelist")
    return [
        Part(label, *counts[state], tone, f"{url}?workflow__id__exact={workflow.pk}&state__exact={state}")
        for state, (label, tone) in _FILE_PARTS.items()
        if state in counts
    ]


def _row_counts(workflow: Workflow) -> dict[str, tuple[int, int]]:
    rows = InputFile.objects.filter(workflow=workflow).order_by().values_list("state")
    return {state: (files, events) for state, files, events in rows.annotate(Count("id"), Sum("events"))}


def _folded_counts(workflow: Workflow) -> dict[str, tuple[int, int]]:
    """Return files and events by state of a workflow whose files were folded."""
    folded = FoldedInput.objects.filter(workflow=workflow).first()
    states = folded.ledger["states"] if folded else {}
    return {state: (book["files"], book["events"]) for state, book in states.items() if book["files"]}


def _generated(workflow: Workflow, progress: Progress) -> list[Part]:
    """Return the generated events by the state of their groups; those of no open group are to be planned."""
    rows = MergeGroup.objects.filter(round__workflow=workflow).order_by()
    counted = rows.values_list("status", "round__status").annotate(Count("id"), Sum("input_events"))
    sums = {"processed": [0, 0], "running": [0, 0], "failed": [0, 0]}
    for status, round_status, groups, events in counted:
        if status == GroupStatus.COLLECTED:
            label = "processed"
        elif round_status != RoundStatus.PLANNED:
            continue  # planned again in a later round
        else:
            label = "failed" if status == GroupStatus.FAILED else "running"
        sums[label] = [sums[label][0] + groups, sums[label][1] + events]
    left = progress.events_total - sum(events for _, events in sums.values())
    url = reverse("admin:dags_app_mergegroup_changelist") + f"?round__workflow__id__exact={workflow.pk}"
    tones = {"processed": "success", "running": "primary", "failed": "warning"}
    parts = [
        Part(label, groups, events, tones[label], url) for label, (groups, events) in sums.items() if groups
    ]
    return [*parts, *([Part("waiting", 0, left, "neutral")] if left > 0 else [])]


def block_rows(workflow: Workflow) -> list[BlockRow]:
    """Return the newest blocks with their place in the pipeline and their rules."""
    blocks = list(blocks_of(workflow=workflow))
    rules: dict[Any, list[RucioRule]] = {}
    for rule in RucioRule.objects.filter(block__in=blocks, deleted_at__isnull=True).order_by("id"):
        rules.setdefault(rule.block_id, []).append(rule)
    return [_block_row(block, rules.get(block.pk, [])) for block in blocks]


def _block_row(block: OutputBlock, rules: list[RucioRule]) -> BlockRow:
    status = BlockStatus(block.status)
    tone = "warning" if block.failing_since else BLOCK_TONES.get(status, "primary")
    return BlockRow(block, STEPS.index(status) if status in STEPS else -1, tone, rules)
