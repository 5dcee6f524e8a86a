"""Runs cmsRun on a worker node as WMAgent and CRAB do, and judges how it ended.

The contract with the node: `cmsset_default.sh` below $VO_CMS_SW_DIR, $OSG_APP/cmssoft/cms, $CVMFS/cms.cern.ch
or /cvmfs/cms.cern.ch; `scramv1`; the tools of cmssw-wm-tools on PATH; `cmsRun -j <report>`. Nothing of CMSSW
is imported here. Normally the pilot has put the job into the operating system of the release (`REQUIRED_OS`);
where it has not, the container of CVMFS is used (`common/cmssw-el8`), which needs a container runtime that
works without privileges.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox import scram
from sandbox.cmssw.tweaks import Task, build_tweaks, render_pset
from sandbox.context import Context
from sandbox.exitcodes import exit_codes
from sandbox.failure import (
    BAD_CONFIGURATION,
    FILE_OPEN,
    FRAMEWORK_CODES,
    NO_SOFTWARE,
    NO_VALID_FJR,
    SCRAM_ENTER,
    SCRAM_PROJECT,
    SCRAM_RUNTIME,
    SCRAM_SETUP,
    WRAPPER,
    JobFailure,
)
from sandbox.fjr import FjrError, JobReport, parse_fjr
from sandbox.jsonfile import write_json
from sandbox.roottool import log_tail
from sandbox.tree import Payload

KILLED = 128 + signal.SIGKILL
SIGNALS = range(129, 193)
PSET, PSET_LOG = "pset", "pset.log"
# How far the script had come when it ended. The last stage is cmsRun itself, judged by its report.
STAGE_CODES = {
    "software": NO_SOFTWARE,
    "project": SCRAM_PROJECT,
    "enter": SCRAM_ENTER,
    "runtime": SCRAM_RUNTIME,
    "configure": SCRAM_SETUP,
    PSET: BAD_CONFIGURATION,
}
LAST_STAGE = "cmsRun"
REPORT, STAGE, SCRIPT = "FrameworkJobReport.xml", "stage", Path(__file__).with_name("cmsrun.sh")
CMSSET, CVMFS = "cmsset_default.sh", Path("/cvmfs")
_OLD = (REPORT, STAGE, "PSet.pkl", "PSet.py", PSET_LOG)


@dataclass(frozen=True)
class Run:
    """One cmsRun to be done: where, with which release, and its arguments."""

    name: str  # in messages
    directory: Path
    release: str
    arch: str
    task: Task
    files: Mapping[str, dict[str, Any]]  # for the tools of CMSSW, by name
    words: tuple[str, ...] = ()  # further arguments of the script
    pset: bytes | None = None
    seed: int = 1
    pileup_seed: int = 1


def run_cmsrun(context: Context, run: Run) -> JobReport:
    """Run it in its directory and return its report. Raises JobFailure unless it succeeded."""
    software = find_software(os.environ)
    directory = run.directory
    directory.mkdir(parents=True, exist_ok=True)
    for name in _OLD:
        with suppress(FileNotFoundError):
            (directory / name).unlink()
    if run.pset is not None:
        (directory / "PSet.py").write_bytes(run.pset)
    (directory / "PSetRun.py").write_text(render_pset(seed=run.seed, pileup_seed=run.pileup_seed), "ascii")
    (directory / SCRIPT.name).write_bytes(SCRIPT.read_bytes())
    for name, document in {"tweak.json": build_tweaks(run.task), **run.files}.items():
        write_json(directory / name, document)
    status = context.tree.run(
        Payload(build_command(run, software, scram.node_version()), directory, clean_environment(os.environ)),
        context.deadline,
    )
    if status is None:
        raise context.out_of_time(f"{run.name}: cmsRun")
    return judge(run.name, directory, status)


def find_software(environment: Mapping[str, str]) -> Path:
    """Return the directory with CMS software on this node. Raises JobFailure if there is none."""
    places = [
        environment.get("VO_CMS_SW_DIR", ""),
        environment["OSG_APP"] + "/cmssoft/cms" if environment.get("OSG_APP") else "",
        environment["CVMFS"] + "/cms.cern.ch" if environment.get("CVMFS") else "",
        str(CVMFS / "cms.cern.ch"),
    ]
    for place in filter(None, places):
        if (Path(place) / CMSSET).is_file():
            return Path(place)
    tried = ", ".join(filter(None, places))
    raise JobFailure(NO_SOFTWARE, f"NoSoftware: no {CMSSET} on this node in {tried}", source=WRAPPER)


def build_command(run: Run, software: Path, node_version: int | None) -> list[str]:
    """Return the command, inside a container where the node's system is not the one the release needs.

    The container's script joins its arguments with blanks, so none of them holds any.
    """
    inner = ["/bin/bash", SCRIPT.name, str(software), run.release, run.arch, *run.words]
    wanted = scram.required_version(run.arch)
    if wanted is None or wanted == node_version:
        return inner
    container = software / "common" / f"cmssw-el{wanted}"
    if not container.is_file():
        shown = f"el{node_version}" if node_version else "not of the Red Hat family"
        message = f"NoSoftware: {run.arch} needs el{wanted}, this node is {shown} and has no {container}"
        raise JobFailure(NO_SOFTWARE, message, source=WRAPPER)
    here = str(run.directory)
    binds = [word for place in bound_places(run, software) for word in ("-B", place)]
    return [str(container), *binds, "--pwd", here, "--command-to-run", *inner]


def bound_places(run: Run, software: Path) -> list[str]:
    """Return the directories a container must see: the job's own, local input and the software."""
    local = [Path(name[len("file:") :]).parent for name in run.task.inputs if name.startswith("file:/")]
    places = [run.directory.parent, *local, *([] if CVMFS in software.parents else [software])]
    return sorted({str(place) for place in places})


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without what would lead CMSSW's Python and libraries astray."""
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith("PYTHON") and name != "LD_LIBRARY_PATH"
    }


def judge(name: str, directory: Path, status: int) -> JobReport:
    """Return the report of a success. Raises JobFailure with the CMS exit code of anything else."""
    stage = read_stage(directory / STAGE)
    status = 128 - status if status < 0 else status  # as a shell tells a signal
    shown = f"signal {status - 128}" if status in SIGNALS else f"status {status}"
    if stage == PSET:
        message = f"the configuration cannot be read: it ended with {shown}: {log_tail(directory / PSET_LOG)}"
        raise JobFailure(STAGE_CODES[PSET], f"{name}: {message}")
    if stage != LAST_STAGE:
        code = STAGE_CODES.get(stage, NO_SOFTWARE)
        raise JobFailure(code, f"{name}: the software could not be set up: {stage} ended with {shown}")
    try:
        report = parse_fjr(directory / REPORT)
    except FjrError as error:
        code = KILLED if status == KILLED else NO_VALID_FJR
        raise JobFailure(code, f"{name}: cmsRun ended with {shown}: {error}") from error
    if status or report.exit_code:
        text = report.errors[0].text if report.errors else "no framework error was reported"
        code = report.exit_code or framework_code(status)
        raise JobFailure(code, f"{name}: cmsRun ended with {shown}: {text}", bad_inputs=report.skipped_files)
    if not report.complete:
        raise JobFailure(NO_VALID_FJR, f"{name}: the framework job report ends before its last element does")
    if report.skipped_files:
        skipped = ", ".join(report.skipped_files)
        raise JobFailure(FILE_OPEN, f"{name}: cmsRun skipped {skipped}", bad_inputs=report.skipped_files)
    return report


def read_stage(path: Path) -> str:
    """Return the last stage the script noted; the first one if it noted none."""
    try:
        with open(path, "rb") as handle:
            return handle.read(40).decode("ascii", "replace").strip()
    except OSError:
        return "software"


def framework_code(status: int) -> int:
    """Return the code of a cmsRun that reported none: the framework's with this status modulo 256."""
    if status in SIGNALS:
        return status
    known = (code for code in sorted(exit_codes()) if code in FRAMEWORK_CODES)
    return next((code for code in known if code % 256 == status), NO_VALID_FJR)
