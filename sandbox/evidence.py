"""What an attempt left behind on the submit host: its reports, the event log and the end of its stderr.

Nothing here is believed before it was checked: a report may be missing, damaged, or of an earlier attempt.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox import names
from sandbox.failure import HTCONDOR, OPEN_CODES, PAYLOAD, process_exit, steps_of
from sandbox.jsonfile import ManifestError, clean_text, read_json
from sandbox.postrecord import LOG_TAIL_CHARACTERS
from sandbox.report import NodeReport, read_report
from sandbox.userlog import read_job_events

if TYPE_CHECKING:
    from sandbox.fjr import JobReport

REPORTS = Path("reports")
PLAN = Path("jobs.json")
MANIFEST = Path("merge_output.json")
# A processing node of the DAG has ended otherwise than for want of its input. One file instead of a search:
# a DAG may have thousands of groups, and every POST of a file that could not be opened asks.
INPUT_FOUND = Path("../input_found")
EVENT_LOG = Path("group.dag.nodes.log")
LOG_TAIL_LINES = 200
MAX_LISTED_FILES = 1000
# Log lines that name a file because something is wrong with it; others merely say that it was opened.
_TROUBLE = re.compile(r"error|exception|fail|cannot|can't|could not|unable|corrupt|truncated", re.IGNORECASE)
_MEGABYTES = re.compile(r"\b(\d{1,8}) ?(?:MB|megabytes)\b", re.IGNORECASE)
_LFN_IN_TEXT = re.compile(r"/store/[A-Za-z0-9_.=#/-]+\.root")


@dataclass(frozen=True)
class Evidence:
    """exit_code is the CMS exit code, 0 only when exit status and report both say success."""

    exit_code: int
    note: str
    report: NodeReport | None
    fjr: JobReport | None
    site: str
    hold_reason: str
    memory_mb: int
    bad_inputs: tuple[str, ...]
    log_tail: str
    source: str = PAYLOAD

    @property
    def wall_time_sec(self) -> float:
        return self.report.wall_time_sec if self.report else _metric(self.fjr, "Timing", "TotalJobTime")

    @property
    def cpu_time_sec(self) -> float:
        return self.report.cpu_time_sec if self.report else _metric(self.fjr, "Timing", "TotalJobCPU")

    @property
    def steps(self) -> dict[str, int]:
        """Exit code of each step; empty where no report speaks about the job."""
        return steps_of(self.exit_code) if self.report or self.fjr else {}

    @property
    def failed_step(self) -> str:
        """The first step that failed, '' if none did or nobody knows."""
        return next((step for step, code in self.steps.items() if code), "")

    def cmssw(self) -> dict[str, Any]:
        """The part of the record that speaks about the framework."""
        return {
            "exit_code": self.exit_code,
            "steps": {
                step: {"status": int(code != 0), "exit_code": code} for step, code in self.steps.items()
            },
            "error_message": self._error_message(),
            "input_files": self._listed("inputs", "input_files"),
            "output_files": self._listed("outputs", "output_files"),
            "performance": self._performance(),
        }

    def _error_message(self) -> str:
        if self.report is not None:
            return self.report.error
        errors = self.fjr.errors if self.fjr else ()
        return clean_text(errors[0].text) if errors else self.note

    def _listed(self, in_report: str, in_fjr: str) -> list[str]:
        files = getattr(self.report, in_report) if self.report else getattr(self.fjr, in_fjr, ())
        return [clean_text(one.lfn, 500) for one in files[:MAX_LISTED_FILES]]

    def _performance(self) -> dict[str, float]:
        read = self.report.events_read if self.report else self.fjr.events_read if self.fjr else 0
        return {
            "peak_rss_mb": self.memory_mb,
            "avg_event_time_sec": self.wall_time_sec / read if read else 0.0,
            "events_read": read,
            "events_written": self.report.events_written if self.report else 0,
        }


def gather(node: str, return_value: int, job_id: str) -> Evidence:
    """Look at everything there is about the attempt; what cannot be used is noted, not raised."""
    events = read_job_events(EVENT_LOG, job_id)
    report, note = _trusted_report(node, return_value)
    failed = return_value != 0 or report is None
    fjr = _trusted_fjr(node, return_value) if failed else None
    if report is not None:
        code = report.exit_code
    elif fjr is not None and fjr.exit_code:
        code = fjr.exit_code
    else:
        from sandbox.classify import code_without_report

        code = code_without_report(return_value, events)
    log_tail = read_tail(Path(f"{node}.err")) if failed else ""
    told = "; ".join(part for part in (note, events.hold_reason, events.removal_reason) if part)
    site = events.site or (report.site if report else "")
    return Evidence(
        exit_code=code,
        note=clean_text(told),
        report=report,
        fjr=fjr,
        site=site if names.matches(names.SITE, site) else "",
        hold_reason=clean_text(events.hold_reason),
        # None sees everything: HTCondor measures now and then, a report speaks of one process.
        memory_mb=max(
            report.peak_rss_mb if report else _peak_rss_mb(fjr),
            events.memory_mb or 0,
            _memory_in(events.hold_reason),
        ),
        bad_inputs=_bad_inputs(node, report, fjr, log_tail) if failed else (),
        log_tail=log_tail,
        source=_source(report, fjr, events.hold_code),
    )


def promote_manifest() -> str:
    """Give the group's manifest its name once it is seen to be whole and as planned; '' or why not.

    A manifest that is already there and valid stays: WMS2 may have read it.
    """
    from sandbox.atomic import rename_on_disk
    from sandbox.manifest import check_group_manifest, read_group_manifest, read_jobs

    part = REPORTS / f"{MANIFEST.name}.part"
    try:
        plan = read_jobs(PLAN)
        with suppress(ManifestError):
            check_group_manifest(read_group_manifest(MANIFEST), plan)
            return ""
        check_group_manifest(read_group_manifest(part), plan)
        rename_on_disk(part, MANIFEST)
    except (ManifestError, OSError) as error:
        return f"the group's manifest is not usable: {error}"
    return ""


def note_end(exit_code: int) -> None:
    """Remember of a processing node that has ended whether its input was there."""
    if exit_code not in OPEN_CODES:
        with suppress(OSError):
            INPUT_FOUND.touch()


def set_aside(node: str, attempt: int) -> None:
    """Keep a failed attempt's reports under another name, lest the next attempt be judged by them."""
    for kind in ("report.json", "fjr.xml"):
        with suppress(OSError):
            os.replace(REPORTS / f"{node}.{kind}", REPORTS / f"{node}.attempt{attempt}.{kind}")


def read_tail(path: Path) -> str:
    """The last lines of a text that may be anything."""
    try:
        with open(path, "rb") as handle:
            handle.seek(max(0, path.stat().st_size - LOG_TAIL_CHARACTERS))
            data = handle.read(LOG_TAIL_CHARACTERS)
    except OSError:
        return ""
    lines = data.decode("utf-8", "replace").split("\n")[-LOG_TAIL_LINES - 1 :]
    return clean_text("\n".join(lines), LOG_TAIL_CHARACTERS)


def _source(report: NodeReport | None, fjr: JobReport | None, hold_code: int) -> str:
    """Who brought the end about: what a payload could have brought about counts as its own."""
    if report is not None:
        return report.source
    from sandbox.classify import HELD_BEFORE_PAYLOAD

    return HTCONDOR if fjr is None and hold_code in HELD_BEFORE_PAYLOAD else PAYLOAD


def _trusted_report(node: str, return_value: int) -> tuple[NodeReport | None, str]:
    try:
        report = read_report(REPORTS / f"{node}.report.json")
    except ManifestError as error:
        return None, f"no usable report ({error}), return value {return_value}"
    if report.node != node:
        return None, f"the report is of {report.node}, return value {return_value}"
    if process_exit(report.exit_code) != return_value:
        return None, f"the report says {report.exit_code}, return value {return_value}: not of this attempt"
    return report, ""


def _trusted_fjr(node: str, return_value: int) -> JobReport | None:
    from sandbox.fjr import FjrError, parse_fjr

    path = REPORTS / f"{node}.fjr.xml"
    if not path.exists():
        return None
    try:
        fjr = parse_fjr(path)
    except FjrError:
        return None
    # A job killed while it wrote the report has no exit status of its own that could agree with it.
    killed = not fjr.complete and bool(fjr.errors) and -64 <= return_value < 0
    return fjr if killed or process_exit(fjr.exit_code) == return_value else None


def _memory_in(hold_reason: str) -> int:
    """The most megabytes that a hold for memory names, as its limit or as measured."""
    if "memory" not in hold_reason.lower():
        return 0
    return max((int(found) for found in _MEGABYTES.findall(hold_reason)), default=0)


def _peak_rss_mb(fjr: JobReport | None) -> int:
    return round(_metric(fjr, "ApplicationMemory", "PeakValueRss"))


def _metric(fjr: JobReport | None, summary: str, name: str) -> float:
    """A job wrote it: nothing below zero, nothing beyond belief."""
    value = fjr.metric(summary, name) if fjr else None
    return min(max(value or 0.0, 0.0), 1e9)


def _bad_inputs(
    node: str, report: NodeReport | None, fjr: JobReport | None, log_tail: str
) -> tuple[str, ...]:
    """Input files to blame; only files planned for this node can be, whatever a report says.

    Who names a file outright is believed before a message, a message before the log.
    """
    planned = _planned_inputs(node)
    named = [*(report.bad_inputs if report else ()), *(fjr.skipped_files if fjr else ())]
    messages = [report.error] if report else []
    messages += [error.text for error in fjr.errors] if fjr else []
    trouble = [line for line in log_tail.split("\n") if _TROUBLE.search(line)]
    for source in (named, _lfns_in(messages), _lfns_in(trouble)):
        blamed = tuple(lfn for lfn in dict.fromkeys(source) if lfn in planned)
        if blamed:
            return blamed
    return planned if len(planned) == 1 else ()


def _lfns_in(texts: list[str]) -> list[str]:
    return [lfn for text in texts for lfn in _LFN_IN_TEXT.findall(text)]


def _planned_inputs(node: str) -> tuple[str, ...]:
    try:
        plan: Any = read_json(PLAN)
        lfns = [file["lfn"] for file in plan["jobs"][node]["files"]]
    except (ManifestError, KeyError, TypeError):
        return ()
    return tuple(lfn for lfn in dict.fromkeys(lfns) if names.matches(names.LFN, lfn))
