"""Readers of files that DAGMan writes: node status, final metrics, rescue files.

A reading is complete or None: for a file without its end mark, or unchanged, the caller keeps its last
reading. Counts and done nodes are parsed at once, the map of all nodes on first access.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from condor.types import FileStamp, FinalMetrics, NodeState, StatusFile, StatusReading, UnreadableFile

MAX_METRICS_BYTES = 100_000
_STATES = {str(state.value).encode(): state for state in NodeState}
# Bytes: decoding costs more than reading, and details may contain job output in any encoding.
# For speed: a literal prefix, then character classes; the 15 characters are `;`, line end, NodeStatus.
_NODE = re.compile(rb'NodeStatus";\n  Node = "([^"\n]+)"[^=]{15}= (\d);')
_DONE = re.compile(rb'Node = "(\w+)";\n  NodeStatus = %d;' % NodeState.DONE)
_END = re.compile(rb'^\s*Type = "StatusEnd";\n[^\]]*\]\s*\Z', re.MULTILINE)
_HEAD = re.compile(rb'\A\s*\[\s*Type = "DagStatus";\n(.*?)^\s*\]', re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(rb"^\s*(\w+) = (\d{1,18});", re.MULTILINE)
_END_BYTES = 400
_RESCUE = re.compile(r"[0-9]{3,6}", re.ASCII)


class NodeMap(Mapping[str, NodeState]):
    """Node states by name, parsed on first use."""

    __slots__ = ("_content", "_count", "_nodes", "_source")

    def __init__(self, content: bytes, count: int, source: str) -> None:
        self._content, self._count, self._source = content, count, source
        self._nodes: dict[str, NodeState] | None = None

    def _all(self) -> dict[str, NodeState]:
        if self._nodes is None:
            try:
                found = _NODE.findall(self._content)
                nodes = {name.decode("latin-1"): _STATES[state] for name, state in found}
            except KeyError as error:
                raise UnreadableFile(f"{self._source} gives a node the state {error}") from error
            if len(nodes) != self._count:
                raise UnreadableFile(f"{self._source} announces {self._count} nodes and lists {len(nodes)}")
            self._nodes = nodes
        return self._nodes

    def __getitem__(self, name: str) -> NodeState:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return self._count


def parse_status(content: bytes, *, source: str = "the status file") -> StatusFile | None:
    """Parse a status file; None if its end mark is missing."""
    if not _END.search(content, max(0, len(content) - _END_BYTES)):
        return None
    head = _HEAD.search(content)
    if not head:
        raise UnreadableFile(f"{source} has an end but no DagStatus record")
    number = {key.decode("ascii"): int(value) for key, value in _NUMBER.findall(head[1])}
    nodes = NodeMap(content, number.get("NodesTotal", 0), source)
    try:
        return StatusFile(
            dag_status=NodeState(number["DagStatus"]),
            written_at=number["Timestamp"],
            nodes_total=number["NodesTotal"],
            nodes_done=number["NodesDone"],
            nodes_failed=number["NodesFailed"],
            nodes_futile=number.get("NodesFutile", 0),
            nodes_queued=number["NodesQueued"],
            nodes_ready=number["NodesReady"],
            nodes_unready=number["NodesUnready"],
            nodes_pre=number["NodesPre"],
            nodes_post=number["NodesPost"],
            jobs_held=number.get("JobProcsHeld", 0),
            jobs_idle=number.get("JobProcsIdle", 0),
            done=_done(content, nodes, announced=number["NodesDone"]),
            nodes=nodes,
        )
    except (KeyError, ValueError) as error:
        raise UnreadableFile(f"{source} lacks or misstates {error}") from error


def _done(content: bytes, nodes: NodeMap, *, announced: int) -> list[str]:
    """Return the done nodes by one fast pass; by the map of all nodes if the number differs."""
    names: list[bytes] = _DONE.findall(content)
    if len(names) != announced:
        return [name for name, state in nodes.items() if state is NodeState.DONE]
    return b" ".join(names).decode("ascii").split()


def read_status(path: Path, *, previous: FileStamp | None = None) -> StatusReading | None:
    """Read a status file if it changed since `previous`; None otherwise."""
    try:
        with path.open("rb") as handle:
            found = os.fstat(handle.fileno())
            stamp = FileStamp(found.st_ino, found.st_mtime_ns, found.st_size)
            if stamp == previous:
                return None
            status = parse_status(handle.read(), source=str(path))
    except FileNotFoundError:
        return None
    return StatusReading(stamp=stamp, status=status) if status else None


def parse_metrics(content: bytes | str, *, source: str = "the metrics file") -> FinalMetrics:
    """Parse DAGMan's `.metrics`, of 23.x ("jobs") or 25.x ("nodes")."""
    try:
        if len(content) > MAX_METRICS_BYTES:
            raise ValueError(f"{len(content)} bytes")
        data = json.loads(content)
        word = "nodes" if int(data.get("metrics_version", 1)) >= 2 else "jobs"
        return FinalMetrics(
            version=str(data["version"]),
            exit_code=int(data["exitcode"]),
            dag_status=int(data["DagStatus"]),
            nodes_total=int(data[f"total_{word}"]),
            nodes_succeeded=int(data[f"{word}_succeeded"]) + int(data[f"dag_{word}_succeeded"]),
            nodes_failed=int(data[f"{word}_failed"]) + int(data[f"dag_{word}_failed"]),
            rescue_number=int(data["rescue_dag_number"]),
            started_at=float(data["start_time"]),
            ended_at=float(data["end_time"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise UnreadableFile(f"{source} is not what DAGMan writes: {error!r:.200}") from error


def highest_rescue(dag_file: Path) -> Path | None:
    """Return the rescue file that DAGMan would use: the one with the highest number."""
    prefix = f"{dag_file.name}.rescue"
    best: tuple[int, Path] | None = None
    for entry in os.scandir(dag_file.parent):
        number = entry.name.removeprefix(prefix)
        if number != entry.name and _RESCUE.fullmatch(number) and (best is None or int(number) > best[0]):
            best = (int(number), dag_file.parent / entry.name)
    return best[1] if best else None
