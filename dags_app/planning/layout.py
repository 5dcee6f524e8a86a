"""A plan as input of the DAG writer: groups, nodes with their resources, and one manifest per group. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from condor.layout import Asset, DagLayout, DagmanSettings, GroupLayout, NodeLayout, Retries, Throttles
from dags_app.planning import names
from dags_app.planning.payloads import CMSSW
from dags_app.planning.types import Estimate, FileWindow, GroupSpec, JobSpec, Plan, PlanSpec
from dags_app.pull.tokens import TokenKind, group_subject, make_token
from sandbox.lumis import LumiRange, by_run
from sandbox.scram import ANY_OS

WALL_MARGIN = 3  # allowed wall time as a multiple of the estimate
MIN_WALL_MINUTES = 60
MIN_DISK_KB = 100_000
MIN_MERGE_MEMORY_MB = 500
MERGE_MEMORY_MB = {CMSSW: 2000}  # cmsRun itself merges its files


@dataclass(frozen=True, slots=True)
class PullSpec:
    """URL of WMS2 for runners, the key of their tokens, and the resources of each runner."""

    url: str
    token_key: str
    wall_minutes: int
    disk_kb: int


@dataclass(frozen=True, slots=True)
class LayoutSpec:
    """Content of the files besides the plan: names of data, payload, and the limits of DAGMan."""

    round_number: int
    output_datasets: Sequence[str]
    merged_lfn_base: str
    unmerged_lfn_base: str
    payload: Mapping[str, Any]
    pilot: Mapping[str, Any] | None
    assets: Sequence[Asset]
    job_files: Sequence[Asset]
    throttles: Throttles
    retries: Retries
    dagman: DagmanSettings
    priority: int
    memory_ceiling_per_core_mb: int
    wall_time_ceiling_minutes: int
    disk_ceiling_per_core_mb: int
    held_grace_sec: int
    max_transfer_output_mb: int
    with_token: bool = False
    job_proxy: str = ""
    required_os: str = ANY_OS
    log_dataset: str = ""
    pull: PullSpec | None = None  # of a pull round


def build_layout(*, plan: Plan, spec: PlanSpec, layout: LayoutSpec) -> DagLayout:
    """Build the content of the DAG's directory."""
    return DagLayout(
        request_name=spec.request_name,
        workflow_id=spec.workflow_id,
        groups=_Groups(plan, spec, layout),
        assets=layout.assets,
        job_files=layout.job_files,
        throttles=layout.throttles,
        retries=layout.retries,
        settings=layout.dagman,
        cleanup=NodeLayout("cleanup", memory_mb=200, cpus=1, disk_kb=10_000, wall_minutes=120),
        memory_ceiling_mb=max(
            plan.estimate.memory_mb, plan.estimate.cores * layout.memory_ceiling_per_core_mb
        ),
        wall_time_ceiling_minutes=layout.wall_time_ceiling_minutes,
        disk_ceiling_kb=plan.estimate.cores * layout.disk_ceiling_per_core_mb * 1024,
        held_grace_sec=layout.held_grace_sec,
        max_transfer_output_mb=layout.max_transfer_output_mb,
        payload=json.dumps(dict(layout.payload), sort_keys=True).encode(),
        priority=layout.priority,
        gpus=spec.gpus,
        with_token=layout.with_token,
        job_proxy=layout.job_proxy,
        required_os=layout.required_os,
        pull=layout.pull is not None,
    )


@dataclass(frozen=True, slots=True)
class _Groups:
    """The groups of a plan, laid out lazily on every iteration: a large DAG is never in memory."""

    plan: Plan
    spec: PlanSpec
    layout: LayoutSpec

    def __iter__(self) -> Iterator[GroupLayout]:
        return (_group(group, self.plan.estimate, self.spec, self.layout) for group in self.plan.groups)


def _group(group: GroupSpec, estimate: Estimate, spec: PlanSpec, layout: LayoutSpec) -> GroupLayout:
    nodes = [node_layout(group.first_job + number, job, estimate) for number, job in enumerate(group.jobs)]
    if layout.pull is not None:
        nodes = [
            replace(node, wall_minutes=layout.pull.wall_minutes, disk_kb=layout.pull.disk_kb)
            for node in nodes
        ]
    return GroupLayout(
        name=names.group_name(group.index),
        sites=sorted(group.sites),
        nodes=nodes,
        manifest=json.dumps(
            build_manifest(group, spec, layout, cores=estimate.cores), sort_keys=True
        ).encode(),
        merge=_merge_node(group, layout.payload),
    )


def _merge_node(group: GroupSpec, payload: Mapping[str, Any]) -> NodeLayout:
    """Return the merge node, with disk for the files of all datasets before and after the merge."""
    disk_kb = max(MIN_DISK_KB, 2 * group.estimated_output_kb)
    memory_mb = MERGE_MEMORY_MB.get(str(payload.get("kind")), MIN_MERGE_MEMORY_MB)
    return NodeLayout("merge", memory_mb=memory_mb, cpus=1, disk_kb=disk_kb, wall_minutes=720)


def node_layout(index: int, job: JobSpec, estimate: Estimate) -> NodeLayout:
    """Return the resources of one processing node."""
    seconds = job.events * estimate.time_per_event_sec * WALL_MARGIN
    input_kb = sum(window.file.size_bytes for window in job.files) // 1024
    output_kb = math.ceil(job.events * estimate.size_per_event_kb)
    return NodeLayout(
        names.node_name(index),
        memory_mb=estimate.memory_mb,
        cpus=estimate.cores,
        disk_kb=max(MIN_DISK_KB, input_kb + 2 * output_kb),
        wall_minutes=min(60 * 24 * 30, max(MIN_WALL_MINUTES, math.ceil(seconds / 60))),
    )


def build_manifest(group: GroupSpec, spec: PlanSpec, layout: LayoutSpec, *, cores: int) -> dict[str, Any]:
    """Return the work of all jobs of the group in the format that the sandbox reads."""
    outputs = [
        {
            "dataset": dataset,
            "merged_base": names.dataset_directory(layout.merged_lfn_base, dataset),
            "unmerged_base": names.dataset_directory(layout.unmerged_lfn_base, dataset),
        }
        for dataset in layout.output_datasets
    ]
    merged_ids = {
        dataset: names.merged_id(
            spec.workflow_id, round_number=layout.round_number, group=group.index, dataset=dataset
        )
        for dataset in layout.output_datasets
    }
    return (
        {
            "schema": 1,
            "request_name": spec.request_name,
            "workflow_id": spec.workflow_id,
            "round": layout.round_number,
            "group": names.group_name(group.index),
            "outputs": outputs,
            "merged_ids": merged_ids,
            "cores": cores,
            "pilot": dict(layout.pilot) if layout.pilot else None,
            "jobs": {
                names.node_name(group.first_job + number): _job(job) for number, job in enumerate(group.jobs)
            },
            "lumis": _known_lumis(group),
        }
        | _log_plan(group, spec, layout)
        | _pull(group, spec, layout)
    )


def _log_plan(group: GroupSpec, spec: PlanSpec, layout: LayoutSpec) -> dict[str, Any]:
    """Return where the group's log file is stored; empty if none is wanted."""
    if not layout.log_dataset:
        return {}
    lfn = names.log_lfn(
        layout.merged_lfn_base, spec.workflow_id, round_number=layout.round_number, group=group.index,
        dataset=layout.log_dataset,
    )  # fmt: skip
    return {"log": {"dataset": layout.log_dataset, "lfn": lfn}}


def _pull(group: GroupSpec, spec: PlanSpec, layout: LayoutSpec) -> dict[str, Any]:
    """Return where the group's runners start, and the token for it; empty in other rounds."""
    if layout.pull is None:
        return {}
    subject = group_subject(round_number=layout.round_number, group=group.index)
    token = make_token(
        key=layout.pull.token_key, workflow_id=spec.workflow_id, kind=TokenKind.GROUP, subject=subject
    )
    return {"pull": {"url": layout.pull.url, "token": token}}


def _known_lumis(group: GroupSpec) -> dict[str, dict[str, list[list[int]]]]:
    """Return the lumis of each file read without a mask: jobs must not report others."""
    return {
        window.file.lfn: json_ranges(window.file.lumis)
        for job in group.jobs
        if job.mask is None
        for window in job.files
        if window.mask is None and window.file.lumis
    }


def _job(job: JobSpec) -> dict[str, Any]:
    generate = job.generate
    return {
        "files": [_window(window) for window in job.files],
        "generate": None
        if generate is None
        else {
            "first_event": generate.first_event,
            "last_event": generate.last_event,
            "first_lumi": generate.first_lumi,
            "events_per_lumi": generate.events_per_lumi,
            "run": generate.run,
            "numbering_from": generate.first_event
            if generate.numbering_from is None
            else generate.numbering_from,
        },
        "mask": None if job.mask is None else json_ranges(job.mask),
        "events": job.events,
    }


def _window(window: FileWindow) -> dict[str, Any]:
    file = window.file
    return {
        "lfn": file.lfn,
        "size_bytes": file.size_bytes,
        "adler32": file.adler32,
        "events": file.events,
        "first_event": window.first_event or 0,
        "last_event": file.events - 1 if window.last_event is None else window.last_event,
        "mask": None if window.mask is None else json_ranges(window.mask),
    }


def json_ranges(lumis: Sequence[LumiRange]) -> dict[str, list[list[int]]]:
    """Return ranges as JSON: run → [[first, last], …]."""
    return {str(run): ranges for run, ranges in by_run(lumis).items()}
