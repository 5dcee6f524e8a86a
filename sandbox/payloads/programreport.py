"""$WMS2_REPORT: the report of a program. Read with the limits of claims and compared with the files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sandbox import names
from sandbox.failure import NO_VALID_FJR, JobFailure
from sandbox.jsonfile import MAX_LISTED, MAX_RANGES, Fields, ManifestError, ManifestMissing
from sandbox.lumis import LumiEvents, Lumis, union
from sandbox.report import MAX_EXIT_CODE


@dataclass(frozen=True)
class OutputClaim:
    """One output as the program describes it; `lumis` None = not stated."""

    events: int
    lumis: Lumis | None
    lumi_events: LumiEvents


@dataclass(frozen=True)
class ProgramReport:
    """`inputs` are the events read by LFN; None = not stated."""

    exit_code: int = 0
    error: str = ""
    inputs: Mapping[str, int] | None = None
    outputs: tuple[OutputClaim, ...] = ()
    bad_inputs: tuple[str, ...] = ()

    def output(self, index: int) -> OutputClaim | None:
        return self.outputs[index] if index < len(self.outputs) else None


def read_program_report(path: Path, status: int) -> ProgramReport:
    """Return the report, an empty one if there is none.

    Raises JobFailure for one that cannot be used, unless the program failed by itself.
    """
    try:
        return _parse(Fields.of_file(path, claim=True))
    except ManifestMissing:
        return ProgramReport()
    except ManifestError as error:
        if status:
            return ProgramReport()
        raise JobFailure(NO_VALID_FJR, f"payload: $WMS2_REPORT: {error}") from error


def _parse(fields: Fields) -> ProgramReport:
    inputs = None
    if fields.raw.get("inputs") is not None:
        inputs = {
            one.name("lfn", names.LFN, "an LFN"): one.integer("events")
            for one in fields.children("inputs", most=MAX_LISTED)
        }
    has_outputs = fields.raw.get("outputs") is not None
    has_bad = fields.raw.get("bad_inputs") is not None
    return ProgramReport(
        exit_code=fields.integer("exit_code", maximum=MAX_EXIT_CODE) if "exit_code" in fields.raw else 0,
        error=fields.text_or_empty("error"),
        inputs=inputs,
        outputs=tuple(map(_parse_output, fields.children("outputs"))) if has_outputs else (),
        bad_inputs=fields.name_list("bad_inputs", names.LFN, "LFN") if has_bad else (),
    )


def _parse_output(fields: Fields) -> OutputClaim:
    lumi_events = fields.lumi_events("lumi_events") if fields.raw.get("lumi_events") is not None else {}
    lumis = fields.lumis("lumis", most=MAX_RANGES) if fields.raw.get("lumis") is not None else None
    if lumis is None and lumi_events:
        counted = {run: [[first, last] for first, last, _ in parts] for run, parts in lumi_events.items()}
        lumis = union([counted])
    return OutputClaim(fields.integer("events"), lumis, lumi_events)
