"""Files that DAGMan reads and writes: DAG files, rescue files, status files, metrics."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from condor.dagtext import GROUP_DAG, OUTER_DAG
from condor.statusfile import highest_rescue
from condor.types import NodeState

_NODE = re.compile(r'^VARS (\w+) .*?MEM="(\d+)".*?SITES="([^"]*)"$', re.MULTILINE)
_RETRY = re.compile(r"^RETRY (\w+) (\d+)", re.MULTILINE)
_MAXJOBS = re.compile(r"^MAXJOBS (\w+) (\d+)$", re.MULTILINE)
_DEFER = re.compile(r"^SCRIPT DEFER 75 (\d+) PRE landing ", re.MULTILINE)
_GROUP = re.compile(r"^SUBDAG EXTERNAL (\w+) ", re.MULTILINE)
_DONE = re.compile(r"^DONE (\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class GroupFile:
    """A `group.dag`: its nodes in order, where they may run, and its limits."""

    sites: str
    nodes: tuple[str, ...]
    retries: Mapping[str, int]
    max_jobs: Mapping[str, int]
    defer_sec: float


def read_group(directory: Path) -> GroupFile:
    """Read the DAG of a group."""
    text = (directory / GROUP_DAG).read_text("ascii")
    nodes = _NODE.findall(text)
    defer = _DEFER.search(text)
    return GroupFile(
        sites=nodes[0][2],
        nodes=tuple(name for name, _, _ in nodes if name.startswith("proc_")),
        retries={name: int(number) for name, number in _RETRY.findall(text)},
        max_jobs={name: int(number) for name, number in _MAXJOBS.findall(text)},
        defer_sec=float(defer[1]) if defer else 15.0,
    )


def read_outer(directory: Path) -> tuple[list[str], int]:
    """Return the groups of a `workflow.dag` and how many may run at a time."""
    text = (directory / OUTER_DAG).read_text("ascii")
    return _GROUP.findall(text), int(dict(_MAXJOBS.findall(text))["MergeGroup"])


def read_rescue(dag_file: Path) -> set[str]:
    """Return the nodes that the highest rescue file has as done."""
    rescue = highest_rescue(dag_file)
    return set(_DONE.findall(rescue.read_text("utf-8"))) if rescue else set()


def write_rescue(dag_file: Path, done: Collection[str]) -> None:
    """Write the next rescue file."""
    last = highest_rescue(dag_file)
    number = int(last.name.rpartition("rescue")[2]) + 1 if last else 1
    lines = "".join(f"DONE {name}\n" for name in sorted(done))
    dag_file.with_name(f"{dag_file.name}.rescue{number:03d}").write_text(f"# rescue\n{lines}")


def write_status(dag_file: Path, states: Sequence[tuple[str, NodeState]], *, now: float) -> None:
    """Write the node status file as DAGMan does, at this time."""
    counts = dict.fromkeys(NodeState, 0)
    for _, state in states:
        counts[state] += 1
    whole = NodeState.ERROR if counts[NodeState.ERROR] else NodeState.SUBMITTED
    if counts[NodeState.DONE] == len(states):
        whole = NodeState.DONE
    numbers = {
        "Timestamp": int(now), "DagStatus": int(whole), "NodesTotal": len(states),
        "NodesDone": counts[NodeState.DONE], "NodesPre": counts[NodeState.PRERUN],
        "NodesQueued": counts[NodeState.SUBMITTED], "NodesPost": counts[NodeState.POSTRUN],
        "NodesReady": counts[NodeState.READY], "NodesUnready": counts[NodeState.NOT_READY],
        "NodesFutile": counts[NodeState.FUTILE], "NodesFailed": counts[NodeState.ERROR],
        "JobProcsHeld": 0, "JobProcsIdle": 0,
    }  # fmt: skip
    head = "".join(f"  {key} = {value};\n" for key, value in numbers.items())
    nodes = "".join(
        f'[\n  Type = "NodeStatus";\n  Node = "{name}";\n  NodeStatus = {state:d}; /* - */\n]\n'
        for name, state in states
    )
    text = f'[\n  Type = "DagStatus";\n{head}]\n{nodes}[\n  Type = "StatusEnd";\n  EndTime = {int(now)};\n]\n'
    _put(dag_file.with_name(f"{dag_file.name}.status"), text, now)


def write_metrics(dag_file: Path, *, exit_code: int, done: int, failed: int, total: int, now: float) -> None:
    """Write the metrics that DAGMan leaves when it ends by itself."""
    metrics = {
        "version": "25.0.0", "metrics_version": 2, "exitcode": exit_code,
        "DagStatus": 2 if exit_code else 0, "total_nodes": total, "nodes_succeeded": 0,
        "dag_nodes_succeeded": done, "nodes_failed": 0,
        "dag_nodes_failed": failed, "rescue_dag_number": 0, "start_time": now, "end_time": now,
    }  # fmt: skip
    _put(dag_file.with_name(f"{dag_file.name}.metrics"), json.dumps(metrics), now)


def _put(path: Path, text: str, now: float) -> None:
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.write_text(text)
    os.utime(temporary, (now, now))
    os.replace(temporary, path)
