"""The merge node: the group's unmerged files become one file per dataset, in node order, every event once.

It opens every file a processing job wrote and compares the job's claims with it. A claim that differs is a
permanent failure of the payload: `CLAIM_REFUSED`, with the job's name and both values. The merged file is
opened again before it is staged out. A merge tool that cannot count leaves the jobs' claims as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from sandbox.claims import check_report
from sandbox.context import Context, Tally, Touched
from sandbox.failure import CLAIM_REFUSED, FILE_READ, REPORT_UNUSABLE, JobFailure
from sandbox.filefacts import Counts, FileFacts, checksum
from sandbox.jsonfile import ClaimRefused, ManifestError
from sandbox.lumis import outside, union
from sandbox.manifest import JobsManifest, OutputPlan
from sandbox.merge_tools import UnreadableFile
from sandbox.registry import start_payload
from sandbox.report import NodeReport, Output, read_report
from sandbox.scratch import regular_file
from sandbox.storage import measured_input, release_input, stage_out, unreadable

# What one call of a merge tool reads. A larger group is merged in batches, whose files are then merged.
MAX_BATCH_FILES = 200
MAX_BATCH_BYTES = 8 * 1024 * 1024 * 1024


class Part(NamedTuple):
    """One unmerged file as its job claims it to be."""

    node: str
    output: Output


def run_merge(context: Context, tally: Tally) -> None:
    start_payload(context)
    reports = read_processing_reports(context.manifest, context.scratch / "reports", context.site)
    for index, output in enumerate(context.manifest.outputs):
        parts = [Part(report.node, report.outputs[index]) for report in reports]
        tally.outputs.append(_merge_dataset(context, output, index, parts, tally))
    tally.events_written = max(output.events for output in tally.outputs)


def read_processing_reports(manifest: JobsManifest, directory: Path, site: str) -> list[NodeReport]:
    """Return the reports of all planned nodes, in node order. All must have succeeded here as planned."""
    return [
        read_checked_report(manifest, directory / f"{node}.report.json", node, site)
        for node in sorted(manifest.jobs)
    ]


def read_checked_report(manifest: JobsManifest, path: Path, node: str, site: str) -> NodeReport:
    """Return the report of one node; raise JobFailure unless it is of a success, as planned, at this site."""
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


def batches(
    parts: Sequence[Part], *, most_files: int = MAX_BATCH_FILES, most_bytes: int = MAX_BATCH_BYTES
) -> Iterator[list[Part]]:
    """Yield the parts in order, as many at a time as one merge should read, at least one."""
    batch: list[Part] = []
    size = 0
    for part in parts:
        if batch and (len(batch) == most_files or size + part.output.size_bytes > most_bytes):
            yield batch
            batch, size = [], 0
        batch.append(part)
        size += part.output.size_bytes
    yield batch


def _merge_dataset(
    context: Context, output: OutputPlan, index: int, parts: list[Part], tally: Tally
) -> Output:
    lfn = context.manifest.merged_lfn(output)
    local = context.work / f"merged.{index}.root"
    planned = list(batches(parts))
    if len(planned) == 1:
        _merge_batch(context, planned[0], local, tally)
    else:
        _merge_levels(context, planned, local, tally)
    facts = _merged_facts(context, local, lfn, parts)
    stage_out(context, local, lfn, facts.adler32)
    return Output(
        output.dataset, lfn, facts.size_bytes, facts.adler32, facts.events, facts.lumis, facts.lumi_events
    )


def _merge_levels(context: Context, planned: list[list[Part]], local: Path, tally: Tally) -> None:
    """Merge batch by batch, then the files of the batches."""
    files = []
    for number, batch in enumerate(planned):
        files.append(context.work / f"{local.stem}.batch{number}.root")
        _merge_batch(context, batch, files[-1], tally)
    try:
        context.merge_tool.merge(context, files, local)
    except UnreadableFile as error:
        raise JobFailure(FILE_READ, f"FileReadError: {error.path.name}: {error}") from error
    for file in files:
        file.unlink()


def _merge_batch(context: Context, parts: Sequence[Part], target: Path, tally: Tally) -> None:
    paths = [_measured(context, part) for part in parts]
    try:
        counts = context.merge_tool.merge(context, paths, target)
    except UnreadableFile as error:
        blamed = [part.output.lfn for part, path in zip(parts, paths) if path == error.path]
        if not blamed:
            raise JobFailure(FILE_READ, f"FileReadError: {error.path.name}: {error}") from error
        raise unreadable(blamed[0], str(error)) from error
    for index, part in enumerate(parts):
        _compare(part, counts[index] if counts else None)
        tally.events_read += part.output.events
        tally.inputs[part.output.lfn] = Touched(part.output.events, part.output.lumis)
    for path in paths:
        release_input(context, path)


def _measured(context: Context, part: Part) -> Path:
    """Return the path of one file. Its size and checksum must be those that its job claims."""
    path, size, adler32 = measured_input(context, part.output.lfn, place=part.output.place)
    if size != part.output.size_bytes:
        refuse(part, "size", f"{part.output.size_bytes} bytes", f"{size}")
    if adler32 != part.output.adler32:
        refuse(part, "adler32", part.output.adler32, adler32)
    return path


def _compare(part: Part, counts: Counts | None) -> None:
    """Compare the events and lumis that a job claims with those of its file."""
    if counts is None:
        return
    claimed = part.output
    if counts.events != claimed.events:
        refuse(part, "events", f"{claimed.events}", f"{counts.events}")
    strange = outside(counts.lumis or {}, claimed.lumis)
    if strange:
        refuse(part, "lumis", f"{sum(map(len, claimed.lumis.values()))} ranges", f"{strange} as well")


def _merged_facts(context: Context, local: Path, lfn: str, parts: list[Part]) -> FileFacts:
    """Open the merged file and compare it with what the jobs report. Raises JobFailure if they differ."""
    size_bytes, adler32 = checksum(regular_file(local))
    lumis = union(part.output.lumis for part in parts)
    events = sum(part.output.events for part in parts)
    merged = Part("merge", Output("", lfn, size_bytes, adler32, events, lumis))
    try:
        counts = context.merge_tool.inspect(context, local)
    except UnreadableFile as error:
        raise JobFailure(CLAIM_REFUSED, f"ClaimRefused: merge: {lfn} cannot be read: {error}") from error
    _compare(merged, counts)
    return FileFacts(size_bytes, adler32, events, lumis, (counts.lumi_events if counts else None) or {})


def refuse(part: Part, what: str, claimed: str, found: str) -> NoReturn:
    """Raise JobFailure for a claim that differs from its file."""
    where = f"{part.node}: {what} of {part.output.lfn}"
    raise JobFailure(CLAIM_REFUSED, f"ClaimRefused: {where}: claimed {claimed}, the file has {found}")
