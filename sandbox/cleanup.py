"""The cleanup node: the merged files are checked, the group's manifest is written, the unmerged files go.

In that order: what is deleted here is the only other copy of the group's work.
"""

from __future__ import annotations

import os
from pathlib import Path
from statistics import median

from sandbox.context import Context, Tally
from sandbox.failure import REPORT_UNUSABLE, JobFailure
from sandbox.faults import inject_fault
from sandbox.jsonfile import ManifestError
from sandbox.knobs import read_knobs
from sandbox.manifest import (
    GroupManifest,
    JobsManifest,
    MergedFile,
    Metrics,
    OutputPlan,
    write_group_manifest,
)
from sandbox.merge import read_processing_reports
from sandbox.report import NodeReport, Output, read_report
from sandbox.storage import verified_input

MANIFEST_PART = "merge_output.json.part"


def run_cleanup(context: Context, tally: Tally) -> None:
    """Idempotent: a second run writes the same manifest and finds nothing to delete."""
    inject_fault(context, read_knobs(context.manifest.payload))
    directory = context.scratch / "reports"
    reports = read_processing_reports(context.manifest, directory, context.site)
    merged = _merged_outputs(context, directory / "merge.report.json")
    for output in merged:
        verified_input(context, output.lfn, output.size_bytes, output.adler32)
    manifest = build_group_manifest(context.manifest, context.site, reports, merged)
    write_group_manifest(context.scratch / "back" / MANIFEST_PART, manifest)
    left = [told for output in context.manifest.outputs for told in _empty(context, output)]
    # What cannot be deleted is litter, not lost work: the group is done all the same.
    tally.note = f"not deleted: {'; '.join(left[:5])}" if left else ""
    tally.events_read, tally.events_written = manifest.events_read, manifest.events_written


def build_group_manifest(
    plan: JobsManifest, site: str, reports: list[NodeReport], merged: tuple[Output, ...]
) -> GroupManifest:
    """The group's outcome from the reports of its nodes."""
    parents = tuple(sorted({one.lfn for report in reports for one in report.inputs}))
    return GroupManifest(
        workflow_id=plan.workflow_id,
        round=plan.round,
        group=plan.group,
        site=site,
        jobs=len(reports),
        events_read=sum(report.events_read for report in reports),
        events_written=sum(report.events_written for report in reports),
        outputs=tuple(MergedFile(**vars(output), parents=parents) for output in merged),
        metrics=build_metrics(reports, merged),
        pilot=next((report.pilot for report in reports if report.pilot), None),
    )


def build_metrics(reports: list[NodeReport], merged: tuple[Output, ...]) -> Metrics:
    events = sum(report.events_read for report in reports)
    wall = sum(report.wall_time_sec for report in reports)
    per_event = [report.wall_time_sec / report.events_read for report in reports if report.events_read]
    return Metrics(
        wall_time_per_event_sec=median(per_event) if per_event else 0.0,
        peak_rss_mb=max(report.peak_rss_mb for report in reports),
        output_kb_per_event=sum(output.size_bytes for output in merged) / 1024 / events if events else 0.0,
        cpu_efficiency=sum(report.cpu_time_sec for report in reports) / wall if wall else 0.0,
        jobs=len(reports),
        wall_time_sec=wall,
        job_wall_p95_sec=sorted(report.wall_time_sec for report in reports)[-1 - len(reports) // 20],
    )


def _merged_outputs(context: Context, path: Path) -> tuple[Output, ...]:
    try:
        report = read_report(path)
    except ManifestError as error:
        raise JobFailure(REPORT_UNUSABLE, f"merge has no usable report: {error}") from error
    planned = [(output.dataset, context.manifest.merged_lfn(output)) for output in context.manifest.outputs]
    told = [(output.dataset, output.lfn) for output in report.outputs]
    if report.exit_code != 0 or report.site != context.site or told != planned:
        raise JobFailure(REPORT_UNUSABLE, "merge: its report has not the planned outputs at this site")
    return report.outputs


def _empty(context: Context, output: OutputPlan) -> list[str]:
    """Delete the files of the group's own directory, then the directory; return what could not be deleted."""
    directory = context.pfn(context.manifest.unmerged_directory(output))
    left: list[str] = []
    try:
        for entry in sorted(os.listdir(directory)):
            try:
                os.unlink(directory / entry)
            except OSError as error:
                left.append(f"{entry}: {error.strerror}")
        directory.rmdir()
    except FileNotFoundError:
        return left
    except OSError as error:
        left.append(f"{directory.name}: {error.strerror}")
    return left
