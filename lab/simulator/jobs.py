"""Simulated jobs: merged files with known content, manifests, reports and records of failures.

The content of every merged file is kept as windows of input files, or ranges of generated events. Invariants
are checked against it, not against the records of WMS2. Failed attempts are judged by the real POST script.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

from lab.simulator.clock import VirtualClock
from lab.simulator.group_run import CLEANUP, MERGE, GroupRun, role_of
from lab.simulator.pool import Job, Laws, Outcome
from sandbox import names, post_script
from sandbox.elect_site import EVENT_LOG, elected_site
from sandbox.failure import process_exit
from sandbox.jsonfile import SCHEMA, write_json
from sandbox.lumis import union
from sandbox.report import Iteration, NodeReport, PilotReport, Recommended, StepProfile, write_report

SIZE_PER_EVENT = 1000
GENERATED = "generated"
Window = tuple[str, int, int]  # input file or GENERATED, first and last event
SECONDS_PER_EVENT = 0.5


@dataclass(frozen=True, slots=True)
class Merged:
    """A merged file on the simulated storage."""

    dataset: str
    windows: tuple[Window, ...]
    events: int
    adler32: str
    site: str


@dataclass(slots=True)
class Jobs:
    """The behaviour of all jobs of a simulation."""

    clock: VirtualClock
    laws: Laws
    storage: dict[str, Merged] = field(default_factory=dict)  # by LFN
    finished_at: dict[str, float] = field(default_factory=dict)  # by group directory
    repeated: list[str] = field(default_factory=list)  # groups that ran again although they were finished
    published: set[str] = field(default_factory=set)  # merged files of groups with a manifest in time
    nodes_done: int = 0
    hide_sec: float = 0.0  # delay of the next manifest

    def outcome(self, job: Job) -> Outcome:
        return self.laws.outcome(job)

    def cooloff_sec(self, group: GroupRun, node: str) -> float:
        try:
            not_before = float((group.directory / f"{node}.not_before").read_text())
        except (OSError, ValueError):
            return 0.0
        return max(not_before - self.clock.now, 0.0)

    def post(self, group: GroupRun, job: Job, outcome: Outcome) -> int:
        node = job.ad["DAGNodeName"]
        if outcome.exit_code:
            return self._fail(group, job, outcome)
        self.nodes_done += 1
        if role_of(node) == "processing":
            group.walls_sec.append(self.clock.now - job.started_at)
        elif node == MERGE:
            self._merge(group)
        elif node == CLEANUP:
            self._publish(group)
        return 0

    def _merge(self, group: GroupRun) -> None:
        plan, site = read_plan(group.directory), elected_site(group.directory)
        windows = tuple(_joined(windows_of(plan)))
        events = sum(last - first + 1 for _, first, last in windows)
        for output in plan["outputs"]:
            lfn = merged_lfn(plan, output)
            adler32 = f"{crc32(repr((lfn, windows)).encode()):08x}"
            self.storage[lfn] = Merged(output["dataset"], windows, events, adler32, site)

    def _publish(self, group: GroupRun) -> None:
        """Write the group's manifest, as the cleanup's POST does."""
        path, plan = group.directory / "merge_output.json", read_plan(group.directory)
        if path.exists():
            self.repeated.append(group.name)
        self.finished_at[str(group.directory)] = self.clock.now
        manifest = build_manifest(plan, self.storage, walls_sec=group.walls_sec)
        if self.hide_sec:
            self.clock.after(self.hide_sec, lambda: write_json(path, manifest))
            self.hide_sec = 0.0
        elif not path.exists():
            write_json(path, manifest)
            self.published.update(one["lfn"] for one in manifest["outputs"])

    def _fail(self, group: GroupRun, job: Job, outcome: Outcome) -> int:
        """Write the files of a failed attempt and run the real POST script on them."""
        node, attempt = job.ad["DAGNodeName"], job.attempt
        cluster = job.ad["ClusterId"]
        returned = outcome.exit_code
        if returned > 0:
            returned = process_exit(outcome.exit_code)
            report = NodeReport(
                node=node, group=group.name, role=role_of(node), site=job.site, attempt=attempt,
                exit_code=outcome.exit_code, error="a simulated failure", started_at=job.started_at,
                wall_time_sec=self.clock.now - job.started_at, cpu_time_sec=1.0, peak_rss_mb=500,
                events_read=0, events_written=0, source=outcome.source,
            )  # fmt: skip
            write_report(group.directory / "reports" / f"{node}.report.json", report)
        event = f'001 ({cluster:03d}.000.000) started\n\tGLIDEIN_CMSSite = "{job.site}"\n...\n'
        with (group.directory / EVENT_LOG).open("a") as log:
            log.write(event)
        retries = group.file.retries.get(node, 0)
        arguments = [node, str(returned), str(attempt), str(retries), f"{cluster}.0", "0", "0", "60", "16000"]
        with working_in(group.directory):
            return post_script.guarded_main([*arguments, "2880", "20000000"])


@contextmanager
def working_in(directory: Path) -> Iterator[None]:
    """Make it the working directory, as DAGMan does for scripts."""
    before = os.getcwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


def read_plan(directory: Path) -> dict[str, Any]:
    """Return a group's `jobs.json`."""
    plan: dict[str, Any] = json.loads((directory / "jobs.json").read_bytes())
    return plan


def merged_lfn(plan: Mapping[str, Any], output: Mapping[str, str]) -> str:
    return names.merged_lfn(output["merged_base"], plan["merged_ids"][output["dataset"]])


def windows_of(plan: Mapping[str, Any]) -> Iterator[Window]:
    """Yield the windows that the group's jobs read or generate, in node order."""
    for _, job in sorted(plan["jobs"].items()):
        if job["generate"] is not None:
            yield GENERATED, job["generate"]["first_event"], job["generate"]["last_event"]
        for file in job["files"]:
            yield file["lfn"], file["first_event"], file["last_event"]


def _joined(windows: Iterator[Window]) -> Iterator[Window]:
    """Join windows of one file that follow each other."""
    name, first, last = next(windows)
    for one, begin, end in windows:
        if (one, begin) == (name, last + 1):
            last = end
        else:
            yield name, first, last
            name, first, last = one, begin, end
    yield name, first, last


def _lumis_of(plan: Mapping[str, Any]) -> dict[str, list[list[int]]]:
    parts: list[Any] = []
    for job in plan["jobs"].values():
        made = job["generate"]
        if made is not None:
            start = made.get("numbering_from", made["first_event"])
            ends = [
                made["first_lumi"] + (event - start) // made["events_per_lumi"]
                for event in (made["first_event"], made["last_event"])
            ]
            parts.append({str(made["run"]): [ends]})
        for file in job["files"]:
            mask = file.get("mask") or job.get("mask") or plan["lumis"].get(file["lfn"])
            if mask:
                parts.append(mask)
    by_run = union([{int(run): ranges for run, ranges in part.items()} for part in parts])
    return {str(run): [list(one) for one in ranges] for run, ranges in by_run.items()}


def build_manifest(
    plan: Mapping[str, Any], storage: Mapping[str, Merged], *, walls_sec: Sequence[float] = ()
) -> dict[str, Any]:
    """Return the `merge_output.json` of a group whose merged files are in the storage."""
    walls = sorted(walls_sec)
    lumis, files = _lumis_of(plan), [storage[merged_lfn(plan, one)] for one in plan["outputs"]]
    parents = sorted({lfn for lfn, _, _ in files[0].windows if lfn != GENERATED})
    events = files[0].events
    outputs = [
        {
            "dataset": one["dataset"], "lfn": merged_lfn(plan, one),
            "size_bytes": merged.events * SIZE_PER_EVENT, "adler32": merged.adler32, "events": merged.events,
            "lumis": lumis, "parents": parents,
            "lumi_events": {},
        }
        for one, merged in zip(plan["outputs"], files, strict=True)
    ]  # fmt: skip
    metrics = {
        "wall_time_per_event_sec": SECONDS_PER_EVENT, "peak_rss_mb": 500, "output_kb_per_event": 1.0,
        "cpu_efficiency": 0.9, "jobs": len(plan["jobs"]), "wall_time_sec": events * SECONDS_PER_EVENT,
        "job_wall_p95_sec": walls[int(0.95 * len(walls))] if walls else events * SECONDS_PER_EVENT,
    }  # fmt: skip
    return {
        "schema": SCHEMA, "workflow_id": plan["workflow_id"], "round": plan["round"], "group": plan["group"],
        "site": files[0].site, "jobs": len(plan["jobs"]), "events_read": events, "events_written": events,
        "outputs": outputs, "metrics": metrics, "pilot": _pilot(events) if plan.get("pilot") else None,
    }  # fmt: skip


def _pilot(events: int) -> dict[str, Any]:
    iteration = Iteration(events, events * SECONDS_PER_EVENT, 500, 0.9, 1.0)
    step = StepProfile("step1", SECONDS_PER_EVENT, 500, 1.0, 1)
    recommended = Recommended(max(events, 1), 600, max(events, 1) * SECONDS_PER_EVENT, 1.0)
    return asdict(PilotReport((iteration,), (step,), recommended, converged=True))
