"""The facts of a file that a payload wrote: its content, else what its report says, else what was planned."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sandbox.context import Context
from sandbox.failure import CLAIM_REFUSED, OUTPUT_MISSING, JobFailure
from sandbox.filefacts import FileFacts, checksum
from sandbox.lumis import Lumis, outside
from sandbox.merge_tools import UnreadableFile
from sandbox.payloads.programreport import OutputClaim
from sandbox.scratch import regular_file


@dataclass(frozen=True)
class Assumed:
    """Content of a file without a report that cannot be counted: every event that was read."""

    events: int
    lumis: Lumis


def produced_facts(context: Context, path: Path, claim: OutputClaim | None, assumed: Assumed) -> FileFacts:
    """Measure a local output file. Raises JobFailure if it is missing, unreadable or not as claimed."""
    try:
        size_bytes, adler32 = checksum(regular_file(path))
        counts = context.merge_tool.inspect(context, path)
    except UnreadableFile as error:
        raise JobFailure(OUTPUT_MISSING, f"payload: output {path.name} is not usable: {error}") from error
    except OSError as error:
        raise JobFailure(OUTPUT_MISSING, f"payload: output {path.name} is not usable: {error}") from error
    said = claim or OutputClaim(assumed.events, None, {})
    lumis = assumed.lumis if said.lumis is None else said.lumis
    if counts is None:
        return FileFacts(size_bytes, adler32, said.events, lumis, said.lumi_events)
    if claim is not None and claim.events != counts.events:
        raise _refused(path, "events", claim.events, counts.events)
    if counts.lumi_events is None:
        return FileFacts(size_bytes, adler32, counts.events, lumis, said.lumi_events)
    found = counts.lumis or {}
    if claim is not None and claim.lumis is not None and (strange := outside(found, claim.lumis)):
        raise _refused(path, "lumis", "other lumis", strange)
    kept = found if claim is None or claim.lumis is None else claim.lumis
    return FileFacts(size_bytes, adler32, counts.events, kept, counts.lumi_events)


def _refused(path: Path, what: str, claimed: object, found: object) -> JobFailure:
    message = f"ClaimRefused: {what} of {path.name}: claimed {claimed}, the file has {found}"
    return JobFailure(CLAIM_REFUSED, message)
