"""Comparison of what jobs report with what was planned for them. Pure.

Reports and manifests come from machines that run user payloads. They may report less than planned, for
example because of a filter, but never more and nothing else. Lumis are compared as ranges. Whether a report
is true of the file is checked by the next job that opens it: the merge for processing jobs, the cleanup for
the merge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NoReturn

from sandbox.jsonfile import MAX_LUMIS, ClaimRefused
from sandbox.lumis import Lumis, count, flat, outside, union
from sandbox.manifest import GroupManifest, Job, JobsManifest, MergedFile
from sandbox.report import NodeReport, Output

if TYPE_CHECKING:
    from sandbox.fjr import JobReport

MERGE, CLEANUP, PROCESSING, RUNNER = "merge", "cleanup", "processing", "runner"
PRIMARY = "primaryFiles"
MAX_LOG_BYTES = 2 * 1024 * 1024 * 1024


def check_report(report: NodeReport, plan: JobsManifest) -> None:
    """Compare a node's report with the plan; raise ClaimRefused with both values.

    The plan needs only the report's own job, unless the node is the merge or the cleanup.
    """
    where = report.node
    if plan.pull is not None:
        _check_runner(report, plan)
        return
    role = report.node if report.node in (MERGE, CLEANUP) else PROCESSING
    _same(where, "role", report.role, role)
    if report.group or not report.exit_code:  # a job without its plan does not know its group
        _same(where, "group", report.group, plan.group)
    if role == PROCESSING and report.node not in plan.jobs:
        _refuse(where, "node", report.node, "a job of the group")
    if report.pilot is not None and (plan.pilot is None or role != PROCESSING):
        _refuse(where, "pilot", "measurements", "none")
    jobs = list(plan.jobs.values()) if role != PROCESSING else [plan.jobs[report.node]]
    events = sum(job.window_events for job in jobs)
    _check_inputs(where, report, _inputs_of(role, jobs, plan))
    datasets = len(plan.outputs) if role == MERGE else 1  # a merge reads the events once per dataset
    _at_most(where, "events_read", report.events_read, events * datasets)
    _at_most(where, "events_written", report.events_written, events)
    _check_output_names(
        where, report.outputs, [] if report.exit_code else _outputs_of(report.node, role, plan)
    )
    allowed = planned_lumis(jobs, plan) if report.outputs else None
    for output in report.outputs:
        _check_output(where, output, events, allowed)
        if role == MERGE:
            _same(where, f"place of {output.lfn}", output.place, 0)
    if report.outputs:
        _same(where, "events_written", report.events_written, max(one.events for one in report.outputs))


def _check_runner(report: NodeReport, plan: JobsManifest) -> None:
    """Compare the report of a runner with its plan: what it processed, WMS2 knows from its calls."""
    _same(report.node, "role", report.role, RUNNER)
    if report.group or not report.exit_code:
        _same(report.node, "group", report.group, plan.group)
    if report.node not in plan.jobs:
        _refuse(report.node, "node", report.node, "a job of the group")
    if report.outputs or report.pilot is not None:
        _refuse(report.node, "outputs", "files or measurements", "none")


def check_framework_report(report: JobReport, job: Job) -> None:
    """Compare what a framework job report lists as read with the job's windows; raise ClaimRefused."""
    read = [(one.lfn, one.events_read) for one in report.input_files if one.input_type == PRIMARY]
    _check_read(f"{job.node}: framework job report", read, _windows(job))
    _at_most(f"{job.node}: framework job report", "events read", report.events_read, job.window_events)


def check_group_manifest(manifest: GroupManifest, plan: JobsManifest, *, site: str = "") -> None:
    """Compare a group's manifest with its plan and the site it was sent to ('' = unknown).

    Raise ClaimRefused with both values.
    """
    where = "merge_output.json"
    for key in ("workflow_id", "round", "group"):
        _same(where, key, getattr(manifest, key), getattr(plan, key))
    if site:
        _same(where, "site", manifest.site, site)
    _same(where, "jobs", manifest.jobs, len(plan.jobs))
    _same(where, "metrics: jobs", manifest.metrics.jobs, manifest.jobs)
    if manifest.pilot is not None and plan.pilot is None:
        _refuse(where, "pilot", "measurements", "none")
    jobs = list(plan.jobs.values())
    events = sum(job.window_events for job in jobs)
    _at_most(where, "events_read", manifest.events_read, events)
    _at_most(where, "events_written", manifest.events_written, events)
    _check_output_names(where, manifest.outputs, _outputs_of(MERGE, MERGE, plan))
    allowed, parents = planned_lumis(jobs, plan), {file.lfn for job in jobs for file in job.files}
    for output in manifest.outputs:
        _check_output(where, output, events, allowed)
        _at_most(where, "events of one file", output.events, manifest.events_written)
        strange = next((lfn for lfn in output.parents if lfn not in parents), "")
        if strange or len(set(output.parents)) != len(output.parents):
            _refuse(where, "parents", strange or "one file twice", f"some of the {len(parents)} input files")
    _check_log(where, manifest.log, plan)


def _check_log(where: str, log: MergedFile | None, plan: JobsManifest) -> None:
    """Check that there is a log file if one is planned; it holds no events."""
    planned = (plan.log.dataset, plan.log.lfn) if plan.log else None
    _same(where, "log", (log.dataset, log.lfn) if log else None, planned)
    if log is not None:
        _same(where, "events of the log", (log.events, log.lumis, log.parents), (0, {}, ()))
        _at_most(where, "size of the log", log.size_bytes, MAX_LOG_BYTES)


def planned_lumis(jobs: Iterable[Job], plan: JobsManifest) -> Lumis | None:
    """Return the lumis of the jobs' masks, files and generated ranges; None if the plan lacks some."""
    parts: list[Lumis] = []
    for job in jobs:
        if job.generate is not None:
            made = job.generate
            ends = [
                made.first_lumi + (event - made.numbering_from) // made.events_per_lumi
                for event in (made.first_event, made.last_event)
            ]
            parts.append({made.run: [ends]})
        for file in job.files:
            mask = job.mask if file.mask is None else file.mask
            known = plan.lumis.get(file.lfn) if mask is None else mask
            if known is None:
                return None
            parts.append(known)
    return union(parts)


def _inputs_of(role: str, jobs: Sequence[Job], plan: JobsManifest) -> dict[str, int]:
    """Return what a node may read, by name, with the maximum number of events."""
    if role == PROCESSING:
        return _windows(jobs[0])
    if role == CLEANUP:
        return {}
    outputs = range(len(plan.outputs))
    return {plan.unmerged_lfn(job.node, index): job.window_events for job in jobs for index in outputs}


def _windows(job: Job) -> dict[str, int]:
    found: dict[str, int] = {}
    for file in job.files:
        found[file.lfn] = found.get(file.lfn, 0) + file.last_event - file.first_event + 1
    return found


def _outputs_of(node: str, role: str, plan: JobsManifest) -> list[tuple[str, str]]:
    """Return dataset and name of each file that the node must have written."""
    if role == CLEANUP:
        return []
    if role == MERGE:
        return [(one.dataset, plan.merged_lfn(one)) for one in plan.outputs]
    return [(one.dataset, plan.unmerged_lfn(node, index)) for index, one in enumerate(plan.outputs)]


def _check_inputs(where: str, report: NodeReport, planned: dict[str, int]) -> None:
    _check_read(where, [(one.lfn, one.events) for one in report.inputs], planned)
    seen: set[str] = set()
    for one in report.inputs:
        if one.lfn in seen:
            _refuse(where, "inputs", f"{one.lfn} twice", "each file once")
        seen.add(one.lfn)


def _check_read(where: str, read: Iterable[tuple[str, int]], planned: dict[str, int]) -> None:
    for lfn, events in read:
        if lfn not in planned:
            _refuse(where, "inputs", lfn, f"some of the {len(planned)} planned files")
        _at_most(where, f"events of {lfn}", events, planned[lfn])


def _check_output_names(
    where: str, claimed: Sequence[Output | MergedFile], planned: Sequence[tuple[str, str]]
) -> None:
    names = [(one.dataset, one.lfn) for one in claimed]
    if len(names) != len(planned):
        _refuse(where, "outputs", f"{len(names)} files", f"{len(planned)}")
    for index, one in enumerate(names):
        _same(where, "outputs", " ".join(one), " ".join(planned[index]))


def _check_output(where: str, output: Output | MergedFile, events: int, allowed: Lumis | None) -> None:
    """Check the events and lumis of one file; `allowed` None = the plan does not have the lumis."""
    _at_most(where, f"events of {output.lfn}", output.events, events)
    if allowed is not None:
        strange = outside(output.lumis, allowed)
        if strange:
            _refuse(where, f"lumis of {output.lfn}", strange, f"some of {count(flat(allowed))} other lumis")
    _at_most(where, f"lumis of {output.lfn}", count(flat(output.lumis)), MAX_LUMIS)
    if output.lumi_events:
        _check_lumi_events(where, output)


def _check_lumi_events(where: str, output: Output | MergedFile) -> None:
    """Check that events by lumi add up and that each lumi belongs to the file and occurs once."""
    ranges = [part for parts in output.lumi_events.values() for part in parts]
    added = sum((last - first + 1) * each for first, last, each in ranges)
    _same(where, f"events by lumi of {output.lfn}", added, output.events)
    counted = {run: [[first, last] for first, last, _ in parts] for run, parts in output.lumi_events.items()}
    strange = outside(counted, output.lumis)
    if strange:
        _refuse(where, f"events by lumi of {output.lfn}", strange, "lumis of the file")
    _same(where, f"counted lumis of {output.lfn}", count(flat(counted)), count(flat(union([counted]))))


def _at_most(where: str, what: str, claimed: int, most: int) -> None:
    if claimed > most:
        _refuse(where, what, claimed, f"at most {most}")


def _same(where: str, what: str, claimed: object, expected: object) -> None:
    if claimed != expected:
        _refuse(where, what, claimed, str(expected))


def _refuse(where: str, what: str, claimed: object, expected: str) -> NoReturn:
    raise ClaimRefused(f"{where}: {what}: claimed {str(claimed)[:600]}, expected {expected[:600]}")
