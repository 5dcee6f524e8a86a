"""Access to the lab's pool for tests: its schedds, their processes and queues."""

from __future__ import annotations

import os
import re
from pathlib import Path

import htcondor2

SPARE_ARGUMENT = b"-local-name"


def schedd_names() -> list[str]:
    """Return the schedds of the stack, the first one and its spare."""
    listed = os.environ.get("WMS2_SCHEDDS", "")
    return (
        listed.split(",")
        if listed
        else [str(htcondor2.Collector().locate(htcondor2.DaemonType.Schedd)["Name"])]
    )


def schedd(name: str) -> htcondor2.Schedd:
    return htcondor2.Schedd(htcondor2.Collector().locate(htcondor2.DaemonType.Schedd, name))


def queued(token: str) -> int:
    """Return jobs of the DAG in any queue, its DAGMans included."""
    return sum(
        len(schedd(name).query(f'JobBatchName == "{token}"', ["ClusterId"])) for name in schedd_names()
    )


def clusters(token: str) -> list[tuple[str, int]]:
    """Return the cluster ids of all outer DAGMans with this token, in a queue or in a history."""
    outer = f'JobBatchName == "{token}" && DAGManJobId is undefined && JobUniverse == 7'
    found = []
    for name in schedd_names():
        ads = [*schedd(name).query(outer, ["ClusterId"]), *schedd(name).history(outer, ["ClusterId"])]
        found += [(name, int(ad["ClusterId"])) for ad in ads]
    return found


def schedd_pid(*, spare: bool = False) -> int:
    """Return this pool's schedd: the child of its master, whose process id is in the address."""
    address = htcondor2.Collector().locate(htcondor2.DaemonType.Schedd)["MyAddress"]
    found = re.search(r"sock=schedd_([0-9]+)_", address)
    assert found, f"{address} names no master"
    children = [
        int(path.name)
        for path in Path("/proc").glob("[0-9]*")
        if _status(path).get("PPid") == found[1] and _status(path).get("Name") == "condor_schedd"
    ]
    ours = [pid for pid in children if (SPARE_ARGUMENT in Path(f"/proc/{pid}/cmdline").read_bytes()) == spare]
    assert len(ours) == 1, children
    return ours[0]


def dagman_pid(submit_dir: str) -> int:
    """Return the process of the outer DAGMan, whose working directory is the DAG's."""
    found = [
        int(path.name)
        for path in Path("/proc").glob("[0-9]*")
        if _status(path).get("Name") == "condor_dagman" and (path / "cwd").resolve() == Path(submit_dir)
    ]
    assert len(found) == 1, found
    return found[0]


def _status(process: Path) -> dict[str, str]:
    try:
        lines = (process / "status").read_text().splitlines()
    except OSError:
        return {}
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
