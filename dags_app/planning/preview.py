"""Description of a plan as JSON: totals, then every group with its jobs. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate, takewhile
from typing import Any

from dags_app.planning.layout import LayoutSpec, build_manifest, node_layout
from dags_app.planning.lumis import normalised
from dags_app.planning.types import FileSpec, GroupSpec, Plan, PlanSpec, SitePool
from wms2_project.errors import InvalidInput


def describe_plan(
    *, plan: Plan, spec: PlanSpec, layout: LayoutSpec, shown_jobs: int | None = None
) -> dict[str, Any]:
    """Return the plan as JSON: its cost, its input and its output.

    Totals cover the whole plan; groups are shown up to `shown_jobs` jobs.
    """
    estimate = plan.estimate
    hours = plan.events * estimate.time_per_event_sec / 3600
    sizes = [group.estimated_output_kb for group in plan.groups]
    groups_at_once = max(layout.throttles.merge_groups, 1)
    shown = plan.groups if shown_jobs is None else _first(plan.groups, shown_jobs)
    longest = max(_longest_job_sec(group, estimate.time_per_event_sec) for group in plan.groups)
    return {
        "request_name": spec.request_name,
        "algorithm": spec.algo,
        "estimate": estimate.as_json(),
        "totals": {
            "groups": len(plan.groups),
            "jobs": plan.jobs,
            "nodes": plan.total_nodes,
            "events": plan.events,
            "input_files": len({w.file.lfn for g in plan.groups for j in g.jobs for w in j.files}),
            "files_no_site_can_read": len(plan.unplaceable),
            "cpu_hours": round(hours * estimate.cores, 4),
            "memory_mb": estimate.memory_mb,
            "cores": estimate.cores,
            "output_files": len(plan.groups) * len(layout.output_datasets),
            "merged_size_kb": {"min": min(sizes), "max": max(sizes), "total": sum(sizes)},
            "sites": sorted({site for group in plan.groups for site in group.sites}),
            "estimated_wall_hours": round(math.ceil(len(plan.groups) / groups_at_once) * longest / 3600, 4),
        },
        "output_datasets": list(layout.output_datasets),
        "more_rounds": plan.truncated,
        "groups_not_shown": len(plan.groups) - len(shown),
        "groups": [_group(group, plan, spec, layout) for group in shown],
    }


def _first(groups: Sequence[GroupSpec], most: int) -> Sequence[GroupSpec]:
    """Return the first groups with at most so many jobs together, but at least one."""
    jobs = accumulate(len(group.jobs) for group in groups)
    return groups[: max(1, sum(1 for _ in takewhile(lambda total: total <= most, jobs)))]


def _group(group: GroupSpec, plan: Plan, spec: PlanSpec, layout: LayoutSpec) -> dict[str, Any]:
    nodes = [
        node_layout(group.first_job + number, job, plan.estimate) for number, job in enumerate(group.jobs)
    ]
    manifest = build_manifest(group, spec, layout, cores=plan.estimate.cores)
    return {
        "name": manifest["group"],
        "sites": sorted(group.sites),
        "events": group.events,
        "estimated_output_kb": group.estimated_output_kb,
        "jobs": [
            {
                "node": node.name,
                "memory_mb": node.memory_mb,
                "cpus": node.cpus,
                "disk_kb": node.disk_kb,
                "wall_minutes": node.wall_minutes,
                **manifest["jobs"][node.name],
            }
            for node in nodes
        ],
    }


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
