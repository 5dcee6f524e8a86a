"""Control by operators on the real pool: hold, release, remove, rescue, stop, abort, restart."""

from __future__ import annotations

import os
import signal
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from dags_app.models import DAG, InputFile
from lab.seed.documents import copy_of
from outputs_app.models import OutputDataset
from requests_app.models import Alert, Request
from tests.e2e.conftest import Stack
from tests.e2e.steering import SLOW, assert_every_event_once, newest, open_alerts, slow
from tests.e2e.test_outputs import assert_taken_back
from tests.pool import dagman_pid, queued, schedd
from tests.waiting import another_session_waits, until


def test_a_nested_dag_is_held_released_edited_stopped_by_force_and_removed(stack: Stack, suffix: str) -> None:
    name = stack.post("requests", slow(stack.seed(suffix)[2]))["request_name"]
    dag = running_dag(stack, name)

    held = stack.post(f"dags/{dag.pk}/hold", {"reason": "a look inside"}, expect=200)
    assert (held["outer"], held["groups_running"]) == ("held", 0)
    assert held["dagmans"] == 1 + held["groups_held"] > 1
    again = stack.post(f"dags/{dag.pk}/hold", {"reason": "twice"}, expect=200)
    assert (again["dagmans"], again["groups_held"]) == (0, held["groups_held"])
    until(lambda: newest(name).status == "halted", why="the hold was not seen")
    released = stack.post(f"dags/{dag.pk}/release", {"reason": "seen enough"}, expect=200)
    assert (released["dagmans"], released["groups_held"]) == (held["dagmans"], 0)
    until(lambda: newest(name).status == "running", why="the release was not seen")

    assert_nodes_and_logs(stack, dag)
    assert_priority_reaches_the_queue(stack, name, dag)
    assert_removal_leaves_nothing_and_is_recorded(stack, name, dag)
    stack.post(f"requests/{name}/release", {"reason": "plan the rest anew"}, expect=200)
    assert_stuck_stop_is_alerted_and_repeated(stack, name, running_dag(stack, name))
    stack.post(f"requests/{name}/release", {"reason": "go on"}, expect=200)
    resumed = running_dag(stack, name)
    assert_removal_leaves_nothing_and_is_recorded(stack, name, resumed)
    rescue = stack.post(f"dags/{resumed.pk}/rescue", {"reason": "a slip of the hand"})

    stack.wait_for(name, "completed")
    dags = DAG.objects.filter(workflow__request_name=name).order_by("created_at")
    assert [(one.kind, one.round.number, one.status) for one in dags] == [
        ("first", 0, "removed"), ("first", 1, "stopped"),
        ("resume", 1, "removed"), ("rescue", 1, "completed"),
    ]  # fmt: skip
    assert str(dags[3].pk) == rescue["id"]
    assert_every_event_once(stack, name)


def running_dag(stack: Stack, name: str) -> DAG:
    """Wait for running jobs; return the request's DAG."""
    stack.wait_for(name, "active")
    dag: DAG = until(lambda: newest(name) if newest(name).nodes_running else None, why="nothing runs")
    return dag


def assert_removal_leaves_nothing_and_is_recorded(stack: Stack, name: str, dag: DAG) -> None:
    inner = f'JobBatchName == "{dag.token}" && JobUniverse == 7'
    dagmans = len(schedd(dag.schedd_name).query(inner, ["ClusterId"]))
    removed = stack.post(f"dags/{dag.pk}/remove", {"reason": "wrong release"}, expect=200)
    assert 1 < removed["dagmans"] <= dagmans
    assert (removed["outer"] in ("removed", "gone"), removed["groups_running"]) == (True, 0)
    assert str(removed["dagmans"]) in removed["message"]
    held = stack.wait_for(name, "held")
    assert queued(dag.token) == 0
    assert held["hold_evidence"]["reason"] == "the DAG was removed from the queue: wrong release"
    assert held["hold_evidence"]["dag"] == str(dag.pk)
    again = stack.post(f"dags/{dag.pk}/remove", {"reason": "twice"}, expect=409)
    assert "removed" in again["detail"]


def assert_nodes_and_logs(stack: Stack, dag: DAG) -> None:
    nodes, cursor = [], "0.0"
    while cursor is not None:
        page = stack.get(f"dags/{dag.pk}/nodes?page_size=7&cursor={cursor}")
        nodes += page["results"]
        cursor = page["next"]
    jobs = sum(group.jobs + 3 for group in dag.round.groups.all())
    assert len({(one["group"], one["node"]) for one in nodes}) == len(nodes) == jobs
    done = f"dags/{dag.pk}/nodes?role=landing&status=done"
    landed = until(lambda: stack.get(done)["results"], why="no group has landed")
    assert all(one["site"] and one["as_of"] for one in landed)
    logs = stack.get(f"dags/{dag.pk}/logs?tail=5")
    assert len(logs["tails"]["dagman_out"].splitlines()) == 5
    inner = stack.get(f"dags/{dag.pk}/logs?group={landed[0]['group']}")
    assert "DAG Node" in inner["tails"]["nodes_log"]


def assert_priority_reaches_the_queue(stack: Stack, name: str, dag: DAG) -> None:
    answer = stack.api.patch(
        f"{stack.url}/api/v1/requests/{name}",
        json={"reason": "conference", "priority": 4321},
        headers={"X-Request-Id": f"edit-{name[-20:]}"},
        timeout=30,
    )
    assert answer.status_code == 200, answer.text
    mine = f'JobBatchName == "{dag.token}"'

    def priorities() -> set[int]:
        return {int(ad["JobPrio"]) for ad in schedd(dag.schedd_name).query(mine, ["JobPrio"])}

    until(lambda: priorities() == {4321}, why=f"the queue has {priorities()}")
    edited = dag.events.filter(event_type="edited", detail__call_id=f"edit-{name[-20:]}")
    until(edited.exists, why="the edit does not name the call behind it")


def assert_stuck_stop_is_alerted_and_repeated(stack: Stack, name: str, dag: DAG) -> None:
    """Freeze the outer DAGMan past the deadline of the stop, then kill it; check alert and repetition."""
    frozen = until(lambda: dagman_pid(dag.submit_dir))
    os.kill(frozen, signal.SIGSTOP)
    try:
        stack.post(f"requests/{name}/stop", {"reason": "maintenance", "hold": True}, expect=200)
        Request.objects.filter(request_name=name).update(status_since=timezone.now() - timedelta(hours=2))
        until(lambda: open_alerts(name) == ["stop_overdue"], why="no alert was raised")
        again = Alert.objects.filter(request__request_name=name, kind="stop_overdue")
        until(lambda: again.get().count > 2, why="the removal was not issued again")
        assert stack.get(f"requests/{name}")["status"] == "stopping"
    finally:
        os.kill(frozen, signal.SIGKILL)
    held = stack.wait_for(name, "held")
    assert held["hold_evidence"]["stop_reason"] == "maintenance"
    assert not queued(dag.token)
    assert not open_alerts(name)


def test_a_stop_of_the_pilot_and_one_while_planning_repeat_nothing(stack: Stack, suffix: str) -> None:
    toy = SLOW | {"wait_sec_per_event": 0.1}
    document = slow(stack.seed(suffix)[2], Urgent=False, PayloadConfig={"toy": toy})
    name = stack.post("requests", document)["request_name"]
    stack.wait_for(name, "pilot_running")
    pilot = until(lambda: pilot_job_runs(name), why="the pilot does not run")
    stack.post(f"requests/{name}/stop", {"reason": "a look at the pilot"}, expect=200)
    until(lambda: not queued(pilot.token), why="the pilot is still in the queue")

    with transaction.atomic():
        # Planning needs these rows for its round: it waits here, and the stop is requested meanwhile.
        left = InputFile.objects.filter(workflow=pilot.workflow_id, state="fresh")
        assert len(left.select_for_update()) > 1
        until(another_session_waits, why="no worker plans")
        assert stack.get(f"requests/{name}")["status"] == "planning"
        stack.post(f"requests/{name}/stop", {"reason": "not yet", "hold": True}, expect=200)
        assert newest(name).round.kind == "pilot"
    stack.wait_for(name, "held")
    assert queued(newest(name).token) == 0
    stack.post(f"requests/{name}/release", {"reason": "now"}, expect=200)
    stack.wait_for(name, "completed")

    reasons = [row["reason"] for row in stack.status_changes(name)]
    assert sum(reason.startswith("pilot measured") for reason in reasons) == 1
    statuses = [row["to_status"] for row in stack.status_changes(name)]
    assert statuses[2:] == [
        "pilot_running", "stopping", "resubmitting", "queued", "pilot_running", "planning", "stopping",
        "held", "queued", "planning", "active", "completed",
    ]  # fmt: skip
    dags = DAG.objects.filter(workflow__request_name=name).order_by("created_at")
    assert [(one.kind, one.round.kind, one.status) for one in dags] == [
        ("first", "pilot", "stopped"), ("resume", "pilot", "completed"),
        ("first", "production", "stopped"), ("resume", "production", "completed"),
    ]  # fmt: skip
    assert_every_event_once(stack, name)


def pilot_job_runs(name: str) -> DAG | None:
    """Wait until the pilot's only processing job runs; return its DAG."""
    dag = DAG.objects.filter(workflow__request_name=name, schedd_name__gt="").first()
    if dag is None:
        return None
    job = f'JobBatchName == "{dag.token}" && CMS_NodeRole == "processing" && JobStatus == 2'
    return dag if schedd(dag.schedd_name).query(job, ["ClusterId"]) else None


def test_restarts_replace_outputs_by_policy_and_an_abort_in_planning_leaves_nothing(
    stack: Stack, suffix: str
) -> None:
    urgent = stack.seed(suffix)[2]
    first = stack.post("requests", urgent)["request_name"]
    doomed = stack.post("requests", copy_of(urgent, "doomed"))["request_name"]
    stack.wait_for(doomed, "planning", "active")
    stack.post(f"requests/{doomed}/abort", {"reason": "wrong dataset"}, expect=200)
    stack.wait_for(first, "completed")

    second = stack.post(f"requests/{first}/restart", {"reason": "bad calibration"})["current"]["request_name"]
    assert datasets(first) == {"active"}
    stack.wait_for(second, "completed")
    until(lambda: datasets(first) == {"superseded"})
    body = {"reason": "again", "cleanup_policy": "immediate_cleanup"}
    third = stack.post(f"requests/{second}/restart", body)
    name = third["current"]["request_name"]
    assert third["output_datasets"] == [urgent["OutputDatasets"][0].replace("-v1/", "-v3/")]
    stack.wait_for(name, "completed")
    until(lambda: datasets(second) == {"invalidated"})
    assert_taken_back(stack, second)
    assert (datasets(first), datasets(name)) == ({"superseded"}, {"active"})
    history = stack.get(f"requests/{first}/versions")
    assert history["current"]["processing_version"] == 3
    assert [row["processing_version"] for row in history["versions"]] == [2, 1]

    left = DAG.objects.filter(workflow__request_name=doomed)
    until(lambda: all(dag.status == "stopped" for dag in left.all()), why="the aborted DAG lives on")
    assert sum(queued(dag.token) for dag in left) == 0


def datasets(name: str) -> set[str]:
    rows = OutputDataset.objects.filter(workflow__request_name=name)
    return set(rows.values_list("status", flat=True))
