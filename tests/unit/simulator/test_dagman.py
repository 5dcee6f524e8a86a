"""The simulated DAGMan: retries, deferred landings, limits, rescue files, hold and removal."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from condor.dag_edits import write_landing_sites
from condor.dagfile import write_dag
from condor.dagtext import OUTER_DAG
from condor.layout import Retries, Throttles
from condor.statusfile import highest_rescue, read_status
from condor.types import JobStatus
from lab.simulator.clock import VirtualClock
from lab.simulator.group_run import GroupRun
from lab.simulator.pool import Job, Laws, Outcome, Pool
from lab.simulator.schedd import SimulatedSchedd
from tests.unit.condor.factories import make_layout

NAME, SITES = "wms2-1", ("T1_US_FNAL", "T2_CH_CERN")  # the sites of the factory's groups


class Scripted:
    """Jobs that fail as often as `fails` says, by node."""

    def __init__(self, **fails: int) -> None:
        self.fails = fails
        self.ran: Counter[str] = Counter()

    def outcome(self, job: Job) -> Outcome:
        return Outcome(10.0)

    def post(self, group: GroupRun, job: Job, outcome: Outcome) -> int:
        node = job.ad["DAGNodeName"]
        self.ran[node] += 1
        return int(self.ran[node] <= self.fails.get(node, 0))

    def cooloff_sec(self, group: GroupRun, node: str) -> float:
        return 60.0


class Bench:
    """A schedd with one DAG."""

    def __init__(self, directory: Path, jobs: Scripted, *, groups: int = 2, slots: int = 10) -> None:
        self.clock = VirtualClock()
        self.pool = Pool(self.clock, dict.fromkeys(SITES, slots), outcome=jobs.outcome)
        self.schedd = SimulatedSchedd(self.clock, self.pool, jobs)
        layout = make_layout(
            groups=groups, retries=Retries(processing=1, merge=0), throttles=Throttles(merge_groups=2)
        )
        self.dag_file = write_dag(layout, directory / "dag").dag_file
        self.schedd.submit_dag(self.dag_file, NAME)

    def run(self, seconds: float = 10_000) -> None:
        self.clock.run_until(self.clock.now + seconds)


def test_a_dag_runs_every_node_once_and_writes_a_status_file(tmp_path: Path) -> None:
    jobs = Scripted()
    bench = Bench(tmp_path, jobs)
    bench.run()
    ad = bench.schedd.find_dag(NAME)[1]
    assert ad is not None
    assert ad.succeeded
    assert (jobs.ran["merge"], jobs.ran["cleanup"]) == (2, 2)
    reading = read_status(Path(f"{bench.dag_file}.status"))
    assert reading is not None
    assert sorted(reading.status.done) == ["mg_000000", "mg_000001"]
    assert sum(bench.pool.free.values()) == 10 * len(SITES), "every slot is free again"


def test_a_node_is_retried_after_its_cooloff_and_then_fails(tmp_path: Path) -> None:
    node = "proc_000000"
    bench = Bench(tmp_path, jobs := Scripted(**{node: 2}))
    bench.run()
    assert jobs.ran[node] == 2
    ad = bench.schedd.find_dag(NAME)[1]
    assert ad is not None
    assert (ad.exit_code, ad.nodes_done, ad.nodes_failed) == (1, 1, 1)
    assert highest_rescue(bench.dag_file) is not None
    inner = highest_rescue(bench.dag_file.parent / "mg_000000" / "group.dag")
    assert inner is not None
    assert node not in inner.read_text()


def test_a_rescue_runs_the_unfinished_nodes(tmp_path: Path) -> None:
    bench = Bench(tmp_path, jobs := Scripted(proc_000000=2))
    bench.run()
    before = jobs.ran.copy()
    bench.schedd.submit_dag(bench.dag_file, "wms2-2")
    bench.run()
    ad = bench.schedd.find_dag("wms2-2")[1]
    assert ad is not None
    assert ad.succeeded
    assert jobs.ran - before == Counter({"proc_000000": 1, "merge": 1, "cleanup": 1})


def test_a_landing_without_a_site_is_deferred_until_it_has_one(tmp_path: Path) -> None:
    bench = Bench(tmp_path, jobs := Scripted(), groups=1)
    write_landing_sites(bench.dag_file.parent, {"mg_000000": []})
    bench.run(600)
    assert not jobs.ran
    write_landing_sites(bench.dag_file.parent, {"mg_000000": SITES[:1]})
    bench.run()
    assert (bench.dag_file.parent / "mg_000000" / "elected_site.inc").read_text().endswith(f"{SITES[0]}\n")


def test_no_more_groups_run_than_the_dag_and_the_schedd_allow(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Scripted(), groups=5)
    bench.run(5)
    assert bench.schedd.query_dags()[NAME].groups_running == 2
    bench.schedd.limit_groups([NAME], 1)
    bench.run(200)
    assert bench.schedd.query_dags()[NAME].groups_running <= 1


def test_a_held_dagman_sees_the_end_of_its_jobs_after_its_release(tmp_path: Path) -> None:
    bench = Bench(tmp_path, jobs := Scripted(), groups=1)
    bench.run(10)
    bench.schedd.hold_dag(NAME, reason="maintenance")
    bench.run()
    assert not jobs.ran
    bench.schedd.release_dag(NAME, reason="over")
    bench.run()
    assert bench.schedd.find_dag(NAME)[1].succeeded  # type: ignore[union-attr]


def test_a_removed_dag_leaves_rescue_files_and_no_running_job(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Scripted())
    bench.run(30)
    assert bench.schedd.remove_dag(NAME, reason="stop") == 3
    assert highest_rescue(bench.dag_file) is not None
    assert not (bench.dag_file.parent / f"{OUTER_DAG}.lock").exists()
    assert sum(bench.pool.free.values()) == 10 * len(SITES)
    last = bench.schedd.find_dag(NAME)[1]
    assert last is not None
    assert last.job_status is JobStatus.REMOVED


def test_a_killed_dagman_leaves_its_lock_and_no_rescue_file(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Scripted())
    bench.run(30)
    bench.schedd.kill_dagman(NAME)
    assert (bench.dag_file.parent / f"{OUTER_DAG}.lock").exists()
    assert highest_rescue(bench.dag_file) is None


@pytest.mark.parametrize("laws", [Laws(seed=3, failing=0.2, evicted=0.2), Laws(seed=3, slow_slots=0.5)])
def test_a_job_fares_the_same_whenever_it_is_drawn(laws: Laws) -> None:
    ad = {"Iwd": "/x/1/mg_000000/reports", "DAGNodeName": "proc_000000", "CMS_NodeRole": "processing"}
    job = Job(ad, lambda _job, _outcome: None, site="T2_CH_CERN")
    assert laws.outcome(job) == laws.outcome(job)
