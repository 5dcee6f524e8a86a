"""Changes of a DAG directory between two submissions."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from condor.dag_edits import (
    GroupChange,
    change_group,
    forget_landing_sites,
    remove_groups,
    restart_group,
    settle_killed,
    write_landing_sites,
    write_priority,
)
from condor.dagfile import write_dag
from condor.types import RenderError
from sandbox.elect_site import elected_site
from tests.dagfiles import allowed_sites
from tests.unit.condor.factories import make_layout
from wms2_project.errors import InvalidInput

SAMPLES = Path(__file__).parent / "samples"


@pytest.fixture
def dag(tmp_path: Path) -> Path:
    write_dag(make_layout(), tmp_path / "dag")
    (tmp_path / "dag" / "workflow.dag.rescue001").write_text("DONE mg_000000\n")
    return tmp_path / "dag"


def test_a_group_gets_other_sites_memory_and_retries(dag: Path) -> None:
    group, other = dag / "mg_000001", (dag / "mg_000000" / "group.dag").read_text()
    change = GroupChange(sites=["T2_DE_DESY"], memory_mb=4000, retries=7)
    change_group(group, change)
    text = (group / "group.dag").read_text()
    assert allowed_sites(group) == {"T2_DE_DESY"}
    assert "T2_CH_CERN" not in text
    assert (text.count('MEM="4000"'), text.count("RETRY proc_000002 7 ")) == (2, 1)
    assert (dag / "mg_000000" / "group.dag").read_text() == other
    change_group(group, change)
    assert (group / "group.dag").read_text() == text


def test_landings_have_their_sites_or_none(dag: Path) -> None:
    sites = {"mg_000001": ["T2_DE_DESY", "T2_CH_CERN"], "mg_000000": []}
    write_landing_sites(dag, sites)
    assert (dag / "landing_sites").read_text() == "mg_000000 -\nmg_000001 T2_CH_CERN,T2_DE_DESY\n"
    with pytest.raises(InvalidInput):
        write_landing_sites(dag, {"mg_000000": ["T2_CH_CERN\nmg_000001 -"]})
    forget_landing_sites(dag)
    forget_landing_sites(dag)
    assert not (dag / "landing_sites").exists()


def test_a_group_written_by_an_older_version_is_amended_too(dag: Path) -> None:
    path = dag / "mg_000001" / "group.dag"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if "landing.sh" not in line))
    change_group(path.parent, GroupChange(sites=["T2_DE_DESY"]))
    assert allowed_sites(path.parent) == {"T2_DE_DESY"}


def test_a_killed_dagman_is_spoken_for_once(dag: Path) -> None:
    left = [dag / "workflow.dag.lock", dag / "workflow.dag.nodes.log"]
    assert not settle_killed(dag, done=["mg_000000"])  # it ended by itself
    for path in left:
        path.write_text("of the one that was killed")

    assert settle_killed(dag, done=["mg_000001", "mg_000000"])

    assert (dag / "workflow.dag.rescue002").read_text() == "DONE mg_000000\nDONE mg_000001\n"
    assert not any(path.exists() for path in left)
    assert not settle_killed(dag, done=[])
    assert not (dag / "workflow.dag.rescue003").exists()


def test_inner_dagmans_killed_with_it_keep_their_observed_progress(dag: Path) -> None:
    killed, untouched = dag / "mg_000000", dag / "mg_000001"
    for path in (dag / "workflow.dag", killed / "group.dag"):
        for suffix in ("lock", "nodes.log"):
            Path(f"{path}.{suffix}").write_text("of the one that was killed")
    (killed / "group.dag.rescue001").write_text("# by DAGMan\nDONE proc_000007\nRETRY proc_000000 2\n")
    shutil.copy(SAMPLES / "25.14-group-aborted.status", killed / "group.dag.status")

    assert settle_killed(dag, done=[])

    assert (killed / "group.dag.rescue002").read_text() == "DONE landing\nDONE proc_000007\n"
    assert not list(dag.glob("**/*.lock")) + list(dag.glob("**/*.nodes.log"))
    assert not list(untouched.glob("*.rescue*"))


def test_retries_can_be_lowered_and_raised(dag: Path) -> None:
    group = dag / "mg_000000"
    before = (group / "group.dag").read_text()
    change_group(group, GroupChange(sites=allowed_sites(group), retries=0))
    assert "RETRY proc_000000" not in (group / "group.dag").read_text()
    change_group(group, GroupChange(sites=allowed_sites(group), retries=3))
    assert (group / "group.dag").read_text() == before


def test_a_node_without_work_leaves_no_trace_in_its_group(dag: Path) -> None:
    group = dag / "mg_000001"
    change_group(group, GroupChange(sites=allowed_sites(group), without=["proc_000002"]))
    text = (group / "group.dag").read_text()
    assert "proc_000002" not in text
    assert "PARENT landing CHILD proc_000003\nPARENT proc_000003 CHILD merge\n" in text


RESCUE = """# Rescue DAG file
# Nodes that failed: proc_000002
DONE landing
RETRY landing 2 UNLESS-EXIT 42
RETRY proc_000002 3 UNLESS-EXIT 42
DONE proc_000003
RETRY proc_000003 3 UNLESS-EXIT 42
"""


def test_the_rescue_file_omits_nodes_that_the_group_has_lost(dag: Path) -> None:
    group = dag / "mg_000001"
    rescue = group / "group.dag.rescue001"
    rescue.write_text(RESCUE)
    (group / "proc_000002.post.0.json").touch()
    change_group(group, GroupChange(sites=allowed_sites(group), without=["proc_000002"]))
    assert not list(group.glob("*.post.*"))
    assert rescue.read_text() == RESCUE.replace("RETRY proc_000002 3 UNLESS-EXIT 42\n", "")
    change_group(group, GroupChange(sites=allowed_sites(group), retries=7))
    assert "RETRY proc_" not in rescue.read_text()
    assert "DONE proc_000003" in rescue.read_text()


def test_a_group_is_never_left_without_a_node_or_a_site(dag: Path) -> None:
    group = dag / "mg_000001"
    with pytest.raises(RenderError):
        change_group(group, GroupChange(sites=["T2_DE_DESY"], without=["proc_000002", "proc_000003"]))
    with pytest.raises(RenderError):
        change_group(group, GroupChange(sites=[]))


@pytest.mark.parametrize("site", ['T2_DE_DESY"', "T2_DE_DESY\nSCRIPT", "nowhere"])
def test_nothing_but_a_site_name_gets_into_the_file(dag: Path, site: str) -> None:
    with pytest.raises(InvalidInput):
        change_group(dag / "mg_000001", GroupChange(sites=[site]))


def test_a_dag_continues_without_a_group(dag: Path) -> None:
    remove_groups(dag, ["mg_000001"])
    remove_groups(dag, ["mg_000001"])
    text = (dag / "workflow.dag").read_text()
    assert "mg_000001" not in text
    assert "SUBDAG EXTERNAL mg_000000" in text
    with pytest.raises(RenderError):
        remove_groups(dag, ["mg_000000"])


def test_a_restarted_group_loses_its_site_and_its_progress(dag: Path) -> None:
    group = dag / "mg_000001"
    (group / "elected_site.inc").write_text("elected_site = T2_CH_CERN\n")
    for name in ("group.dag.rescue001", "group.dag.nodes.log", "proc_000002.post.0.json"):
        (group / name).touch()
    assert elected_site(group) == "T2_CH_CERN"
    restart_group(group)
    assert sorted(path.name for path in group.iterdir()) == ["group.dag", "jobs.json"]
    restart_group(group)
    assert elected_site(group) == ""


def test_priority_is_replaced_whole(dag: Path) -> None:
    write_priority(dag, 90_000)
    assert (dag / "priority.inc").read_text() == "job_priority = 90000\n"
    assert not list(dag.glob(".*.tmp"))
