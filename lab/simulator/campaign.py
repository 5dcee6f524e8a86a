"""Runs many seeds in worker processes with separate databases, and minimises the faults of failing ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Any

from lab.simulator import database

MEMORY = Path("/dev/shm")  # noqa: S108 - nothing that is written there has to last
Verdict = dict[str, Any]


@dataclass(slots=True)
class Summary:
    """The outcome of a campaign."""

    seeds: int = 0
    seconds: float = 0.0
    failed: list[Verdict] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    hit: Counter[str] = field(default_factory=Counter)
    effects: int = 0
    virtual_sec: float = 0.0

    def add(self, verdict: Verdict) -> None:
        self.seeds += 1
        if verdict["problems"]:
            self.failed.append(verdict)
        if "status" in verdict:
            self.statuses[verdict["status"]] += 1
            self.hit.update(verdict["kinds"])
            self.effects += verdict["counts"]["effects"]
            self.virtual_sec += verdict["virtual_sec"]

    def as_json(self) -> dict[str, Any]:
        return {
            "seeds": self.seeds,
            "seconds": round(self.seconds, 1),
            "failed": self.failed,
            "statuses": dict(sorted(self.statuses.items())),
            "faults_hit": dict(sorted(self.hit.items())),
            "effects": self.effects,
            "virtual_days": round(self.virtual_sec / 86400, 1),
        }


class Worker:
    """A process that runs seeds one after the other."""

    def __init__(self, name: str, template: str, directory: Path, variables: Mapping[str, str]) -> None:
        url = database.clone(template, name)
        argv = [sys.executable, "-P", "-m", "lab.simulator.worker", url, str(directory / name)]
        own = {"PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            argv, env={**os.environ, **variables, **own}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def run(self, seed: int, **changes: Any) -> Verdict:
        """Run the seed, with the changes that `worker.py` describes."""
        wanted = {"seed": seed} | changes
        with suppress(BrokenPipeError):
            self._pipe(self._process.stdin).write(json.dumps(wanted).encode() + b"\n")
            self._pipe(self._process.stdin).flush()
        line = self._pipe(self._process.stdout).readline()
        if not line:
            raise RuntimeError(f"the worker died at seed {seed}: exit code {self._process.wait()}")
        verdict: Verdict = json.loads(line)
        return verdict

    def _pipe(self, pipe: IO[bytes] | None) -> IO[bytes]:
        if pipe is None:
            raise RuntimeError("the worker has no pipe")
        return pipe

    def close(self) -> None:
        self._pipe(self._process.stdin).close()
        self._process.wait()


def memory_directory() -> Path | None:
    """Return a directory in memory; None where there is none."""
    return MEMORY if os.access(MEMORY, os.W_OK) else None


@contextmanager
def workers(
    count: int, *, template: str, variables: Mapping[str, str] | None = None
) -> Iterator[list[Worker]]:
    """Yield worker processes with databases cloned from the template."""
    names = [f"{database.TEMPLATE}_{os.getpid()}_{number}" for number in range(count)]
    with tempfile.TemporaryDirectory(prefix="wms2-simulation-", dir=memory_directory()) as directory:
        made: list[Worker] = []
        try:
            made.extend(Worker(name, template, Path(directory), variables or {}) for name in names)
            yield made
        finally:
            for worker in made:
                worker.close()
            database.drop(*names)


def run_seeds(seeds: Iterable[int], made: list[Worker], *, stop_after: int = 0) -> Summary:
    """Run the seeds on the workers; stop after so many failures, 0 = never."""
    summary, waiting, began = Summary(), SimpleQueue[int](), time.monotonic()
    for seed in seeds:
        waiting.put(seed)

    def work(worker: Worker) -> None:
        while not stop_after or len(summary.failed) < stop_after:
            try:
                seed = waiting.get_nowait()
            except Empty:
                return
            summary.add(worker.run(seed))

    with ThreadPoolExecutor(len(made)) as threads:
        list(threads.map(work, made))
    summary.seconds = time.monotonic() - began
    return summary


def shrink(verdict: Verdict, worker: Worker) -> Verdict:
    """Return the verdict about the seed without the faults that its failure does not need."""
    smaller = "faults" in verdict
    while smaller:
        smaller = False
        for fault in verdict["faults"]:
            fewer = [one for one in verdict["faults"] if one != fault]
            again = worker.run(verdict["seed"], faults=fewer)
            if again["problems"] and "faults" in again:
                verdict, smaller = again, True
                break
    return verdict
