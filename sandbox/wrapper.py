"""The job wrapper on the worker node: does the work of one node and always writes a report.

CMS exit codes do not fit into an exit status; the report carries the code, the status only that it failed.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from sandbox import names
from sandbox.cleanup import run_cleanup
from sandbox.context import Context, Tally
from sandbox.failure import (
    BAD_ARGUMENTS,
    LOCAL_WRITE,
    MANIFEST_MISSING,
    MANIFEST_UNUSABLE,
    NO_STORAGE,
    OUT_OF_MEMORY,
    PAYLOAD,
    UNCAUGHT,
    WRAPPER,
    JobFailure,
    Terminated,
    process_exit,
)
from sandbox.fjr import FjrInput, FjrOutput, FrameworkError, JobReport
from sandbox.fjrwrite import write_fjr
from sandbox.jsonfile import clean_text
from sandbox.lumis import expand
from sandbox.manifest import JobsManifest, ManifestError, ManifestMissing, read_jobs
from sandbox.measure import Meter, peak_rss_mb
from sandbox.merge import run_merge
from sandbox.places import CA_FILE, STORAGE_FILE, Places, read_places
from sandbox.processing import run_processing
from sandbox.pull.machine import Slot, read_slot
from sandbox.pull.runner import run_runner
from sandbox.registry import load_registry, shipped_plugins
from sandbox.report import InputRead, NodeReport, Output, write_report
from sandbox.scratch import Scratch
from sandbox.storage import Storage, StorageError, use_job_credentials
from sandbox.tree import SIGNALS, Tree

ROLES: dict[str, Callable[[Context, Tally], None]] = {
    "processing": run_processing,
    "merge": run_merge,
    "cleanup": run_cleanup,
}
RUNNER = "runner"
REGISTRY = load_registry(shipped_plugins())  # while the job's directory is on the import path
FULL_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO}


@dataclass(frozen=True)
class Verdict:
    """Result of the work; code 0 = success."""

    code: int = 0
    error: str = ""
    bad_inputs: tuple[str, ...] = ()
    source: str = PAYLOAD


def main(arguments: Sequence[str]) -> int:
    """`<role> <node> <site>` in the scratch directory; returns the exit status of the process."""
    meter, started_at = Meter(), time.time()
    if (
        len(arguments) != 3
        or arguments[0] not in (*ROLES, RUNNER)
        or not names.matches(names.NODE, arguments[1])
    ):
        sys.stderr.write(
            f"usage: wrapper {'|'.join((*ROLES, RUNNER))} <node> <site>; got {list(arguments)!r:.200}\n"
        )
        return BAD_ARGUMENTS
    role, node, site = arguments
    scratch, tally = Scratch(Path.cwd()), Tally()
    tree = Tree(*scratch.streams)
    group: list[str] = []
    slots: list[Slot] = []
    verdict = _guarded(lambda: _work(role, node, site, tree, tally, group, slots))
    site = slots[0].site if slots else site
    verdict = _without_payload(verdict, tree, scratch)
    if verdict.error:
        sys.stderr.write(f"{node}: {verdict.code}: {verdict.error}\n")
    report = NodeReport(
        node=node,
        group=group[0] if group else "",
        role=role,
        site=site if names.matches(names.SITE, site) else "",
        attempt=_number("WMS2_ATTEMPT") or 0,
        exit_code=verdict.code,
        source=verdict.source,
        error=verdict.error or tally.note,
        started_at=started_at,
        wall_time_sec=meter.wall_time_sec(),
        cpu_time_sec=meter.cpu_time_sec(),
        peak_rss_mb=peak_rss_mb(),
        events_read=tally.events_read,
        events_written=tally.events_written,
        inputs=tuple(InputRead(lfn, touched.events) for lfn, touched in tally.inputs.items()),
        outputs=() if verdict.code else _located(tally),
        bad_inputs=tuple(lfn for lfn in verdict.bad_inputs if names.matches(names.LFN, lfn)),
        pilot=tally.pilot,
        transfers=tuple(tally.transfers),
    )
    return _leave(scratch.back, report, tally)


def _work(
    role: str, node: str, site: str, tree: Tree, tally: Tally, group: list[str], slots: list[Slot]
) -> None:
    _handle_signals(_on_signal)
    scratch = Path.cwd()
    (scratch / "back").mkdir(exist_ok=True)
    if role == RUNNER:  # any site: only HTCondor knows which
        slots.append(read_slot())
        site = slots[0].site
    if not names.matches(names.SITE, site):
        raise JobFailure(BAD_ARGUMENTS, f"{site!r:.80} is not a site name such as T2_CH_CERN")
    manifest = read_jobs(scratch / "jobs.json", payload=scratch / "payload.json")
    group.append(manifest.group)
    places = _places(scratch, manifest)
    context = Context(
        manifest=manifest,
        node=node,
        site=site,
        attempt=_number("WMS2_ATTEMPT") or 0,
        scratch=scratch,
        tree=tree,
        registry=REGISTRY,
        memory_mb=_number("WMS2_MEMORY_MB"),
        places=places,
        storage=_storage(scratch, places.prefixes(site)),
        transfers=tally.transfers,
    )
    context.work.mkdir(exist_ok=True)
    if role != RUNNER:
        ROLES[role](context, tally)
        return
    (scratch / "jobs.json").unlink()  # its token starts runners: no payload may read it
    run_runner(context, tally, slots[0])
    tally.inputs.clear()  # WMS2 knows them from the calls


def _places(scratch: Path, manifest: JobsManifest) -> Places:
    """Read where storage is; the manifest says it in DAGs of earlier versions."""
    try:
        return read_places(scratch / STORAGE_FILE)
    except ManifestMissing:
        if not manifest.storage:
            raise
        return Places(default=manifest.storage)


def _storage(scratch: Path, prefixes: Sequence[str]) -> Storage:
    """Prepare the access to storage; the certificates are read before a payload can replace them."""
    use_job_credentials(os.environ)
    ca_file = scratch / CA_FILE
    if ca_file.exists():
        os.environ["X509_CERT_FILE"] = str(ca_file)  # for programs of the payload, too
    storage = Storage(ca_file=str(ca_file) if ca_file.exists() else "")
    for prefix in prefixes:
        try:
            storage.backend(prefix)
        except StorageError as error:
            raise JobFailure(NO_STORAGE, f"StorageSetup: {error}", source=WRAPPER) from error
    return storage


def _located(tally: Tally) -> tuple[Output, ...]:
    """Return the outputs with the places that they were staged out to."""
    places = {one.lfn: one.place for one in tally.transfers if one.direction == "out"}
    return tuple(replace(one, place=places.get(one.lfn, 0)) for one in tally.outputs)


def _guarded(work: Callable[[], None]) -> Verdict:
    """Run the work and turn any end of it into a verdict; after that no signal interrupts any more."""
    try:
        verdict = _judged(work)
        _handle_signals(signal.SIG_IGN)
    except Terminated as end:
        message = f"Terminated: signal {end.signal_number} ({signal.Signals(end.signal_number).name})"
        verdict = Verdict(128 + end.signal_number, message)
    return verdict


def _without_payload(verdict: Verdict, tree: Tree, scratch: Scratch) -> Verdict:
    """End what the payload left running and take its directory back: what is written from here on stays."""

    def settle() -> None:
        tree.end()
        if tree.started:
            scratch.reclaim()

    settled = _judged(settle)
    return verdict if verdict.code or not settled.code else settled


def _judged(work: Callable[[], None]) -> Verdict:
    try:
        work()
    except JobFailure as failure:
        return Verdict(failure.code, clean_text(failure.message), failure.bad_inputs, failure.source)
    except ManifestMissing as error:
        return Verdict(MANIFEST_MISSING, str(error))
    except ManifestError as error:
        return Verdict(MANIFEST_UNUSABLE, str(error))
    except MemoryError:
        return Verdict(OUT_OF_MEMORY, "bad_alloc: the job could not get the memory it asked for")
    except Exception as error:  # noqa: BLE001 - the report must be written whatever the bug is
        sys.stderr.write(_trace(error))
        full = isinstance(error, OSError) and error.errno in FULL_DISK
        message = clean_text(f"{type(error).__name__}: {error}")
        return Verdict(LOCAL_WRITE if full else UNCAUGHT, message)
    return Verdict()


def _trace(error: BaseException) -> str:
    """Return the traceback without source lines: the payload may have replaced the source files."""
    frame, places = error.__traceback__, []
    while frame is not None:
        places.append(f"  {frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}\n")
        frame = frame.tb_next
    return f"{type(error).__name__} at\n{''.join(places[-20:])}"


def _on_signal(number: int, _frame: FrameType | None) -> None:
    _handle_signals(signal.SIG_IGN)  # one is enough: the report must not be interrupted
    raise Terminated(number)


def _handle_signals(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    for number in SIGNALS:
        signal.signal(number, handler)


def _number(variable: str) -> int | None:
    """Return a whole number that the submit file set in the environment; None if it is missing or invalid."""
    text = os.environ.get(variable, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else None


def _leave(back: Path, report: NodeReport, tally: Tally) -> int:
    try:
        back.mkdir(exist_ok=True)
        write_fjr(back / f"{report.node}.fjr.xml", _framework_report(report, tally))
        write_report(back / f"{report.node}.report.json", report)
    except OSError as error:
        sys.stderr.write(f"{report.node}: the report could not be written: {error}\n")
        return process_exit(report.exit_code or LOCAL_WRITE)
    return process_exit(report.exit_code)


def _framework_report(report: NodeReport, tally: Tally) -> JobReport:
    kind = report.error.split(":", 1)[0].replace(" ", "")[:60]
    per_event = report.wall_time_sec / report.events_read if report.events_read else 0.0
    return JobReport(
        errors=(FrameworkError(report.exit_code, kind, report.error),) if report.exit_code else (),
        reported_exit_code=report.exit_code,
        input_files=tuple(
            FjrInput(lfn, "", touched.events, runs=expand(touched.lumis))
            for lfn, touched in tally.inputs.items()
        ),
        skipped_files=report.bad_inputs,
        output_files=tuple(
            FjrOutput(one.lfn, "", one.events, "output", expand(one.lumis), tuple(tally.inputs))
            for one in report.outputs
        ),
        performance={
            "ApplicationMemory": {"PeakValueRss": str(report.peak_rss_mb)},
            "Timing": {
                "AvgEventTime": f"{per_event:.6g}",
                "TotalJobCPU": f"{report.cpu_time_sec:.6g}",
                "TotalJobTime": f"{report.wall_time_sec:.6g}",
            },
        },
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
