"""A worker is killed in mid-flight: exactly one DAG, all outputs, nothing forgotten."""

from __future__ import annotations

import os
import signal
import time

import htcondor2

from dags_app.models import DAG
from outputs_app.models import OutputBlock
from tests.e2e.conftest import Stack


def dagmans_with(token: str) -> int:
    """How often the token was ever submitted: in the queue now, or in history."""
    schedd = htcondor2.Schedd()
    outer = f'JobBatchName == "{token}" && DAGManJobId is undefined && JobUniverse == 7'
    return len(schedd.query(outer, ["ClusterId"])) + len(list(schedd.history(outer, ["ClusterId"])))


def wait_until_restarted(stack: Stack, service: str, old: int) -> None:
    end = time.monotonic() + 60
    while stack.pid_of(service) in (0, old):
        assert time.monotonic() < end, f"{service} was not restarted"
        time.sleep(0.2)


def test_killed_workers_cost_seconds_and_nothing_else(stack: Stack, suffix: str) -> None:
    urgent = stack.seed(suffix)[2]
    name = stack.post("requests", urgent)["request_name"]
    for service, status in (("worker-core", "planning"), ("worker-io", "active")):
        stack.wait_for(name, status, "active", "completed")
        pid = stack.pid_of(service)
        os.kill(pid, signal.SIGKILL)
        wait_until_restarted(stack, service, pid)
    done = stack.wait_for(name, "completed", timeout=180)
    dag = DAG.objects.get(workflow__request_name=name)
    assert dagmans_with(dag.token) == 1
    assert done["progress"]["events_done"] == done["progress"]["events_total"] > 0
    blocks = OutputBlock.objects.filter(dataset__workflow__request_name=name)
    assert {block.status for block in blocks} == {"announced"}


def test_an_aborted_request_leaves_no_job_in_the_queue(stack: Stack, suffix: str) -> None:
    urgent = stack.seed(suffix)[2]
    name = stack.post("requests", urgent)["request_name"]
    stack.wait_for(name, "active")
    answer = stack.api.delete(
        f"{stack.url}/api/v1/requests/{name}", json={"reason": "not needed any more"}, timeout=30
    )
    assert answer.status_code == 200, answer.text
    token = DAG.objects.get(workflow__request_name=name).token
    end = time.monotonic() + 30
    while htcondor2.Schedd().query(f'JobBatchName == "{token}"', ["ClusterId"]):
        assert time.monotonic() < end, "jobs are still in the queue"
        time.sleep(0.5)
    assert stack.timeline(name)[-1]["reason"] == "not needed any more"


def test_a_stopped_request_resumes_and_loses_nothing(stack: Stack, suffix: str) -> None:
    urgent = stack.seed(suffix)[2]
    name = stack.post("requests", urgent)["request_name"]
    stack.wait_for(name, "active")
    stack.post(f"requests/{name}/stop", {"reason": "maintenance"}, expect=200)
    done = stack.wait_for(name, "completed", timeout=240)
    statuses = [row["to_status"] for row in stack.timeline(name)]
    assert statuses[3:] == ["active", "stopping", "resubmitting", "queued", "planning", "active", "completed"]
    first, second = DAG.objects.filter(workflow__request_name=name).order_by("created_at")
    assert (first.status, second.kind, second.parent_id) == ("stopped", "resume", first.pk)
    assert done["progress"]["events_done"] == done["progress"]["events_total"]
