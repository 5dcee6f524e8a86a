"""Checks CWL documents in a process with limits on CPU, memory and time (`check_child`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from threading import BoundedSemaphore

from chains_app.cwl.documents import MAX_BYTES
from chains_app.cwl.reading import Reading
from chains_app.cwl.types import Problem, workflow_from_json
from wms2_project.errors import TransientError

CODE = Path(__file__).resolve().parents[2]
CHILD = "chains_app.cwl.check_child"
PATIENCE_SEC = 120.0  # for a busy machine: a document is refused for the CPU time of its check
# Concurrent checks. A call does not wait for one to end, so that the other threads of a web process stay free
_PLACES = BoundedSemaphore(2)
_PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH")
_CURE = "Make the document smaller"


def check_document(text: str, *, wiring_only: bool = False) -> Reading:
    """Return the workflow of a document in normal form, or all its problems with line and column.

    Raises TransientError if this process has reached its limit of concurrent checks.
    """
    if len(text.encode(errors="replace")) > MAX_BYTES:
        return _refused(f"the document has more than {MAX_BYTES // 1024} kB")
    if not _PLACES.acquire(blocking=False):
        raise TransientError("other documents are being checked", cure="Try again in a few seconds")
    try:
        return _checked(json.dumps({"text": text, "wiring_only": wiring_only}))
    finally:
        _PLACES.release()


def _checked(task: str) -> Reading:
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", CHILD],
            input=task.encode(), capture_output=True, timeout=PATIENCE_SEC, check=False,
            env=environment | {"PYTHONPATH": str(CODE)},
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        late = f"the check of the document has not ended after {PATIENCE_SEC:g} s: the machine is busy"
        raise TransientError(late, cure="Try again later") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        if done.returncode < 0 or (said and "MemoryError" in said[-1]):
            return _refused("checking the document takes too much CPU time or memory")
        return _refused(f"the check failed: {said[-1][:300] if said else done.returncode}")
    answer = json.loads(done.stdout)
    return Reading(
        workflow=None if answer["workflow"] is None else workflow_from_json(answer["workflow"]),
        problems=[Problem(**one) for one in answer["problems"]],
        places={path: (place[0], place[1]) for path, place in answer["places"].items()},
    )


def _refused(message: str) -> Reading:
    return Reading(problems=[Problem(message, 1, 1, cure=_CURE)])
