"""Evidence of an attempt on the submit host: its reports, the event log and the end of its stderr.

Everything is checked before it is used: a report may be missing, damaged, or of an earlier attempt.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox import names
from sandbox.elect_site import elected_site
from sandbox.exitcodes import Tag, has_tag
from sandbox.failure import (
    CLAIM_REFUSED,
    HTCONDOR,
    MANIFEST_MISSING,
    MANIFEST_UNUSABLE,
    PAYLOAD,
    process_exit,
    steps_of,
)
from sandbox.jsonfile import (
    ClaimRefused,
    ManifestError,
    ManifestMissing,
    ManifestUnreadable,
    clean_text,
    open_regular,
)
from sandbox.postrecord import LOG_TAIL_CHARACTERS
from sandbox.report import NodeReport, read_report
from sandbox.selflimit import TooCostly
from sandbox.userlog import read_job_events

if TYPE_CHECKING:
    from sandbox.fjr import JobReport
    from sandbox.manifest import JobsManifest

REPORTS = Path("reports")
PLAN = Path("jobs.json")
MANIFEST = Path("merge_output.json")
# Exists if a processing node of the DAG ended for another reason than a missing input. One file instead of a
# search: a DAG may have thousands of groups, and every POST about a file that could not be opened checks it.
INPUT_FOUND = Path("../input_found")
EVENT_LOG = Path("group.dag.nodes.log")
LOG_TAIL_LINES = 200
MAX_LISTED_FILES = 1000
# Log lines about a problem with a file; others only report that it was opened.
_TROUBLE = re.compile(r"error|exception|fail|cannot|can't|could not|unable|corrupt|truncated", re.IGNORECASE)
_MEGABYTES = re.compile(r"\b(\d{1,8}) ?(?:MB|megabytes)\b", re.IGNORECASE)
_LFN_IN_TEXT = re.compile(r"/store/[A-Za-z0-9_.=#/-]+\.root")


@dataclass(frozen=True)
class Evidence:
    """`exit_code` is the CMS exit code; 0 only if exit status, report and plan all agree on success.

    A refused report is left out; `note` says why.
    """

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
    with_log: bool = False  # the group's cleanup packs the output of its jobs
    removal_reason: str = ""

    def refuse(self, why: str) -> Evidence:
        """Return the evidence without the report that was refused."""
        note = clean_text(why)
        return replace(self, exit_code=CLAIM_REFUSED, source=PAYLOAD, note=note, report=None, fjr=None)

    @property
    def wall_time_sec(self) -> float:
        return self.report.wall_time_sec if self.report else _metric(self.fjr, "Timing", "TotalJobTime")

    @property
    def cpu_time_sec(self) -> float:
        return self.report.cpu_time_sec if self.report else _metric(self.fjr, "Timing", "TotalJobCPU")

    @property
    def steps(self) -> dict[str, int]:
        """Exit code of each step; empty without a report."""
        known = self.report or self.fjr or self.exit_code == CLAIM_REFUSED
        return steps_of(self.exit_code) if known else {}

    @property
    def failed_step(self) -> str:
        """The first step that failed; empty if none did or it is unknown."""
        return next((step for step, code in self.steps.items() if code), "")

    def cmssw(self) -> dict[str, Any]:
        """Return the record's part about the framework."""
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
    """Collect all evidence of the attempt; what cannot be used is noted, not raised."""
    events = read_job_events(EVENT_LOG, job_id)
    plan, broken = _read_plan(node)
    claims = _read_claims(node, return_value, plan)
    report, fjr = claims.report, claims.fjr
    failed = return_value != 0 or report is None
    if report is not None:
        code = report.exit_code or broken
    elif fjr is not None and fjr.exit_code:
        code = fjr.exit_code
    else:
        from sandbox.classify import code_without_report

        code = code_without_report(return_value, events)
    log_tail = read_tail(Path(f"{node}.err")) if failed else ""
    note = "; ".join(part for part in (claims.note, events.hold_reason, events.removal_reason) if part)
    site = events.site or (report.site if report else "")
    found = Evidence(
        exit_code=code,
        note=clean_text(note),
        report=report,
        fjr=fjr,
        site=site if names.matches(names.SITE, site) else "",
        hold_reason=clean_text(events.hold_reason),
        removal_reason=clean_text(events.removal_reason),
        # No source is complete: HTCondor samples, and a report covers one process.
        memory_mb=max(
            report.peak_rss_mb if report else _peak_rss_mb(fjr),
            events.memory_mb or 0,
            _memory_in(events.hold_reason),
        ),
        bad_inputs=_bad_inputs(_planned_inputs(node, plan), report, fjr, log_tail) if failed else (),
        log_tail=log_tail,
        source=_source(report, fjr, events.hold_code),
        with_log=plan is not None and plan.log is not None,
    )
    return found.refuse(claims.refused) if claims.refused else found


def promote_manifest() -> str:
    """Give the group's manifest its final name once it is complete and as planned; return '' or why not.

    An existing valid manifest stays: WMS2 may have read it. Raise ClaimRefused if the new one is complete
    but not as planned.
    """
    from sandbox.atomic import rename_on_disk
    from sandbox.claims import check_group_manifest
    from sandbox.manifest import read_group_manifest, read_jobs

    part = REPORTS / f"{MANIFEST.name}.part"
    try:
        plan, site = read_jobs(PLAN), elected_site(Path())
    except ManifestError as error:
        return f"the group's plan is not usable: {error}"
    try:
        with suppress(ManifestError):
            check_group_manifest(read_group_manifest(MANIFEST), plan, site=site)
            return ""
        check_group_manifest(read_group_manifest(part), plan, site=site)
        rename_on_disk(part, MANIFEST)
    except ClaimRefused:
        raise
    except (ManifestError, OSError) as error:
        return f"the group's manifest is not usable: {error}"
    return ""


def note_end(exit_code: int) -> None:
    """Record whether a processing node ended for a reason other than a missing input."""
    if not has_tag(exit_code, Tag.OPEN):
        with suppress(OSError):
            INPUT_FOUND.touch()


def set_aside(node: str, attempt: int) -> None:
    """Rename a failed attempt's reports, so that the next attempt is not judged by them."""
    for kind in ("report.json", "fjr.xml"):
        with suppress(OSError):
            os.replace(REPORTS / f"{node}.{kind}", REPORTS / f"{node}.attempt{attempt}.{kind}")


def keep_streams(node: str) -> None:
    """Put the output of a finished job beside its report, which the cleanup node gets."""
    for suffix in names.STREAMS:
        source, kept = Path(f"{node}{suffix}"), REPORTS / f"{node}{suffix}"
        with suppress(OSError):
            if stat.S_ISREG(os.lstat(source).st_mode):
                with suppress(FileNotFoundError):
                    kept.unlink()
                os.link(source, kept, follow_symlinks=False)


def read_tail(path: Path) -> str:
    """Return the last lines of a text of any encoding."""
    try:
        with open_regular(path) as handle:
            handle.seek(max(0, os.fstat(handle.fileno()).st_size - LOG_TAIL_CHARACTERS))
            data = handle.read(LOG_TAIL_CHARACTERS)
    except (OSError, ClaimRefused):
        return ""
    lines = data.decode("utf-8", "replace").split("\n")[-LOG_TAIL_LINES - 1 :]
    return clean_text("\n".join(lines), LOG_TAIL_CHARACTERS)


def _source(report: NodeReport | None, fjr: JobReport | None, hold_code: int) -> str:
    """Return the source of the end; an end that a payload could have caused is attributed to it."""
    if report is not None:
        return report.source
    from sandbox.classify import HELD_BEFORE_PAYLOAD

    return HTCONDOR if fjr is None and hold_code in HELD_BEFORE_PAYLOAD else PAYLOAD


@dataclass(frozen=True)
class _Claims:
    """The reports of the attempt that are accepted, and why others are not."""

    report: NodeReport | None = None
    fjr: JobReport | None = None
    note: str = ""
    refused: str = ""


def _read_plan(node: str) -> tuple[JobsManifest | None, int]:
    """Return the plan of the node, or the exit code of every job of a group with a broken plan."""
    from sandbox.manifest import read_jobs

    try:
        return read_jobs(PLAN, only="" if node in ("merge", "cleanup") else node), 0
    except ManifestMissing:
        return None, MANIFEST_MISSING
    except ManifestUnreadable:
        raise
    except ManifestError:
        return None, MANIFEST_UNUSABLE


def _read_claims(node: str, return_value: int, plan: JobsManifest | None) -> _Claims:
    """Read and check the reports. If the pool ended the job, the pool's reason outranks its report."""
    try:
        report, note = _read_report(node, return_value, plan)
        fjr = _read_fjr(node, return_value, plan) if return_value != 0 or report is None else None
    except ClaimRefused as error:
        refused = str(error)
    except MemoryError:
        refused = "the files that the job returned take too much memory"
    except TooCostly as error:
        refused = f"the files that the job returned take {error}"
    else:
        return _Claims(report, fjr, note)
    return _Claims(note=refused, refused=refused if return_value >= 0 else "")


def _read_report(node: str, return_value: int, plan: JobsManifest | None) -> tuple[NodeReport | None, str]:
    """Return the node's report if it is of this attempt, or why it is not."""
    try:
        report = read_report(REPORTS / f"{node}.report.json")
    except ClaimRefused:
        raise
    except ManifestError as error:
        return None, f"no usable report ({error}), return value {return_value}"
    if process_exit(report.exit_code) != return_value:
        return None, f"the report says {report.exit_code}, return value {return_value}: not of this attempt"
    if report.node != node:
        raise ClaimRefused(f"{node}: node: claimed {report.node}, expected {node}")
    if plan is not None:
        from sandbox.claims import check_report

        check_report(report, plan)
    return report, ""


def _read_fjr(node: str, return_value: int, plan: JobsManifest | None) -> JobReport | None:
    path = REPORTS / f"{node}.fjr.xml"
    if not os.path.lexists(path):
        return None
    from sandbox.fjr import FjrError, parse_fjr

    try:
        fjr = parse_fjr(path)
    except FjrError:
        return None
    # A job killed while it wrote the report has no exit status to compare with.
    killed = not fjr.complete and bool(fjr.errors) and -64 <= return_value < 0
    if not killed and process_exit(fjr.exit_code) != return_value:
        return None
    if plan is not None and plan.pull is None and node in plan.jobs:  # files of a runner are not planned
        from sandbox.claims import check_framework_report

        check_framework_report(fjr, plan.jobs[node])
    return fjr


def _memory_in(hold_reason: str) -> int:
    """Return the largest number of megabytes in a hold reason about memory."""
    if "memory" not in hold_reason.lower():
        return 0
    return max((int(found) for found in _MEGABYTES.findall(hold_reason)), default=0)


def _peak_rss_mb(fjr: JobReport | None) -> int:
    return round(_metric(fjr, "ApplicationMemory", "PeakValueRss"))


def _metric(fjr: JobReport | None, summary: str, name: str) -> float:
    """Return a metric of the job's report, limited to a plausible range."""
    value = fjr.metric(summary, name) if fjr else None
    return min(max(value or 0.0, 0.0), 1e9)


def _bad_inputs(
    planned: tuple[str, ...] | None, report: NodeReport | None, fjr: JobReport | None, log_tail: str
) -> tuple[str, ...]:
    """Return the input files to blame, only files planned for this node; None: WMS2 knows which it lent.

    Files named explicitly come before those in a message, and those before files in the log.
    """
    named = [*(report.bad_inputs if report else ()), *(fjr.skipped_files if fjr else ())]
    messages = [report.error] if report else []
    messages += [error.text for error in fjr.errors] if fjr else []
    trouble = [line for line in log_tail.split("\n") if _TROUBLE.search(line)]
    for source in (named, _lfns_in(messages), _lfns_in(trouble)):
        known = planned if planned is not None else [one for one in source if names.matches(names.LFN, one)]
        blamed = tuple(lfn for lfn in dict.fromkeys(source) if lfn in known)
        if blamed:
            return blamed[:MAX_LISTED_FILES]
    return planned if planned and len(planned) == 1 else ()


def _lfns_in(texts: list[str]) -> list[str]:
    return [lfn for text in texts for lfn in _LFN_IN_TEXT.findall(text)]


def _planned_inputs(node: str, plan: JobsManifest | None) -> tuple[str, ...] | None:
    if plan is not None and plan.pull is not None:
        return None
    job = plan.jobs.get(node) if plan else None
    return tuple(dict.fromkeys(file.lfn for file in job.files)) if job else ()
