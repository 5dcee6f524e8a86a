"""Status files are read whole or not at all; tested on files of DAGMan 23.9 and 25.14."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from condor.statusfile import highest_rescue, parse_metrics, parse_status, read_status
from condor.types import NodeState, UnreadableFile
from wms2_project.errors import Wms2Error

SAMPLES = Path(__file__).parent / "samples"
ABORTED = (SAMPLES / "25.14-group-aborted.status").read_bytes()


@pytest.mark.parametrize(
    ("name", "dag_status", "counts"),
    [
        ("23.9-outer-done", NodeState.DONE, (3, 3, 0, 0)),
        ("23.9-group-done", NodeState.DONE, (7, 7, 0, 0)),
        ("25.14-outer-failed", NodeState.ERROR, (3, 1, 2, 0)),
        ("25.14-group-aborted", NodeState.ERROR, (7, 1, 4, 2)),
    ],
)
def test_real_files_are_understood(name: str, dag_status: NodeState, counts: tuple[int, ...]) -> None:
    status = parse_status((SAMPLES / f"{name}.status").read_bytes())
    assert status is not None
    assert status.dag_status is dag_status
    assert (status.nodes_total, status.nodes_done, status.nodes_failed, status.nodes_futile) == counts
    assert len(list(status.nodes)) == status.nodes_total
    assert list(status.done) == [node for node, state in status.nodes.items() if state is NodeState.DONE]
    assert len(status.done) == status.nodes_done


def test_every_node_has_its_state() -> None:
    status = parse_status(ABORTED)
    assert status is not None
    assert dict(status.nodes) == {
        "landing": NodeState.DONE,
        **dict.fromkeys(("proc_000", "proc_001", "proc_002", "proc_003"), NodeState.ERROR),
        "merge": NodeState.FUTILE,
        "cleanup": NodeState.FUTILE,
    }


@pytest.mark.parametrize("cut", range(0, len(ABORTED) - 2, 37))
def test_a_truncated_file_is_no_reading(cut: int) -> None:
    assert parse_status(ABORTED[:cut]) is None


def test_a_missing_node_is_detected_when_the_nodes_are_read() -> None:
    start = ABORTED.index(b'[\n  Type = "NodeStatus";\n  Node = "proc_002"')
    status = parse_status(ABORTED[:start] + ABORTED[ABORTED.index(b"]\n", start) + 2 :])
    assert status is not None
    with pytest.raises(UnreadableFile, match="announces 7 nodes and lists 6"):
        dict(status.nodes)


def test_done_nodes_whose_number_is_not_the_announced_one_are_looked_up_in_the_map() -> None:
    status = parse_status(ABORTED.replace(b"NodesDone = 1", b"NodesDone = 2"))
    assert status is not None
    assert list(status.done) == ["landing"]
    missing = ABORTED.replace(b'Node = "landing"', b'Knot = "landing"')
    with pytest.raises(UnreadableFile, match="announces 7 nodes and lists 6"):
        parse_status(missing)


def test_a_node_named_twice_is_detected_when_the_nodes_are_read() -> None:
    status = parse_status(ABORTED.replace(b'"proc_002"', b'"proc_001"'))
    assert status is not None
    with pytest.raises(UnreadableFile, match="announces 7 nodes and lists 6"):
        dict(status.nodes)


def test_an_unknown_state_is_detected_when_the_nodes_are_read() -> None:
    status = parse_status(ABORTED.replace(b"NodeStatus = 7", b"NodeStatus = 9", 1))
    assert status is not None
    with pytest.raises(UnreadableFile, match="state"):
        dict(status.nodes)


@pytest.mark.parametrize("damage", [b"NodesTotal", b"NodesDone", b"DagStatus = "])
def test_a_head_without_its_counts_is_refused(damage: bytes) -> None:
    with pytest.raises(UnreadableFile):
        parse_status(ABORTED.replace(damage, b"Nonsense" + damage, 1))


def test_details_cannot_pose_as_records() -> None:
    posing = ABORTED.replace(b"Had an ancestor node fail", b'x\\"; Type = \\"StatusEnd\\"; \xff\xfe', 1)
    status = parse_status(posing)
    assert status is not None
    assert status.nodes["merge"] is NodeState.FUTILE


def test_unchanged_file_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "workflow.dag.status"
    path.write_bytes(ABORTED)

    first = read_status(path)
    assert first is not None
    path.write_bytes(b"?" * first.stamp.size)  # unreadable content
    os.utime(path, ns=(first.stamp.mtime_ns, first.stamp.mtime_ns))
    assert read_status(path, previous=first.stamp) is None


def test_replaced_file_of_the_same_size_and_time_is_read(tmp_path: Path) -> None:
    path = tmp_path / "workflow.dag.status"
    path.write_bytes(ABORTED)
    first = read_status(path)
    assert first is not None
    other = tmp_path / "new"
    other.write_bytes(ABORTED)
    os.utime(other, ns=(first.stamp.mtime_ns, first.stamp.mtime_ns))
    other.replace(path)
    assert read_status(path, previous=first.stamp) is not None


def test_missing_and_half_written_files_are_no_reading(tmp_path: Path) -> None:
    path = tmp_path / "workflow.dag.status"
    assert read_status(path) is None
    path.write_bytes(ABORTED[:300])
    assert read_status(path) is None


@given(st.binary(max_size=400), st.integers(0, len(ABORTED)), st.integers(0, len(ABORTED)))
def test_no_bytes_raise_anything_but_our_error(noise: bytes, start: int, end: int) -> None:
    for data in (noise, ABORTED[:start] + noise + ABORTED[end:]):
        try:
            status = parse_status(data)
            if status is not None:
                assert len(dict(status.nodes)) == status.nodes_total
        except Wms2Error:
            pass


@pytest.mark.parametrize(
    ("name", "exit_code", "dag_status", "nodes"),
    [
        ("23.9-outer-done", 0, 0, (3, 3, 0)),
        ("25.14-outer-failed", 1, 2, (3, 1, 2)),
        ("25.14-group-aborted", 1, 3, (7, 1, 1)),
    ],
)
def test_metrics_of_both_versions(name: str, exit_code: int, dag_status: int, nodes: tuple[int, ...]) -> None:
    metrics = parse_metrics((SAMPLES / f"{name}.metrics").read_bytes())
    assert (metrics.exit_code, metrics.dag_status) == (exit_code, dag_status)
    assert (metrics.nodes_total, metrics.nodes_succeeded, metrics.nodes_failed) == nodes
    assert metrics.ended_at > metrics.started_at


def test_metrics_name_the_rescue_they_ran_from() -> None:
    assert parse_metrics((SAMPLES / "23.9-outer-done.metrics").read_text()).rescue_number == 1


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"null", b"{}", b'{"exitcode": 1e999}', b"[" * 100_000, b" " * 200_000, b"\xff"]
)
def test_strange_metrics_are_refused(content: bytes) -> None:
    with pytest.raises(UnreadableFile):
        parse_metrics(content)


@given(st.binary(max_size=300))
def test_no_metrics_raise_anything_but_our_error(content: bytes) -> None:
    with pytest.raises(UnreadableFile):
        parse_metrics(content)


def test_highest_rescue_wins(tmp_path: Path) -> None:
    dag = tmp_path / "workflow.dag"
    assert highest_rescue(dag) is None
    names = ("001", "002", "010", "003.old", "9", "0x11", "002_multi")
    for name in names:
        (tmp_path / f"workflow.dag.rescue{name}").touch()
    (tmp_path / "other.dag.rescue099").touch()
    assert highest_rescue(dag) == tmp_path / "workflow.dag.rescue010"
