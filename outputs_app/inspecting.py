"""Count the events and lumis of ROOT files on the storage, in a process with limits (`inspect_child`)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outputs_app.file_check import Content
from wms2_project.errors import TransientError

CODE = Path(__file__).resolve().parents[1]
CHILD = "outputs_app.inspect_child"
# How programs and certificates are found; nothing else concerns a process that reads files of jobs
PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "X509_CERT_FILE", "X509_CERT_DIR")
START_SEC, PER_FILE_SEC, MOST_SEC = 30.0, 60.0, 180.0  # below the time limit of a task


class NotInspected(TransientError):
    """Files could not be opened for an external cause. They are inspected again later."""

    code = "not_inspected"


@dataclass(frozen=True, slots=True)
class Uninspectable:
    """A file that cannot be read, and why."""

    message: str


Inspected = tuple[str, Content | Uninspectable | None]


def inspect_files(
    urls: Collection[str], *, token: str = "", ca_file: str = "", child: str = CHILD
) -> Iterator[Inspected]:
    """Yield the content of each file, in order; None for a file that is not a ROOT file.

    Raise NotInspected where the storage does not answer. A file on which the process runs out of memory or
    CPU time is uninspectable. `child` is the module that the process runs.
    """
    if not urls:
        return
    task = json.dumps({"urls": list(urls), "token": token, "ca_file": ca_file})
    lines, ended = _run(child, task, len(urls))
    for url, line in zip(urls, lines, strict=False):
        yield url, _parsed(line)
    if len(lines) < len(urls):
        culprit = list(urls)[len(lines)]
        if ended != -signal.SIGXCPU:
            raise NotInspected(f"the inspection of {culprit} ended early ({ended})")
        yield culprit, Uninspectable("reading it takes too much CPU time")


def _run(child: str, task: str, files: int) -> tuple[list[dict[str, Any]], str | int]:
    """Return the results so far and how the process ended."""
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    environment |= {"PYTHONPATH": str(CODE), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    patience = min(START_SEC + PER_FILE_SEC * files, MOST_SEC)
    try:
        done = subprocess.run(
            [sys.executable, "-m", child],
            input=task.encode(), capture_output=True, timeout=patience, env=environment, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        return _lines(late.stdout or b""), f"not done within {patience:g} s"
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return _lines(done.stdout), said[-1][:300] if said and done.returncode > 0 else done.returncode


def _lines(output: bytes) -> list[dict[str, Any]]:
    whole, _, _ = output.rpartition(b"\n")
    return [json.loads(line) for line in whole.splitlines()]


def _parsed(line: dict[str, Any]) -> Content | Uninspectable | None:
    if "other" in line:
        return None
    if "unavailable" in line:
        raise NotInspected(str(line["unavailable"]))
    if "problem" in line:
        return Uninspectable(str(line["problem"]))
    return Content(events=line["events"], trees=line["trees"], lumi_events=line["lumi_events"])
