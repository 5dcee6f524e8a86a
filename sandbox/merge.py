"""The merge node: the group's unmerged files become one file per dataset, in node order, every event once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from sandbox.context import Context, Tally, Touched
from sandbox.eventfile import Event, EventFileError, read_events, write_events
from sandbox.failure import FILE_READ, REPORT_UNUSABLE, JobFailure
from sandbox.faults import inject_fault
from sandbox.jsonfile import ManifestError
from sandbox.knobs import read_knobs
from sandbox.lumis import union
from sandbox.manifest import JobsManifest, OutputPlan
from sandbox.report import NodeReport, Output, read_report
from sandbox.storage import stage_out, unreadable, verified_input


def run_merge(context: Context, tally: Tally) -> None:
    inject_fault(context, read_knobs(context.manifest.payload))
    reports = read_processing_reports(context.manifest, context.scratch / "reports", context.site)
    for index, output in enumerate(context.manifest.outputs):
        parts = [_part_of(report, context.manifest.unmerged_lfn(report.node, index)) for report in reports]
        tally.outputs.append(_merge_dataset(context, output, index, parts, tally))
    tally.events_written = max(output.events for output in tally.outputs)


def read_processing_reports(manifest: JobsManifest, directory: Path, site: str) -> list[NodeReport]:
    """The report of every planned node, in node order; all must have succeeded, at this site."""
    reports = []
    for node in sorted(manifest.jobs):
        try:
            report = read_report(directory / f"{node}.report.json")
        except ManifestError as error:
            raise JobFailure(REPORT_UNUSABLE, f"{node} has no usable report: {error}") from error
        if report.node != node or report.group != manifest.group or report.exit_code != 0:
            raise JobFailure(REPORT_UNUSABLE, f"{node}: its report is not of a success of this node")
        if report.site != site:
            raise JobFailure(REPORT_UNUSABLE, f"{node} ran at {report.site}, the group is at {site}")
        reports.append(report)
    return reports


def _part_of(report: NodeReport, lfn: str) -> Output:
    for output in report.outputs:
        if output.lfn == lfn:
            return output
    raise JobFailure(REPORT_UNUSABLE, f"{report.node}: its report has no output {lfn}")


def _merge_dataset(
    context: Context, output: OutputPlan, index: int, parts: list[Output], tally: Tally
) -> Output:
    lfn = context.manifest.merged_lfn(output)
    local = context.work / f"merged.{index}.root"
    facts = write_events(local, _stream(context, parts, tally))
    planned = sum(part.events for part in parts)
    if facts.events != planned:
        raise JobFailure(FILE_READ, f"{lfn}: {facts.events} events from files that should hold {planned}")
    stage_out(context, local, lfn, facts.adler32)
    lumis, counts = union(part.lumis for part in parts), facts.lumi_events
    return Output(output.dataset, lfn, facts.size_bytes, facts.adler32, facts.events, lumis, counts)


def _stream(context: Context, parts: Iterable[Output], tally: Tally) -> Iterator[Event]:
    for part in parts:
        path = verified_input(context, part.lfn, part.size_bytes, part.adler32)
        try:
            yield from read_events(path)
        except (EventFileError, OSError) as error:
            raise unreadable(part.lfn, str(error)) from error
        tally.events_read += part.events
        tally.inputs[part.lfn] = Touched(part.events, part.lumis)
