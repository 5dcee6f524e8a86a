"""The cleanup node: the merged files are opened and checked, the log file is stored if one is wanted, the
manifest is written, the unmerged files are deleted.

The order matters: the deleted files are the only other copy of the group's work.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import median

from sandbox.context import Context, Tally
from sandbox.logs import stage_out_logs
from sandbox.lumis import union
from sandbox.manifest import (
    GroupManifest,
    JobsManifest,
    MergedFile,
    Metrics,
    write_group_manifest,
)
from sandbox.merge import Part, read_checked_report, read_processing_reports, refuse
from sandbox.merge_tools import UnreadableFile
from sandbox.registry import start_payload
from sandbox.report import NodeReport, Output
from sandbox.storage import remove_directory, unreadable, verified_input

MANIFEST_PART = "merge_output.json.part"


def run_cleanup(context: Context, tally: Tally) -> None:
    """Run the cleanup. A second run writes the same manifest and finds nothing to delete."""
    start_payload(context)
    directory = context.scratch / "reports"
    reports = read_processing_reports(context.manifest, directory, context.site)
    path = directory / "merge.report.json"
    merged = read_checked_report(context.manifest, path, "merge", context.site).outputs
    for index, output in enumerate(merged):
        _check_merged(context, output, [report.outputs[index] for report in reports])
    log = stage_out_logs(context, context.manifest.log) if context.manifest.log else None
    manifest = replace(build_group_manifest(context.manifest, context.site, reports, merged), log=log)
    write_group_manifest(context.scratch / "back" / MANIFEST_PART, manifest)
    directories = [context.manifest.unmerged_directory(output) for output in context.manifest.outputs]
    left = [lfn for directory in directories for lfn in remove_directory(context, directory)]
    # Files that cannot be deleted are leftovers, not lost work: the group is done nevertheless.
    tally.note = f"not deleted: {'; '.join(left[:5])}" if left else ""
    tally.events_read, tally.events_written = manifest.events_read, manifest.events_written


def build_group_manifest(
    plan: JobsManifest, site: str, reports: list[NodeReport], merged: tuple[Output, ...]
) -> GroupManifest:
    """Return the group's outcome from the reports of its nodes."""
    parents = tuple(sorted({one.lfn for report in reports for one in report.inputs}))
    return GroupManifest(
        workflow_id=plan.workflow_id,
        round=plan.round,
        group=plan.group,
        site=site,
        jobs=len(reports),
        events_read=sum(report.events_read for report in reports),
        events_written=sum(report.events_written for report in reports),
        outputs=tuple(MergedFile.of(output, parents) for output in merged),
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


def _check_merged(context: Context, merged: Output, parts: list[Output]) -> None:
    """Open a merged file: it must hold what the merge claims, and the merge claim what the jobs did."""
    part = Part("merge", merged)
    path = verified_input(context, merged.lfn, merged.size_bytes, merged.adler32)
    try:
        counts = context.merge_tool.inspect(context, path)
    except UnreadableFile as error:
        raise unreadable(merged.lfn, str(error)) from error
    if counts is not None and counts.events != merged.events:
        refuse(part, "events", f"{merged.events}", f"{counts.events}")
    if counts is not None and (counts.lumi_events or {}) != merged.lumi_events:
        refuse(part, "events by lumi", f"{merged.lumi_events!s:.500}", f"{counts.lumi_events!s:.500}")
    if merged.events != sum(one.events for one in parts) or merged.lumis != union(one.lumis for one in parts):
        refuse(part, "lumis", f"{merged.lumis!s:.500}", "others by the reports of the jobs")
