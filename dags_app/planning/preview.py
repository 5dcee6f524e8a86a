"""Description of a plan: totals, then every group with its jobs. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate, takewhile
from typing import Annotated, Any

from dags_app.planning.layout import LayoutSpec, build_manifest, node_layout
from dags_app.planning.lumis import normalised
from dags_app.planning.types import FileSpec, GroupSpec, Plan, PlanSpec, SitePool
from wms2_project.errors import InvalidInput

Mask = Annotated[dict[str, list[list[int]]] | None, "Run → [[first, last], …]; null selects all lumis."]


@dataclass(frozen=True, slots=True)
class PlannedWindow:
    """An input file of a job, and the events it reads of it."""

    lfn: str
    size_bytes: int
    adler32: str
    events: Annotated[int, "Events of the whole file."]
    first_event: int
    last_event: int
    mask: Mask


@dataclass(frozen=True, slots=True)
class PlannedGeneration:
    """The events that a job generates."""

    first_event: int
    last_event: int
    first_lumi: int
    events_per_lumi: int
    run: int
    numbering_from: int


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """One job: its resources and its work, as in the group's jobs.json."""

    node: str
    memory_mb: int
    cpus: int
    disk_kb: int
    wall_minutes: int
    files: Annotated[list[dict[str, Any]], PlannedWindow]
    generate: Annotated[dict[str, Any] | None, PlannedGeneration]
    mask: Mask
    events: int


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """The jobs whose outputs are merged."""

    name: str
    sites: list[str]
    events: int
    estimated_output_kb: int
    jobs: list[PlannedJob]


@dataclass(frozen=True, slots=True)
class PlannedEstimate:
    """The values per event that the plan is based on."""

    time_per_event_sec: float
    memory_mb: int
    size_per_event_kb: float
    source: str
    cores: int
    operator: Annotated[list[str], "Values that an operator decided."]


@dataclass(frozen=True, slots=True)
class MergedSize:
    """Size of the merged outputs of a group."""

    min: int
    max: int
    total: int


@dataclass(frozen=True, slots=True)
class PlanTotals:
    """Sums over the whole plan."""

    groups: int
    jobs: int
    nodes: int
    events: int
    input_files: int
    files_no_site_can_read: int
    cpu_hours: float
    memory_mb: int
    cores: int
    output_files: int
    merged_size_kb: MergedSize
    sites: list[str]
    estimated_wall_hours: float


@dataclass(frozen=True, slots=True)
class PlanDescription:
    """The plan of the first production round: its cost, its input and its output."""

    request_name: str
    algorithm: str
    estimate: Annotated[dict[str, Any], PlannedEstimate]
    totals: PlanTotals
    output_datasets: list[str]
    more_rounds: Annotated[bool, "Whether later rounds plan the remaining work."]
    groups_not_shown: int
    groups: list[PlannedGroup]
    pilot_first: Annotated[bool, "Whether a pilot measures the payload before."]
    estimated_completion: datetime
    learned: Annotated[
        dict[str, Any], "What finished requests of the campaign taught: the estimate, avoided sites."
    ]


def describe_plan(
    *,
    plan: Plan,
    spec: PlanSpec,
    layout: LayoutSpec,
    now: datetime,
    pilot_first: bool,
    learned: dict[str, Any],
    shown_jobs: int | None = None,
) -> PlanDescription:
    """Describe the plan. Totals cover the whole plan; groups are shown up to `shown_jobs` jobs."""
    shown = plan.groups if shown_jobs is None else _first(plan.groups, shown_jobs)
    totals = _totals(plan, layout)
    return PlanDescription(
        request_name=spec.request_name,
        algorithm=spec.algo,
        estimate=plan.estimate.as_json(),
        totals=totals,
        output_datasets=list(layout.output_datasets),
        more_rounds=plan.truncated,
        groups_not_shown=len(plan.groups) - len(shown),
        groups=[_group(group, plan, spec, layout) for group in shown],
        pilot_first=pilot_first,
        estimated_completion=now + timedelta(hours=totals.estimated_wall_hours),
        learned=learned,
    )


def _totals(plan: Plan, layout: LayoutSpec) -> PlanTotals:
    estimate = plan.estimate
    hours = plan.events * estimate.time_per_event_sec / 3600
    sizes = [group.estimated_output_kb for group in plan.groups]
    groups_at_once = max(layout.throttles.merge_groups, 1)
    longest = max(_longest_job_sec(group, estimate.time_per_event_sec) for group in plan.groups)
    return PlanTotals(
        groups=len(plan.groups),
        jobs=plan.jobs,
        nodes=plan.total_nodes,
        events=plan.events,
        input_files=len({w.file.lfn for g in plan.groups for j in g.jobs for w in j.files}),
        files_no_site_can_read=len(plan.unplaceable),
        cpu_hours=round(hours * estimate.cores, 4),
        memory_mb=estimate.memory_mb,
        cores=estimate.cores,
        output_files=len(plan.groups) * len(layout.output_datasets),
        merged_size_kb=MergedSize(min(sizes), max(sizes), sum(sizes)),
        sites=sorted({site for group in plan.groups for site in group.sites}),
        estimated_wall_hours=round(math.ceil(len(plan.groups) / groups_at_once) * longest / 3600, 4),
    )


def _first(groups: Sequence[GroupSpec], most: int) -> Sequence[GroupSpec]:
    """Return the first groups with at most so many jobs together, but at least one."""
    jobs = accumulate(len(group.jobs) for group in groups)
    return groups[: max(1, sum(1 for _ in takewhile(lambda total: total <= most, jobs)))]


def _group(group: GroupSpec, plan: Plan, spec: PlanSpec, layout: LayoutSpec) -> PlannedGroup:
    nodes = [
        node_layout(group.first_job + number, job, plan.estimate) for number, job in enumerate(group.jobs)
    ]
    manifest = build_manifest(group, spec, layout, cores=plan.estimate.cores)
    return PlannedGroup(
        name=manifest["group"],
        sites=sorted(group.sites),
        events=group.events,
        estimated_output_kb=group.estimated_output_kb,
        jobs=[
            PlannedJob(
                node=node.name,
                memory_mb=node.memory_mb,
                cpus=node.cpus,
                disk_kb=node.disk_kb,
                wall_minutes=node.wall_minutes,
                **manifest["jobs"][node.name],
            )
            for node in nodes
        ],
    )


def _longest_job_sec(group: GroupSpec, time_per_event_sec: float) -> float:
    return max(job.events for job in group.jobs) * time_per_event_sec


def read_files(rows: Sequence[Mapping[str, Any]]) -> tuple[list[FileSpec], SitePool]:
    """Return files given by a user (lfn, events, size, runs, locations) and the sites that have them."""
    files: list[FileSpec] = []
    wrong: dict[str, str] = {}
    for number, row in enumerate(rows):
        try:
            files.append(_file(row))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            wrong[f"files[{number}]"] = f"{type(error).__name__}: {error}"
    if wrong:
        raise InvalidInput(
            f"{len(wrong)} files cannot be read",
            fields=wrong,
            cure='Each needs "lfn", "events", "size", "runs" {run: [lumis]} and "locations"',
        )
    names = frozenset(site for file in files for site in file.sites)
    return files, SitePool(names=names, by_storage={name: frozenset({name}) for name in names})


def _file(row: Mapping[str, Any]) -> FileSpec:
    places = row["locations"]
    if not isinstance(places, list) or not all(isinstance(site, str) and site for site in places):
        raise ValueError(f"locations is {places!r:.80}, not a list of names")
    return FileSpec(
        lfn=str(row["lfn"]),
        events=int(row["events"]),
        size_bytes=int(row.get("size", 0)),
        sites=frozenset(places),
        adler32=str(row.get("adler32", "")),
        lumis=normalised(
            [(int(run), int(n), int(n)) for run, lumis in (row.get("runs") or {}).items() for n in lumis]
        ),
    )
