"""Process that runs HTCondor's bindings: one request per line on stdin, one answer per line on stdout.

The bindings hold the interpreter lock while they wait, so no thread can time them out. They run here, in a
process that can be killed (see `condor.bounded`); no other module imports them. DAGMan inherits the
environment of this process.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import classad2
import htcondor2

MAX_ANALYSIS = 100_000  # characters
PR_SET_PDEATHSIG = 1


def locate(name: str) -> Any:
    """Return the ad of the local schedd, or of the named one from the collector."""
    collector = htcondor2.Collector()
    if name:
        found = collector.locate(htcondor2.DaemonType.Schedd, name)
        if found is None:  # down, or not yet advertised to the collector
            raise OSError(f"the collector knows no schedd {name}")
        return found
    return collector.locate(htcondor2.DaemonType.Schedd)


def describe(schedd: str, attributes: list[str]) -> dict[str, Any]:
    """Return the schedd's whole ad: `locate` returns only the address of a named schedd."""
    ads = htcondor2.Collector().query(htcondor2.AdType.Schedd, f'Name == "{schedd}"') if schedd else []
    return _plain(ads[0] if ads else locate(schedd), attributes)


def identify(schedd: str) -> str:
    """Return the account that the schedd maps WMS2 to: account@domain."""
    return str(htcondor2.ping(locate(schedd), "WRITE")["MyRemoteUserName"])


def query(schedd: str, constraint: str, attributes: list[str], limit: int) -> list[dict[str, Any]]:
    ads = htcondor2.Schedd(locate(schedd)).query(constraint, attributes, limit=limit)
    return [_plain(ad, attributes) for ad in ads]


def slots(attributes: list[str]) -> list[dict[str, Any]]:
    """Return the pool's slots, without dynamic ones, which are parts of others."""
    collector = htcondor2.Collector()
    ads = collector.query(htcondor2.AdType.Startd, 'SlotType =!= "Dynamic"', attributes)
    return [_plain(ad, attributes) for ad in ads]


def history(
    schedd: str, constraint: str, attributes: list[str], limit: int, since: str | None
) -> list[dict[str, Any]]:
    ads = htcondor2.Schedd(locate(schedd)).history(constraint, attributes, limit, since)
    return [_plain(ad, attributes) for ad in ads]


def act(schedd: str, action: str, constraint: str, reason: str) -> dict[str, int]:
    # The bindings drop a plain string; the second item of the pair is the reason code.
    result = htcondor2.Schedd(locate(schedd)).act(htcondor2.JobAction[action], constraint, (reason, 0))
    return {key: int(value) for key, value in (result or {}).items()}


def edit(schedd: str, constraint: str, attribute: str, value: str) -> int:
    return int(htcondor2.Schedd(locate(schedd)).edit(constraint, attribute, value))


def submit_dag(
    schedd: str, directory: str, dag_file: str, batch_name: str, priority: int, max_groups: int
) -> int:
    """Submit from the DAG's own directory: its CONFIG and DIR paths are relative. 0 groups: no limit."""
    os.chdir(directory)
    try:
        # UpdateSubmit rewrites what an interrupted submission left; unlike Force it keeps rescue files.
        options = {"BatchName": batch_name, "UpdateSubmit": True, "SuppressNotification": True}
        if max_groups:
            options["MaxJobs"] = max_groups
        description = htcondor2.Submit.from_dag(dag_file, options)
        description["priority"] = str(priority)
        return int(htcondor2.Schedd(locate(schedd)).submit(description).cluster())
    finally:
        os.chdir("/")


def analyze(schedd: str, constraint: str, within_sec: float) -> str:
    """Return HTCondor's match analysis of one job, which only its command-line tool provides."""
    named = ["-name", schedd] if schedd else []
    command = ["condor_q", *named, "-better-analyze", "-limit", "1", "-constraint", constraint]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=within_sec, check=False)
    except subprocess.TimeoutExpired as error:
        raise OSError(f"condor_q did not end within {within_sec:g} s") from error
    return done.stdout[:MAX_ANALYSIS]


OPERATIONS: dict[str, Callable[..., Any]] = {
    operation.__name__: operation
    for operation in (describe, identify, query, slots, history, act, edit, submit_dag, analyze)
}


def answer(line: str) -> dict[str, Any]:
    """Execute one request; errors of the schedd and the file system become answers."""
    request = json.loads(line)
    with _captured() as printed:
        try:
            return {"value": OPERATIONS[request["operation"]](**request["arguments"])}
        except (htcondor2.HTCondorException, classad2.ClassAdException, OSError) as error:
            message = f"{type(error).__name__}: {error}"
        _flush_library()
        printed.seek(0)
        return {"error": " ".join(f"{message}: {printed.read(2000)}".split()).rstrip(": ")}


def serve(requests: TextIO, answers: TextIO) -> None:
    for line in requests:
        answers.write(json.dumps(answer(line)) + "\n")
        answers.flush()


def _plain(ad: Any, attributes: list[str]) -> dict[str, Any]:
    found = {}
    for attribute in attributes:
        value = ad.get(attribute)
        if value is not None and value is not classad2.Value.Undefined:
            found[attribute] = value if isinstance(value, (bool, int, float, str)) else str(value)
    return found


@contextmanager
def _captured() -> Iterator[TextIO]:
    """Capture the library's output, which explains its errors and must not mix with the answers."""
    with tempfile.TemporaryFile("w+", errors="replace") as printed:
        kept = os.dup(2)
        try:
            os.dup2(printed.fileno(), 1)
            os.dup2(printed.fileno(), 2)
            yield printed
        finally:
            _flush_library()
            os.dup2(kept, 1)
            os.dup2(kept, 2)
            os.close(kept)


def _flush_library() -> None:
    ctypes.CDLL(None).fflush(None)


def main() -> None:
    # DAGMan and its scripts must not inherit this import path.
    os.environ.pop("PYTHONPATH", None)
    os.environ["PATH"] = os.pathsep.join([htcondor2.param["BIN"], os.environ.get("PATH", os.defpath)])
    os.chdir("/")
    # A submission must not outlive the caller: the next search for it must find it complete or not at all.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        answers.write(json.dumps({"value": "ready"}) + "\n")
        answers.flush()
        serve(sys.stdin, answers)


if __name__ == "__main__":
    main()
