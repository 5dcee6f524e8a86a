"""One observation of all DAGs: the state of queue and status files is stored once, by any process."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from condor.fake import FakeSchedd
from condor.types import JobStatus
from dags_app.models import DAG
from dags_app.services import monitoring
from dags_app.services.schedds import is_silent
from dags_app.states import DAGStatus, GroupStatus
from tests.integration.factories import make_dag, make_group, make_round, make_workflow, queue_dag

pytestmark = pytest.mark.django_db


HISTORY = "finished_dag"


def counts(done: int, failed: int) -> dict[str, int]:
    return {"DAG_NodesDone": done, "DAG_NodesFailed": failed}


def end(schedd: FakeSchedd, dag: DAG, *, exit_code: int | None = 1, removed: bool = False) -> None:
    """Remove the DAG from the queue; without an exit code it was killed by a signal."""
    queue_dag(schedd, dag)
    if removed:
        schedd.remove_dag(dag.token, reason="a test")
    else:
        schedd.finish_dag(dag.token, exit_code=exit_code)


def a_dag(root: Path, *, groups: int = 3, **values: Any) -> DAG:
    round_ = make_round(make_workflow())
    for _ in range(groups):
        make_group(round_)
    directory = root / f"dag{DAG.objects.count()}"
    directory.mkdir()
    return make_dag(round_, submit_dir=str(directory), nodes_done=0, **values)


def write_status(dag: DAG, *, done: int, total: int = 3, text: str = "") -> None:
    states = {f"mg_{n:06d}": 5 if n < done else 3 for n in range(total)}
    Path(f"{dag.dag_file_path}.status").write_text(text or status_text(states))


def write_group(dag: DAG, index: int, states: list[int], *, site: str = "") -> None:
    """Write the files of a group's DAGMan: landing, jobs, merge and cleanup in these states, and the site."""
    directory = Path(dag.submit_dir) / f"mg_{index:06d}"
    directory.mkdir()
    (directory / "group.dag.status").write_text(status_text({f"n{n}": one for n, one in enumerate(states)}))
    if site:
        (directory / "elected_site.inc").write_text(f"elected_site = {site}\n")


def status_text(states: dict[str, int]) -> str:
    """Return a node status file as DAGMan writes it."""
    now, seen = int(timezone.now().timestamp()) + 1, list(states.values())
    head = {
        "Timestamp": now, "DagStatus": 3, "NodesTotal": len(seen), "NodesDone": seen.count(5), "NodesPre": 0,
        "NodesQueued": seen.count(3), "NodesPost": 0, "NodesReady": 0, "NodesUnready": 0,
        "NodesFailed": seen.count(6), "NodesFutile": seen.count(7),
    }  # fmt: skip
    lines = [f"  {key} = {value};\n" for key, value in head.items()]
    records = [
        f'[\n  Type = "NodeStatus";\n  Node = "{node}";\n  NodeStatus = {state};\n]\n'
        for node, state in states.items()
    ]
    end = f'[\n  Type = "StatusEnd";\n  EndTime = {now};\n  NextUpdate = {now + 15};\n]\n'
    return f'[\n  Type = "DagStatus";\n{"".join(lines)}]\n{"".join(records)}{end}'


def counts_of(dag: DAG) -> list[tuple[int, int, str]]:
    rows = dag.round.groups.order_by("index").values_list("nodes_done", "nodes_failed", "site")
    return list(rows)


def test_finished_groups_and_counts_are_stored(tmp_path: Path, fake_schedd: FakeSchedd) -> None:
    dag = a_dag(tmp_path)
    queue_dag(fake_schedd, dag, {"mg_000002": {"DAG_JobsRunning": 2, "DAG_JobsHeld": 1}})
    write_status(dag, done=2)
    assert monitoring.observe_dags(now=timezone.now()).news == {dag.workflow_id}
    dag.refresh_from_db()
    assert (dag.nodes_done, dag.nodes_running, dag.nodes_held) == (2 * (4 + 3), 2, 1)
    states = list(dag.round.groups.order_by("index").values_list("status", flat=True))
    assert states == [GroupStatus.DONE, GroupStatus.DONE, GroupStatus.PLANNED]


def test_stored_state_is_not_a_change_for_another_process(tmp_path: Path, fake_schedd: FakeSchedd) -> None:
    dag = a_dag(tmp_path)
    queue_dag(fake_schedd, dag)
    write_status(dag, done=2)
    monitoring.observe_dags(now=timezone.now())
    assert monitoring.observe_dags(now=timezone.now()).news == set()
    monitoring._known.clear()  # the cache of a process
    assert monitoring.observe_dags(now=timezone.now()).news == set()


def test_a_collected_group_stays_collected(tmp_path: Path, fake_schedd: FakeSchedd) -> None:
    dag = a_dag(tmp_path)
    queue_dag(fake_schedd, dag)
    dag.round.groups.filter(index=0).update(status=GroupStatus.COLLECTED)
    write_status(dag, done=1)
    assert monitoring.observe_dags(now=timezone.now()).news == set()
    assert dag.round.groups.get(index=0).status == GroupStatus.COLLECTED


def test_an_unreadable_status_file_hides_no_other_dag(tmp_path: Path, fake_schedd: FakeSchedd) -> None:
    bad, good = a_dag(tmp_path), a_dag(tmp_path)
    for dag in (bad, good):
        queue_dag(fake_schedd, dag)
    write_status(good, done=1)
    write_status(bad, done=1, text='[\n  Type = "StatusEnd";\n  EndTime = 1;\n]\n')
    assert monitoring.observe_dags(now=timezone.now()).news == {good.workflow_id}


def test_a_directory_that_cannot_be_read_hides_no_other_dag(tmp_path: Path, fake_schedd: FakeSchedd) -> None:
    looked_at, ended, good = a_dag(tmp_path), a_dag(tmp_path), a_dag(tmp_path)
    for dag in (looked_at, good):
        queue_dag(fake_schedd, dag)
    end(fake_schedd, ended)
    Path(f"{looked_at.dag_file_path}.status").mkdir()
    Path(ended.submit_dir).rmdir()
    write_status(good, done=1)
    seen = monitoring.observe_dags(now=timezone.now())
    assert seen.news == {good.workflow_id}
    assert seen.unreadable.keys() == {looked_at.workflow_id, ended.workflow_id}
    assert ended.submit_dir in seen.unreadable[ended.workflow_id]
    ended.refresh_from_db()
    assert ended.status == DAGStatus.RUNNING, "a disk that is away proves nothing"


def test_a_dag_that_is_given_up_ends_without_its_directory(tmp_path: Path, fake_schedd: FakeSchedd) -> None:
    dag = a_dag(tmp_path, stop_requested_at=timezone.now())
    end(fake_schedd, dag, removed=True)
    Path(dag.submit_dir).rmdir()
    assert monitoring.observe_dags(now=timezone.now()).news == {dag.workflow_id}


@pytest.mark.parametrize(
    ("removed", "exit_code", "status"),
    [
        (True, None, DAGStatus.STOPPED),
        (False, None, DAGStatus.STOPPED),  # killed by a signal: its exit code is not known
        (False, 1, DAGStatus.FAILED),
    ],
)
def test_a_dag_that_ended_by_itself_was_not_stopped(
    tmp_path: Path, fake_schedd: FakeSchedd, removed: bool, exit_code: int | None, status: DAGStatus
) -> None:
    dag = a_dag(tmp_path, stop_requested_at=timezone.now())
    end(fake_schedd, dag, exit_code=exit_code, removed=removed)
    monitoring.observe_dags(now=timezone.now())
    dag.refresh_from_db()
    assert dag.status == status


def test_a_held_dagman_is_a_halted_dag(tmp_path: Path, fake_schedd: FakeSchedd) -> None:
    dag = a_dag(tmp_path)
    queue_dag(fake_schedd, dag, JobStatus=JobStatus.HELD)
    assert monitoring.observe_dags(now=timezone.now()).news == {dag.workflow_id}
    dag.refresh_from_db()
    assert dag.status == DAGStatus.HALTED
    assert dag.events.get().to_status == DAGStatus.HALTED


def test_a_schedd_without_readable_limits_hides_no_dag(tmp_path: Path, fake_schedd: FakeSchedd) -> None:
    dag = a_dag(tmp_path, schedd_name="a@pool")
    queue_dag(fake_schedd, dag)
    write_status(dag, done=1)
    fake_schedd.silence("limits")
    seen = monitoring.observe_dags(now=timezone.now())
    assert (seen.news, seen.unknown) == ({dag.workflow_id}, set())
    assert not is_silent("a@pool")


def test_a_silent_history_hides_no_dag_of_the_queue(tmp_path: Path, fake_schedd: FakeSchedd) -> None:
    gone, running, also_gone = (a_dag(tmp_path, schedd_name="busy") for _ in range(3))
    queue_dag(fake_schedd, running)
    write_status(running, done=2)
    fake_schedd.silence(HISTORY)

    seen = monitoring.observe_dags(now=timezone.now())

    assert seen.news == {running.workflow_id}
    assert seen.unknown == {gone.workflow_id, also_gone.workflow_id}
    assert running.round.groups.filter(status=GroupStatus.DONE).count() == 2
    assert not is_silent("busy")
    assert len(fake_schedd.called(HISTORY)) == 1, "each query of a silent history costs a timeout"
    assert set(DAG.objects.values_list("status", flat=True)) == {DAGStatus.RUNNING}


def test_a_silent_history_proves_no_dag_vanished(tmp_path: Path, fake_schedd: FakeSchedd) -> None:
    long_ago = timezone.now() - timedelta(days=2)
    dag = a_dag(tmp_path, submitted_at=long_ago, observed_at=long_ago)
    fake_schedd.silence(HISTORY)

    assert monitoring.observe_dags(now=timezone.now()).unknown == {dag.workflow_id}
    dag.refresh_from_db()
    assert dag.status == DAGStatus.RUNNING


def test_the_ending_that_dagman_left_on_disk_needs_no_history(
    tmp_path: Path, fake_schedd: FakeSchedd
) -> None:
    long_ago = timezone.now() - timedelta(days=2)
    dag = a_dag(tmp_path, submitted_at=long_ago, observed_at=long_ago)
    numbers = ("nodes_succeeded", "dag_nodes_succeeded", "nodes_failed", "dag_nodes_failed", "start_time")
    metrics = dict.fromkeys([*numbers, "end_time", "total_nodes", "rescue_dag_number"], 0)
    metrics |= {"metrics_version": 2, "version": 25, "exitcode": 1, "DagStatus": 2}
    Path(f"{dag.dag_file_path}.metrics").write_text(json.dumps(metrics))
    fake_schedd.silence(HISTORY)

    seen = monitoring.observe_dags(now=timezone.now())

    assert (seen.news, seen.unknown) == ({dag.workflow_id}, set())
    dag.refresh_from_db()
    assert (dag.status, dag.exit_code) == (DAGStatus.FAILED, 1)


def test_history_is_searched_back_to_when_the_dag_was_last_seen(
    tmp_path: Path, fake_schedd: FakeSchedd
) -> None:
    now = timezone.now()
    a_dag(tmp_path, submitted_at=now - timedelta(days=9), observed_at=now - timedelta(minutes=1))

    monitoring.observe_dags(now=now)

    (search,) = fake_schedd.called(HISTORY)
    assert search["not_before"] == (now - timedelta(minutes=1)).timestamp()


def test_dags_without_news_cost_no_statement_each(tmp_path: Path, fake_schedd: FakeSchedd) -> None:
    def statements() -> int:
        with CaptureQueriesContext(
            connection,
        ) as asked:
            monitoring.observe_dags(now=timezone.now())
        return len(asked)

    queue_dag(fake_schedd, a_dag(tmp_path, nodes_running=0))
    monitoring.observe_dags(now=timezone.now())
    one = statements()
    for _ in range(5):
        queue_dag(fake_schedd, a_dag(tmp_path, nodes_running=0))
    monitoring.observe_dags(now=timezone.now())
    assert statements() == one


def test_nodes_done_and_failed_in_running_groups_are_stored(tmp_path: Path, fake_schedd: FakeSchedd) -> None:
    dag = a_dag(tmp_path)
    write_status(dag, done=1)
    # the first group left since the query
    queue_dag(fake_schedd, dag, {"mg_000000": counts(7, 0), "mg_000001": counts(3, 1)})
    monitoring.observe_dags(now=timezone.now())
    assert counts_of(dag) == [(0, 0, ""), (3, 1, ""), (0, 0, "")]

    fake_schedd.forget_dag(dag.token)
    queue_dag(fake_schedd, dag, {"mg_000001": counts(4, 1), "mg_000002": counts(1, 0)})
    monitoring.observe_dags(now=timezone.now())
    assert counts_of(dag) == [(0, 0, ""), (4, 1, ""), (1, 0, "")]
    with CaptureQueriesContext(connection) as queries:
        monitoring.observe_dags(now=timezone.now())
    assert not [one for one in queries if "mergegroup" in one["sql"]], "what is stored is not written again"


def test_jobs_of_running_groups_are_stored_by_state(tmp_path: Path, fake_schedd: FakeSchedd) -> None:
    def jobs() -> list[tuple[int, ...]]:
        rows = dag.round.groups.order_by("index")
        return list(rows.values_list("nodes_done", "nodes_running", "nodes_idle", "nodes_held"))

    dag = a_dag(tmp_path)
    write_status(dag, done=0)
    queued = counts(2, 0) | {"DAG_JobsRunning": 3, "DAG_JobsIdle": 4, "DAG_JobsHeld": 1}
    queue_dag(fake_schedd, dag, {"mg_000001": queued})
    monitoring.observe_dags(now=timezone.now())
    assert jobs() == [(0, 0, 0, 0), (2, 3, 4, 1), (0, 0, 0, 0)]

    fake_schedd.forget_dag(dag.token)
    queue_dag(fake_schedd, dag, {})  # its DAGMan has left the queue
    monitoring.observe_dags(now=timezone.now())
    assert jobs() == [(0, 0, 0, 0), (2, 0, 0, 0), (0, 0, 0, 0)]


@pytest.mark.parametrize("stopped", [False, True])
def test_a_group_that_is_not_done_keeps_its_counts_and_its_site(
    tmp_path: Path, fake_schedd: FakeSchedd, *, stopped: bool
) -> None:
    dag = a_dag(tmp_path, stop_requested_at=timezone.now() if stopped else None)
    end(fake_schedd, dag, removed=stopped)
    write_group(dag, 0, [5, 5, 5, 6, 6, 7, 7], site="T2_CH_CERN")
    write_group(dag, 1, [6, 7, 7, 7, 7, 7, 7])
    monitoring.observe_dags(now=timezone.now())
    assert counts_of(dag) == [(3, 2, "T2_CH_CERN"), (0, 1, ""), (0, 0, "")]
