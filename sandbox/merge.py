"""The merge node: the group's unmerged files become one file per dataset, in node order, every event once.

It opens every file a processing job wrote and compares the job's claims with it. A claim that differs is a
permanent failure of the payload: `CLAIM_REFUSED`, with the job's name and both values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

from sandbox.claims import check_report
from sandbox.context import Context, Tally, Touched
from sandbox.eventfile import Event, EventFileError, read_events, write_events
from sandbox.failure import CLAIM_REFUSED, REPORT_UNUSABLE, JobFailure
from sandbox.faults import inject_fault
from sandbox.jsonfile import ClaimRefused, ManifestError
from sandbox.knobs import read_knobs
from sandbox.lumis import compress, outside, union
from sandbox.manifest import JobsManifest, OutputPlan
from sandbox.report import NodeReport, Output, read_report
from sandbox.storage import measured_input, release_input, stage_out, unreadable


class Part(NamedTuple):
    """One unmerged file as its job claims it to be."""

    node: str
    output: Output


def run_merge(context: Context, tally: Tally) -> None:
    inject_fault(context, read_knobs(context.manifest.payload))
    reports = read_processing_reports(context.manifest, context.scratch / "reports", context.site)
    for index, output in enumerate(context.manifest.outputs):
        parts = [Part(report.node, report.outputs[index]) for report in reports]
        tally.outputs.append(_merge_dataset(context, output, index, parts, tally))
    tally.events_written = max(output.events for output in tally.outputs)


def read_processing_reports(manifest: JobsManifest, directory: Path, site: str) -> list[NodeReport]:
    """The report of every planned node, in node order; all must have succeeded as planned, at this site."""
    return [
        read_checked_report(manifest, directory / f"{node}.report.json", node, site)
        for node in sorted(manifest.jobs)
    ]


def read_checked_report(manifest: JobsManifest, path: Path, node: str, site: str) -> NodeReport:
    """The report of one node; raises JobFailure unless it is of a success, as planned, at this site."""
    try:
        report = read_report(path)
        if report.node != node or report.exit_code != 0:
            raise JobFailure(REPORT_UNUSABLE, f"{node}: its report is not of a success of this node")
        check_report(report, manifest)
    except ClaimRefused as error:
        raise JobFailure(CLAIM_REFUSED, f"ClaimRefused: {error}") from error
    except ManifestError as error:
        raise JobFailure(REPORT_UNUSABLE, f"{node} has no usable report: {error}") from error
    if report.site != site:
        raise JobFailure(REPORT_UNUSABLE, f"{node} ran at {report.site}, the group is at {site}")
    return report


def _merge_dataset(
    context: Context, output: OutputPlan, index: int, parts: list[Part], tally: Tally
) -> Output:
    lfn = context.manifest.merged_lfn(output)
    local = context.work / f"merged.{index}.root"
    facts = write_events(local, _stream(context, parts, tally))
    stage_out(context, local, lfn, facts.adler32)
    lumis, counts = union(part.output.lumis for part in parts), facts.lumi_events
    return Output(output.dataset, lfn, facts.size_bytes, facts.adler32, facts.events, lumis, counts)


def _stream(context: Context, parts: Iterable[Part], tally: Tally) -> Iterator[Event]:
    for part in parts:
        lfn, events, lumis = part.output.lfn, part.output.events, part.output.lumis
        try:
            yield from _checked_events(context, part)
        except (EventFileError, OSError) as error:
            raise unreadable(lfn, str(error)) from error
        tally.events_read += events
        tally.inputs[lfn] = Touched(events, lumis)


def _checked_events(context: Context, part: Part) -> Iterator[Event]:
    """The events of one file, whose size, checksum, events and lumis must be what its job claims."""
    claimed = part.output
    path, size, adler32 = measured_input(context, claimed.lfn, place=claimed.place)
    if size != claimed.size_bytes:
        refuse(part, "size", f"{claimed.size_bytes} bytes", f"{size}")
    if adler32 != claimed.adler32:
        refuse(part, "adler32", claimed.adler32, adler32)
    seen: dict[int, Counter[int]] = {}
    found = 0
    for event in read_events(path):
        found += 1
        if found <= claimed.events:  # what is beyond is only counted
            seen.setdefault(event.run, Counter())[event.lumi] += 1
            yield event
    release_input(context, path)
    if found != claimed.events:
        refuse(part, "events", f"{claimed.events}", f"{found}")
    strange = outside(compress(seen), claimed.lumis)
    if strange:
        refuse(part, "lumis", f"{sum(map(len, claimed.lumis.values()))} ranges", f"{strange} as well")


def refuse(part: Part, what: str, claimed: str, found: str) -> NoReturn:
    """Raise the failure of a claim that is not true of its file."""
    where = f"{part.node}: {what} of {part.output.lfn}"
    raise JobFailure(CLAIM_REFUSED, f"ClaimRefused: {where}: claimed {claimed}, the file has {found}")
