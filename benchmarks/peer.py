"""B2: the splitter of WMS2 against WMCore's, on the same input.

WMCore is optional and runs in its own Python.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import process_time
from typing import IO, Any

from benchmarks import planning
from benchmarks.harness import Measured, alternate, timed
from benchmarks.run import NotRun, Run
from dags_app.planning.splitters import split
from dags_app.states import SplittingAlgo

PYTHON = "WMS2_WMCORE_PYTHON"
SCRIPT = Path(__file__).with_name("wmcore_peer.py")
FILES = 20_000  # WMCore needs seconds for these already


def split_beside_wmcore(run: Run) -> Measured:
    """B2: split the same input with both splitters and compare their jobs."""
    files, algo = run.size(FILES, 200), planning.algorithm()
    params = {key: value for key, value in planning.parameters(files).items() if key != "lumi_mask"}
    rows = planning.ledger_rows(files)
    with wmcore(algo, files, params) as peer:
        assert peer.jobs == sum(1 for _ in split(algo, rows, params)), "the splitters disagree"
        pairs = alternate(
            timed(lambda: list(split(algo, rows, params)), clock=process_time),
            peer.sample,
            repeat=run.repeat,
        )
    note = f"{algo}, {files} files, no mask: {peer.jobs} jobs on both sides"
    low, high = pairs.spread
    return Measured(1 / pairs.ratio, pairs.as_samples(), note=note, spread=(1 / high, 1 / low))


class Peer:
    """A process with WMCore that has built its input."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._ask: IO[str] = process.stdin
        self._answers: IO[str] = process.stdout
        if self._answers.readline() != "ready\n":
            output = process.stderr.read().splitlines()[-1:] if process.stderr else []
            raise NotRun(f"the Python that {PYTHON} names cannot run WMCore: {' '.join(output) or 'no word'}")
        self.jobs = int(self._split()["jobs"])

    def sample(self) -> float:
        """Return the CPU seconds of one splitting."""
        return float(self._split()["seconds"])

    def _split(self) -> dict[str, Any]:
        self._ask.write("\n")
        self._ask.flush()
        answer: dict[str, Any] = json.loads(self._answers.readline())
        return answer


@contextmanager
def wmcore(algo: SplittingAlgo, files: int, params: dict[str, Any]) -> Iterator[Peer]:
    """Start the process with WMCore; end it afterwards."""
    python = os.environ.get(PYTHON)
    if not python:
        raise NotRun(f"WMCore is optional: run ./wms2 bench B2, or name a Python that has it in {PYTHON}")
    named = params | {"splitOnRun": params["split_on_run"]}
    command = [python, str(SCRIPT), algo, str(files), json.dumps(named)]
    # a separate environment, so that WMCore does not import packages of WMS2
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"PATH": os.defpath},
        )
    except OSError as error:
        raise NotRun(f"{PYTHON} names {python}, which does not start: {error.strerror}") from error
    with process:
        try:
            yield Peer(process)
        finally:
            process.kill()
