"""Behaviour of the real DAGMan and schedd with WMS2's files."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from condor.dag_edits import (
    GroupChange,
    change_group,
    replace_file,
    restart_group,
    settle_killed,
    write_priority,
)
from condor.dagfile import submit_lock
from condor.schedd import Schedd
from condor.statusfile import highest_rescue, parse_metrics, read_status
from condor.submitfile import FINISHING_BOOST
from condor.types import JobStatus, NodeState
from tests.pool_dags import WORKFLOW_ID, Bench

NODES = ("landing", "proc_000000", "proc_000001", "merge", "cleanup")


def reports(group: Path) -> dict[str, dict[str, object]]:
    return {
        path.stem.split(".")[0]: json.loads(path.read_text()) for path in group.glob("reports/*.report.json")
    }


def elected(group: Path) -> str:
    return (group / "elected_site.inc").read_text().split()[-1]


@dataclass(frozen=True)
class Ran:
    """A DAG that was submitted after an interrupted submission, and has ended."""

    bench: Bench
    name: str
    directory: Path

    @property
    def group(self) -> Path:
        return self.directory / "mg_000000"


@pytest.fixture(scope="module")
def ran(
    schedd: Schedd, pool_sites: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ran]:
    bench = Bench(schedd, tmp_path_factory.mktemp("ran"), pool_sites)
    written = bench.write(
        bench.layout({"proc_000001": "killed-once", "proc_000003": "failed-once"}, groups=2)
    )
    for suffix in ("condor.sub", "lib.out", "lib.err", "dagman.log"):
        written.dag_file.with_name(f"workflow.dag.{suffix}").write_text("left by a killed worker\n")
    with submit_lock(written.dag_file.parent):
        name = bench.submit(written)
    assert bench.finish(name).succeeded
    yield Ran(bench, name, written.dag_file.parent)
    bench.clear()


def test_files_of_jobs_in_back_are_moved_to_reports(ran: Ran) -> None:
    assert set(reports(ran.group)) == set(NODES[1:])
    assert "proc_000000.report.json" in (ran.group / "reports" / "merge.seen").read_text()
    assert (ran.group / "proc_000000.out").exists()


def test_dagmans_own_files_have_the_same_result(ran: Ran) -> None:
    status = read_status(ran.directory / "workflow.dag.status")
    assert status is not None
    assert dict(status.status.nodes) == {"mg_000000": NodeState.DONE, "mg_000001": NodeState.DONE}
    assert parse_metrics((ran.directory / "workflow.dag.metrics").read_bytes()).nodes_succeeded == 2


def test_a_group_stays_at_the_site_its_landing_found(ran: Ran) -> None:
    site = elected(ran.group)
    past = [job for job in ran.bench.past(ran.name, "DESIRED_Sites", "Iwd") if str(ran.group) in job["Iwd"]]
    assert site in ran.bench.sites
    assert {report["site"] for report in reports(ran.group).values()} == {site}
    assert {(job["DAGNodeName"], job["DESIRED_Sites"]) for job in past} == {
        ("landing", ",".join(ran.bench.sites)),
        *((node, site) for node in NODES[1:]),
    }


def test_jobs_have_the_attributes_of_cms_monitoring(ran: Ran) -> None:
    wanted = (
        "CMS_RequestName",
        "CMS_WorkflowID",
        "CMS_NodeRole",
        "CMS_NodeName",
        "MaxWallTimeMins",
        "RequestCpus",
    )
    job = next(job for job in ran.bench.past(ran.name, *wanted) if job["DAGNodeName"] == "proc_000000")
    assert [job[key] for key in wanted] == ["ana_test-v1", WORKFLOW_ID, "processing", "proc_000000", 10, 1]


def test_only_a_node_with_raised_limits_requests_more(ran: Ran) -> None:
    attempts: dict[str, list[tuple[int, ...]]] = {}
    wanted = ("RequestMemory", "RequestDisk", "MaxWallTimeMins", "AllowedJobDuration")
    for job in ran.bench.past(ran.name, *wanted, "NumHolds"):
        seen = (*(job[key] for key in wanted), job.get("NumHolds", 0))
        attempts.setdefault(job["DAGNodeName"], []).append(seen)
    planned = (64, 1024, 10, 600, 0)
    assert attempts["proc_000001"] == [planned, (96, 2048, 20, 1200, 0)]
    assert attempts["proc_000003"] == [planned, planned]
    assert reports(ran.group)["proc_000001"]["memory_mb"] == 96
    post = (ran.group / "post.log").read_text()
    assert "proc_000001 -9 0 1 " in post
    assert "proc_000001 0 1 1 " in post


def test_dagman_gets_no_variable_of_the_environment_of_wms2(ran: Ran) -> None:
    seen = (ran.group / "post.env").read_text()
    assert "CONDOR_CONFIG=" in seen
    assert "DATABASE_URL" not in seen
    assert "PYTHONPATH" not in seen


def test_a_held_job_is_removed_so_that_post_can_judge_it(bench: Bench) -> None:
    written = bench.write(bench.layout({"proc_000000": "no-output"}))
    name = bench.submit(written)

    ad = bench.finish(name, 120)

    assert (ad.exit_code, ad.nodes_failed, ad.succeeded) == (1, 1, False)
    group = written.dag_file.parent / "mg_000000"
    lines = [line for line in (group / "post.log").read_text().split("\n") if line.startswith("proc_000000")]
    assert len(lines) == 2
    assert "Job was held" in (group / "group.dag.nodes.log").read_text()


def test_a_node_with_the_abort_status_ends_the_whole_dag(bench: Bench) -> None:
    behaviour = {"proc_000000": "exit-43", "proc_000002": "sleep", "proc_000003": "sleep"}
    written = bench.write(bench.layout(behaviour, groups=2))
    name = bench.submit(written)

    ad = bench.finish(name, 60)

    assert (ad.exit_code, ad.nodes_done) == (1, 0)
    assert highest_rescue(written.dag_file) is not None
    bench.wait(lambda: not bench.jobs(name))


def wait_until_done(bench: Bench, group: Path, node: str) -> None:
    """Wait until the DAGMan of the group has seen the end of the node and of its POST script."""

    def is_done() -> bool:
        seen = read_status(group / "group.dag.status")
        return seen is not None and node in seen.status.done

    bench.wait(is_done)


def test_removal_empties_the_queue_and_resubmission_continues_from_there(bench: Bench) -> None:
    written = bench.write(bench.layout({"proc_000001": "sleep"}, groups=2))
    group = written.dag_file.parent / "mg_000000"
    name = bench.submit(written)
    bench.wait(lambda: bench.running(name) == {"proc_000001"})
    wait_until_done(bench, group, "proc_000000")
    bench.wait(lambda: (written.dag_file.parent / "mg_000001" / "reports" / "cleanup.report.json").exists())
    bench.wait(lambda: bench.schedd.query_dags()[name].nodes_done == 1)

    assert bench.schedd.remove_dag(name, reason="clean stop") == 2
    bench.wait(lambda: not bench.jobs(name))
    removed = bench.finish(name)

    assert (removed.job_status, removed.succeeded) == (JobStatus.REMOVED, False)
    assert "clean stop" in removed.remove_reason
    assert highest_rescue(written.dag_file) == written.dag_file.with_name("workflow.dag.rescue001")
    assert "DONE proc_000000" in (group / "group.dag.rescue001").read_text()

    (group / "jobs.json").write_text('{"proc_000001": "ok"}')
    resumed = bench.submit(written)
    assert bench.finish(resumed).succeeded
    assert sorted(job["DAGNodeName"] for job in bench.past(resumed)) == ["cleanup", "merge", "proc_000001"]


def dagman_pid(cluster_id: int) -> int:
    """Return the process of one DAGMan, found by the name under which the schedd runs it."""
    name = f"condor_scheduniv_exec.{cluster_id}.0".encode()
    found = [
        int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cmdline") if name in _command_line(path)
    ]
    assert len(found) == 1
    return found[0]


def _command_line(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_killed_dagman_restarts_and_runs_no_node_twice(bench: Bench) -> None:
    written = bench.write(bench.layout(groups=2))
    name = bench.submit(written)
    bench.wait(lambda: bench.running(name))
    os.kill(dagman_pid(bench.schedd.query_dags([name])[name].cluster_id), signal.SIGKILL)

    assert bench.finish(name, 120).succeeded
    assert len(bench.past(name)) == 2 * len(NODES)


def test_hold_reaches_every_dagman_and_a_held_dag_is_removed_without_loss(bench: Bench) -> None:
    written = bench.write(bench.layout({"proc_000001": "sleep"}))
    group = written.dag_file.parent / "mg_000000"
    name = bench.submit(written)
    bench.wait(lambda: bench.running(name) == {"proc_000001"})
    wait_until_done(bench, group, "proc_000000")

    assert bench.schedd.hold_dag(name, reason="maintenance") == 2
    bench.wait(lambda: bench.schedd.query_dags([name])[name].job_status is JobStatus.HELD)
    held = bench.schedd.query_dags([name])[name]
    assert (held.groups_held, held.groups_running, held.hold_code) == (1, 0, 1)
    assert "maintenance" in held.hold_reason
    assert bench.running(name) == {"proc_000001"}

    assert bench.schedd.release_dag(name, reason="over") == 2
    bench.wait(lambda: bench.schedd.query_dags([name])[name].groups_running == 1)
    assert bench.schedd.hold_dag(name, reason="again") == 2
    assert bench.schedd.remove_dag(name, reason="stop while held") == 2
    bench.wait(lambda: not bench.jobs(name))
    assert "DONE proc_000000" in (group / "group.dag.rescue001").read_text()
    assert not (group / "group.dag.lock").exists()


def kill_every_dagman(bench: Bench, name: str) -> None:
    """Kill all DAGMans, as if their host were lost: they neither write rescue files nor remove jobs."""
    pids = [dagman_pid(job["ClusterId"]) for job in bench.jobs(name) if job["JobUniverse"] == 7]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        bench.schedd.clear_batch(name, reason="its host is lost")
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
    bench.wait(lambda: not bench.jobs(name))


def test_a_dag_whose_dagmans_all_died_continues_from_the_finished_nodes(bench: Bench) -> None:
    written = bench.write(bench.layout({"proc_000001": "sleep"}))
    group = written.dag_file.parent / "mg_000000"
    name = bench.submit(written)
    bench.wait(lambda: bench.running(name) == {"proc_000001"})
    wait_until_done(bench, group, "proc_000000")
    kill_every_dagman(bench, name)
    assert (group / "group.dag.lock").exists()
    assert not list(group.glob("*.rescue*"))

    assert settle_killed(written.dag_file.parent, done=[])

    (group / "jobs.json").write_text('{"proc_000001": "ok"}')
    resumed = bench.submit(written)
    assert bench.finish(resumed, 120).succeeded
    priorities = {job["DAGNodeName"]: job["JobPrio"] for job in bench.past(resumed, "JobPrio")}
    finishing = priorities["proc_000001"] + FINISHING_BOOST
    assert priorities == {"proc_000001": 1_000_000, "merge": finishing, "cleanup": finishing}


def test_a_held_dag_removed_without_resume_leaves_at_once_with_its_jobs(bench: Bench) -> None:
    written = bench.write(bench.layout({"proc_000001": "sleep"}))
    name = bench.submit(written)
    bench.wait(lambda: bench.running(name) == {"proc_000001"})
    assert bench.schedd.hold_dag(name, reason="maintenance") == 2
    assert bench.schedd.remove_dag(name, reason="aborted", resumable=False) == 2
    bench.wait(lambda: not bench.jobs(name))


def test_priority_changes_for_queued_and_for_later_jobs(bench: Bench) -> None:
    written = bench.write(bench.layout({"proc_000001": "sleep"}, priority=7))
    name = bench.submit(written)
    bench.wait(lambda: bench.running(name) == {"proc_000001"})
    assert {job["JobPrio"] for job in bench.jobs(name, "JobPrio") if job["JobUniverse"] == 5} == {7}

    assert bench.schedd.set_priority(name, 11) >= 3
    assert {job["JobPrio"] for job in bench.jobs(name, "JobPrio")} == {11}

    bench.schedd.remove_dag(name, reason="resume with another priority")
    bench.wait(lambda: not bench.jobs(name))
    write_priority(written.dag_file.parent, 13)
    resumed = bench.submit(written)
    bench.wait(lambda: "proc_000001" in bench.running(resumed))
    assert {job["JobPrio"] for job in bench.jobs(resumed, "JobPrio") if job["JobUniverse"] == 5} == {13}


def test_a_failed_group_starts_over_elsewhere(bench: Bench) -> None:
    written = bench.write(bench.layout({"proc_000000": "exit-42"}))
    directory = written.dag_file.parent
    assert not bench.finish(bench.submit(written)).succeeded
    group = directory / "mg_000000"
    first = elected(group)

    change_group(group, GroupChange(sites=[site for site in bench.sites if site != first]))
    replace_file(group / "jobs.json", b"{}\n")
    restart_group(group)
    again = bench.submit(written)

    assert bench.finish(again).succeeded
    assert elected(group) != first
    assert sorted(job["DAGNodeName"] for job in bench.past(again)) == sorted(NODES)
