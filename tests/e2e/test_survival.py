"""Processes are killed while they work: exactly one DAG, all outputs, nothing lost."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter

import requests
from django.db import connection

from dags_app.models import DAG
from outputs_app.models import OutputBlock
from tests.e2e.conftest import Stack
from tests.pool import clusters, dagman_pid, queued, schedd_pid


def wait_until_restarted(stack: Stack, service: str, old: int) -> None:
    end = time.monotonic() + 600
    while stack.pid_of(service) in (0, old):
        assert time.monotonic() < end, f"{service} was not restarted"
        time.sleep(0.2)


def until_it_answers(stack: Stack) -> None:
    end = time.monotonic() + 600
    while True:
        try:
            if stack.api.get(f"{stack.url}/api/v1/status", timeout=5).status_code == 200:
                return
        except requests.RequestException:
            pass
        assert time.monotonic() < end, "the API does not come back"
        time.sleep(0.3)


def kill(stack: Stack, service: str) -> None:
    """Kill the service by SIGKILL, and wait until the supervisor has restarted it."""
    pid = stack.pid_of(service)
    os.kill(pid, signal.SIGKILL)
    wait_until_restarted(stack, service, pid)
    connection.close()  # ours may have led to the PostgreSQL that was killed
    until_it_answers(stack)


def test_anything_may_be_killed_at_any_moment(stack: Stack, suffix: str) -> None:
    toy = {"cpu_sec_per_event": 0.002, "output_kb_per_event": 0.0625, "wait_sec_per_event": 1.0}
    document = stack.seed(suffix)[2] | {"PayloadConfig": {"toy": toy}}
    name = stack.post("requests", document)["request_name"]
    stack.wait_for(name, "planning", "active")
    kill(stack, "worker-core")
    stack.wait_for(name, "active")
    for service in ("worker-io", "beat", "redis", "web", "postgres"):
        kill(stack, service)
    dag = DAG.objects.get(workflow__request_name=name)
    os.kill(dagman_pid(dag.submit_dir), signal.SIGKILL)
    os.kill(schedd_pid(), signal.SIGKILL)
    done = stack.wait_for(name, "completed")
    assert DAG.objects.get(workflow__request_name=name).pk == dag.pk
    assert len(clusters(dag.token)) == 1
    assert done["progress"]["events_done"] == done["progress"]["events_total"] > 0
    blocks = OutputBlock.objects.filter(dataset__workflow__request_name=name)
    assert {block.status for block in blocks} == {"announced"}
    written = Counter(merged.lfn for block in blocks for merged in block.files.all())
    assert max(written.values()) == 1


def test_an_aborted_request_leaves_no_job_in_the_queue(stack: Stack, suffix: str) -> None:
    urgent = stack.seed(suffix)[2]
    name = stack.post("requests", urgent)["request_name"]
    stack.wait_for(name, "active")
    answer = stack.api.delete(
        f"{stack.url}/api/v1/requests/{name}", json={"reason": "not needed any more"}, timeout=30
    )
    assert answer.status_code == 200, answer.text
    token = DAG.objects.get(workflow__request_name=name).token
    end = time.monotonic() + 600
    while queued(token):
        assert time.monotonic() < end, "jobs are still in the queue"
        time.sleep(0.5)
    assert stack.status_changes(name)[-1]["reason"] == "not needed any more"
