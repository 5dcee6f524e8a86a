"""Behaviour of a schedd that WMS2 relies on: the same tests pass against the fake and a real pool."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from condor.ports import ScheddPort
from condor.types import DagmanAd, JobStatus, Presence
from tests.contract.condor.peers import GROUP, NOWHERE, SLEEPER, Peer
from wms2_project.errors import InvalidInput, ServiceRejected

UNKNOWN_DAG = "wms2-never-submitted"


@dataclass(frozen=True)
class Ended:
    """A DAG that succeeded: where it was written, how it was seen at first, and its last ad."""

    name: str
    directory: Path
    first_seen: tuple[Presence, DagmanAd | None]
    ad: DagmanAd


@pytest.fixture(scope="module")
def ended(peer: Peer) -> Ended:
    dag_file = peer.write()
    name = peer.submit(dag_file)
    return Ended(name, dag_file.parent, peer.schedd.find_dag(name), peer.until_ended(name))


@pytest.fixture(scope="module")
def working(peer: Peer) -> str:
    """Return a DAG with one job that runs until it is removed. A test leaves it as it was."""
    name = peer.submit(peer.write(sleeps=True))
    peer.until_sleeper_runs(name)
    return name


@pytest.fixture
def waiting(peer: Peer) -> str:
    """Return a DAG whose landing matches no slot."""
    name = peer.submit(peer.write(sites=NOWHERE))
    peer.until_landing_waits(name)
    return name


def test_a_dag_is_found_in_the_queue_and_then_in_history(peer: Peer, ended: Ended) -> None:
    presence, seen = ended.first_seen

    assert presence is Presence.FOUND
    assert seen is not None
    assert not seen.finished
    assert ended.ad.succeeded
    assert (ended.ad.cluster_id, ended.ad.nodes_total) == (seen.cluster_id, 1)
    assert ended.ad.directory == str(ended.directory)
    assert peer.schedd.find_dag(ended.name) == (Presence.FOUND, ended.ad)
    assert peer.schedd.finished_dag(ended.name, ended.ad.cluster_id) == ended.ad
    assert peer.schedd.finished_dag(ended.name, ended.ad.cluster_id + 1) is None
    assert ended.name not in peer.schedd.query_dags()


def test_history_is_searched_back_to_the_time_given_and_no_further(peer: Peer, ended: Ended) -> None:
    def found(not_before: float) -> tuple[bool, Presence]:
        last = peer.schedd.finished_dag(ended.name, ended.ad.cluster_id, not_before=not_before)
        return last is not None, peer.schedd.find_dag(ended.name, not_before=not_before)[0]

    assert ended.ad.submitted_at is not None
    submitted = ended.ad.submitted_at.timestamp()
    assert found(submitted) == (True, Presence.FOUND)
    assert found(submitted + 86_400) == (False, Presence.ABSENT)


def test_an_unsubmitted_dag_is_absent(peer: Peer) -> None:
    schedd = peer.schedd

    assert schedd.find_dag(UNKNOWN_DAG, not_before=time.time() - 60) == (Presence.ABSENT, None)
    assert schedd.query_dags([UNKNOWN_DAG]) == {}
    assert schedd.remove_dag(UNKNOWN_DAG, reason="x") == 0
    assert schedd.clear_batch(UNKNOWN_DAG, reason="x") == 0
    assert schedd.hold_dag(UNKNOWN_DAG, reason="x") == 0
    assert schedd.release_dag(UNKNOWN_DAG, reason="x") == 0
    assert schedd.set_priority(UNKNOWN_DAG, 1) == 0
    assert schedd.limit_groups([UNKNOWN_DAG], 1) == 0
    assert schedd.place_landings(UNKNOWN_DAG, {GROUP: NOWHERE}) == 0
    assert schedd.explain_idle(UNKNOWN_DAG) is None


def test_no_batch_is_no_query(peer: Peer) -> None:
    schedd = peer.schedd

    assert schedd.query_dags([]) == {}
    assert schedd.stuck_jobs([], idle_sec=0) == []
    assert schedd.limit_groups([], 1) == 0
    assert schedd.running_jobs([], longer_than_sec=0) == []
    assert schedd.working_groups([]) == set()
    assert schedd.remove_jobs(UNKNOWN_DAG, [], reason="x") == 0


def test_a_dag_that_cannot_be_submitted_is_rejected_with_the_reason(peer: Peer) -> None:
    dag_file = peer.write()
    dag_file.with_name("dagman.config").unlink()

    with pytest.raises(ServiceRejected, match=r"dagman\.config"):
        peer.submit(dag_file)


@pytest.mark.parametrize(
    "call",
    [
        lambda schedd: schedd.submit_dag(Path("/nowhere/workflow.dag"), "other-1"),
        lambda schedd: schedd.submit_dag(Path("/nowhere/workflow.dag"), "wms2-1", priority=2**40),
        lambda schedd: schedd.find_dag('wms2-1" || true || "'),
        lambda schedd: schedd.finished_dag("wms2-1", 0),
        lambda schedd: schedd.query_dags(["other-1"]),
        lambda schedd: schedd.stuck_jobs(["wms2-1"], idle_sec=-1),
        lambda schedd: schedd.running_jobs(["wms2-1"], longer_than_sec=-1),
        lambda schedd: schedd.remove_jobs("wms2-1", [0], reason="x"),
        lambda schedd: schedd.remove_dag("other-1", reason="x"),
        lambda schedd: schedd.clear_batch("other-1", reason="x"),
        lambda schedd: schedd.hold_dag("other-1", reason="x"),
        lambda schedd: schedd.release_dag("other-1", reason="x"),
        lambda schedd: schedd.set_priority("wms2-1", 2**40),
        lambda schedd: schedd.place_landings("wms2-1", {GROUP: ["no site"]}),
        lambda schedd: schedd.explain_idle("other-1"),
    ],
)
def test_an_unknown_name_or_number_is_refused(peer: Peer, call: Callable[[ScheddPort], object]) -> None:
    with pytest.raises(InvalidInput):
        call(peer.schedd)


def test_name_and_limits_are_known(peer: Peer) -> None:
    limits = peer.schedd.limits()

    assert peer.schedd.ping()
    assert peer.schedd.name
    assert limits.scheduler_jobs_per_owner
    assert limits.scheduler_jobs_total
    assert limits.allowed == min(limits.scheduler_jobs_per_owner, limits.scheduler_jobs_total)


def test_a_running_dag_is_counted(peer: Peer, working: str) -> None:
    ad = peer.schedd.query_dags([working])[working]

    assert (ad.job_status, ad.finished, ad.nodes_total, ad.groups_running) == (JobStatus.RUNNING, False, 1, 1)
    assert peer.schedd.query_dags()[working].cluster_id == ad.cluster_id
    assert peer.schedd.limits().scheduler_jobs_running >= 2
    assert peer.schedd.working_groups([working, UNKNOWN_DAG]) == {(working, GROUP)}
    assert peer.schedd.explain_idle(working) is None


def test_a_running_job_is_named_with_its_site_and_start(peer: Peer, working: str) -> None:
    (job,) = peer.schedd.running_jobs([working], longer_than_sec=0)

    assert (job.batch_name, job.group, job.node) == (working, GROUP, SLEEPER)
    assert job.site in peer.bench.sites
    assert abs(job.started_at.timestamp() - time.time()) < 3600
    assert peer.schedd.running_jobs([working], longer_than_sec=86_400) == []
    assert peer.schedd.stuck_jobs([working], idle_sec=0) == []


def test_the_priority_of_every_queued_job_is_changed(peer: Peer, working: str) -> None:
    assert peer.schedd.set_priority(working, 1_000_011) == 3  # two DAGMans and the job


def test_groups_are_limited_once(peer: Peer, working: str) -> None:
    assert peer.schedd.limit_groups([working], 7) == 1
    assert peer.schedd.limit_groups([working], 7) == 0, "nothing is left to change"


def test_hold_and_release_reach_every_dagman(peer: Peer, working: str) -> None:
    schedd = peer.schedd
    assert schedd.hold_dag(working, reason="maintenance") == 2
    peer.until_groups_run(working, 0)
    held = schedd.query_dags([working])[working]
    assert (held.job_status, held.groups_held, held.hold_code) == (JobStatus.HELD, 1, 1)
    assert "maintenance" in held.hold_reason
    assert [job.node for job in schedd.running_jobs([working], longer_than_sec=0)] == [SLEEPER]

    assert schedd.release_dag(working, reason="over") == 2
    peer.until_groups_run(working, 1)
    assert schedd.release_dag(working, reason="again") == 0


def test_an_error_of_a_submission_whose_dag_is_queued_is_ignored(peer: Peer, waiting: str) -> None:
    queued = peer.schedd.query_dags([waiting])[waiting]
    directory = Path(queued.directory)
    (directory / "dagman.config").rename(directory / "elsewhere.config")

    assert peer.schedd.submit_dag(directory / "workflow.dag", waiting) == queued.cluster_id


def test_a_waiting_landing_follows_its_sites_and_leaves_with_the_batch(peer: Peer, waiting: str) -> None:
    schedd = peer.schedd
    (stuck,) = schedd.stuck_jobs([waiting], idle_sec=0)
    assert (stuck.batch_name, stuck.group, stuck.node, stuck.hold_code) == (waiting, GROUP, "landing", 0)
    assert schedd.stuck_jobs([waiting], idle_sec=86_400) == []
    assert schedd.working_groups([waiting]) == {(waiting, GROUP)}
    analysis = schedd.explain_idle(waiting)
    assert analysis is not None
    assert analysis.counts["able"] == 0

    assert schedd.place_landings(waiting, {GROUP: NOWHERE}) == 0
    assert schedd.place_landings(waiting, {GROUP: NOWHERE[:1], "mg_000001": NOWHERE}) == 1
    assert schedd.place_landings(waiting, {GROUP: NOWHERE[:1]}) == 0
    assert schedd.place_landings(waiting, {GROUP: []}) == 1
    assert schedd.place_landings(waiting, {GROUP: []}) == 0

    assert schedd.clear_batch(waiting, reason="the test is over") == 3
    peer.until_empty(waiting)
    assert schedd.clear_batch(waiting, reason="again") == 0


def test_a_removed_dag_is_removed_in_history_and_leaves_no_job(peer: Peer) -> None:
    name = peer.submit(peer.write(sleeps=True))
    peer.until_sleeper_runs(name)
    (job,) = peer.schedd.running_jobs([name], longer_than_sec=0)
    assert peer.schedd.remove_jobs(name, [job.cluster_id + 100_000], reason="another's") == 0

    assert peer.schedd.remove_dag(name, reason="clean stop") == 2
    peer.until_empty(name)

    last = peer.until_ended(name)
    assert (last.job_status, last.finished, last.succeeded) == (JobStatus.REMOVED, True, False)
    assert "clean stop" in last.remove_reason
    assert peer.schedd.find_dag(name) == (Presence.FOUND, last)


def test_running_jobs_are_removed_by_their_numbers(peer: Peer) -> None:
    name = peer.submit(peer.write(sleeps=True))
    peer.until_sleeper_runs(name)
    (job,) = peer.schedd.running_jobs([name], longer_than_sec=0)

    assert peer.schedd.remove_jobs(name, [job.cluster_id], reason="it hangs") == 1
    left = peer.schedd.running_jobs([name], longer_than_sec=0)
    assert job.cluster_id not in {one.cluster_id for one in left}
    assert name in peer.schedd.query_dags()
