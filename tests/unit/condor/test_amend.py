"""What may change in a DAG directory between two submissions."""

from __future__ import annotations

from pathlib import Path

import pytest

from condor.amend import restart_group, rewrite_dag, write_priority
from condor.dagfile import write_dag
from tests.unit.condor.builders import make_group, make_layout, make_node
from wms2_project.errors import Conflict


@pytest.fixture
def dag(tmp_path: Path) -> Path:
    write_dag(make_layout(), tmp_path / "dag")
    (tmp_path / "dag" / "workflow.dag.condor.sub").touch()
    (tmp_path / "dag" / "workflow.dag.rescue001").write_text("DONE mg_000000\n")
    return tmp_path / "dag"


def test_more_memory_reaches_the_group_and_keeps_what_is_done(dag: Path) -> None:
    group = make_group(1)
    more = [make_node(2, memory_mb=4000), make_node(3, memory_mb=4000)]
    changed = make_layout(groups=[make_group(0), type(group)(group.name, group.sites, more, group.manifest)])

    assert rewrite_dag(changed, dag) == 1

    assert 'MEM="4000"' in (dag / "mg_000001" / "group.dag").read_text()
    assert (dag / "workflow.dag.rescue001").exists()
    assert rewrite_dag(changed, dag) == 0
    assert write_dag(changed, dag).kept


def test_the_groups_cannot_change(dag: Path) -> None:
    for groups in (1, 3):
        with pytest.raises(Conflict):
            rewrite_dag(make_layout(groups=groups), dag)
    assert rewrite_dag(make_layout(), dag) == 0


def test_a_restarted_group_forgets_its_site_and_its_progress(dag: Path) -> None:
    group = dag / "mg_000001"
    for name in ("elected_site.inc", "group.dag.rescue001", "group.dag.rescue002", "group.dag.nodes.log"):
        (group / name).touch()
    restart_group(group)
    assert sorted(path.name for path in group.iterdir()) == ["group.dag", "jobs.json", "reports"]
    restart_group(group)


def test_priority_is_replaced_whole(dag: Path) -> None:
    write_priority(dag, 90_000)
    assert (dag / "priority.inc").read_text() == "job_priority = 90000\n"
    assert not list(dag.glob(".*.tmp"))
