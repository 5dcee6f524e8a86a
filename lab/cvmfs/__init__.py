"""A stand-in for CMS's software on CVMFS: the programs, files and exit statuses of CMSSW that jobs depend on.

It has the interface of CMSSW to a job on a worker node, without its content: `cmsRun` generates, reads and
merges small real ROOT files with uproot and writes framework job reports. What it does follows from the
configuration, as in CMSSW: an EmptySource or LHESource is generated, a PoolSource is read, a MixingModule
reads pileup.

Jobs find it by $VO_CMS_SW_DIR. $STANDIN_FAIL makes it fail: `project`, `runtime` and `tweak` in that stage,
`crash` by an abort, `noreport` without a report, a number with this CMS exit code: the status is the code
modulo 256.
"""

from __future__ import annotations

import compileall
import shlex
import shutil
import sys
from pathlib import Path

SOURCE = Path(__file__).parent / "files"
TOOLS = (
    "cmssw_handle_nEvents.py",
    "cmssw_handle_pileup.py",
    "cmssw_wm_create_process.py",
    "edm_pset_pickler.py",
    "edm_pset_tweak.py",
)
SYSTEMS = (6, 7, 8, 9, 10)


def install(target: Path, *, python: str = sys.executable) -> Path:
    """Write the stand-in into the directory and return it. `python` runs it and needs numpy and uproot."""
    shutil.copytree(SOURCE, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(target / "python", quiet=1)  # each of its short processes would do it again
    programs, common = target / "bin", target / "common"
    for name in TOOLS:
        shutil.copyfile(programs / "tool.sh", programs / name)
    for version in SYSTEMS:
        shutil.copyfile(common / "cmssw-el.sh", common / f"cmssw-el{version}")
    (programs / "standin-python").write_text(f'#!/bin/sh\nexec {shlex.quote(python)} -B "$@"\n', "utf-8")
    for program in (*programs.iterdir(), *common.iterdir()):
        program.chmod(0o755)
    return target
