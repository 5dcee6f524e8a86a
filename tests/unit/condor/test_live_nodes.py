"""Nodes and logs, read from the files DAGMan leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from dags_app.dag_files import (
    MAX_TAIL_BYTES,
    Page,
    Position,
    Wanted,
    group_nodes,
    log_paths,
    read_page,
    read_tail,
)

SAMPLES = Path(__file__).parent / "samples"
GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def dag(tmp_path: Path) -> Path:
    """Return a DAG of three groups: one ran, one has not begun, one has a truncated status file."""
    for number in range(3):
        group = tmp_path / f"mg_{number:06d}"
        group.mkdir()
        (group / "group.dag").write_bytes((GOLDEN / "group.dag").read_bytes())
    done = (SAMPLES / "23.9-group-done.status").read_text()
    (tmp_path / "mg_000000" / "group.dag.status").write_text(done)
    (tmp_path / "mg_000000" / "elected_site.inc").write_text("elected_site = T2_CH_CERN\n")
    (tmp_path / "mg_000002" / "group.dag.status").write_text(done[: len(done) // 2])
    return tmp_path


GROUPS = ["mg_000000", "mg_000001", "mg_000002"]


def walk(dag: Path, wanted: Wanted, size: int) -> list[list[str]]:
    pages, start = [], Position()
    while True:
        page: Page = read_page(dag, GROUPS, wanted, start=start, size=size)
        pages.append([f"{one.group}/{one.node}" for one in page.nodes])
        if page.next is None:
            return pages
        start = page.next


def test_a_group_that_has_not_begun_is_not_ready(dag: Path) -> None:
    nodes = list(group_nodes(dag, "mg_000001"))
    assert {(one.status, one.site, one.as_of) for one in nodes} == {("not_ready", "", 0)}
    assert {one.role for one in nodes} == {"landing", "processing", "merge", "cleanup"}


def test_nodes_of_a_truncated_status_file_are_not_ready(dag: Path) -> None:
    assert {one.status for one in group_nodes(dag, "mg_000002")} == {"not_ready"}


def test_a_running_group_has_the_node_states_and_the_site_of_its_dagman(dag: Path) -> None:
    nodes = {one.node: one for one in group_nodes(dag, "mg_000000")}
    assert nodes["landing"].status == "done"
    assert nodes["landing"].site == "T2_CH_CERN"
    assert nodes["landing"].as_of > 1_600_000_000


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_pages_hold_every_node_once_in_order(dag: Path, size: int) -> None:
    whole = walk(dag, Wanted(), 1000)[0]
    pages = walk(dag, Wanted(), size)
    assert [one for page in pages for one in page] == whole
    assert all(len(page) == size for page in pages[:-1])
    assert len(whole) == len(set(whole)) == 3 * len(list(group_nodes(dag, "mg_000000")))


def test_filters_hold_across_pages(dag: Path) -> None:
    merges = Wanted(roles=frozenset({"merge"}))
    assert walk(dag, merges, 2) == [["mg_000000/merge", "mg_000001/merge"], ["mg_000002/merge"]]
    done = Wanted(statuses=frozenset({"done"}), roles=frozenset({"landing"}))
    assert walk(dag, done, 5) == [["mg_000000/landing"]]


def test_names_that_are_no_names_lead_nowhere(dag: Path) -> None:
    assert log_paths(dag, group="../../etc") == {}
    assert log_paths(dag, group="mg_000000", node="../../passwd") == {}
    assert log_paths(dag, group="mg_000000", node="merge")["err"] == dag / "mg_000000" / "merge.err"
    assert log_paths(dag)["dagman_out"] == dag / "workflow.dag.dagman.out"


def test_a_tail_is_bounded_in_lines_and_bytes(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"\xff" * 10 + b"x" * 3 * MAX_TAIL_BYTES + b"\nlast but one\nlast")
    assert read_tail(log, lines=2) == "last but one\nlast"
    assert len(read_tail(log, lines=500) or "") <= MAX_TAIL_BYTES
    assert read_tail(tmp_path / "absent", lines=2) is None
