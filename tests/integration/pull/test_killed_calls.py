"""The web process is killed between commit and answer: the repeated call returns the same answer."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.db import connections

from dags_app.models import InputFile, Runner, RunnerOutput, Workflow
from dags_app.pull.ending import expire_runners
from dags_app.states import UploadState
from outputs_app.models import OutputFile
from requests_app.states import RequestStatus
from tests.integration.factories import ago, make_claim, make_request
from tests.integration.pull.factories import CERN, make_pull_workflow
from tests.integration.pull.jobs import Job, output

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def job(sites: list[str], settings: Any) -> Job:
    settings.CHECK_OUTPUTS = False
    workflow = make_pull_workflow(places=[[CERN]] * 3)
    make_claim(workflow, workflow.output_datasets[0])
    make_request(workflow=workflow, status=RequestStatus.ACTIVE)
    return Job(workflow)


def killed_at(point: str, call: Callable[[], Any]) -> None:
    """Make the call in a child process that is killed at this point, with a connection of its own."""
    connections.close_all()
    child = os.fork()
    if child == 0:
        os.environ |= {"WMS2_LAB": "1", "WMS2_FAILPOINT": point}
        try:
            call()
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def counts(workflow: Workflow) -> tuple[int, int, int, int]:
    """Return the numbers that a repeated call must not change: runners, lent and processed files, outputs."""
    files = InputFile.objects.filter(workflow=workflow)
    return (
        Runner.objects.filter(workflow=workflow).count(),
        files.filter(state="assigned").count(),
        files.filter(state="processed").count(),
        OutputFile.objects.filter(block__dataset__workflow=workflow).count(),
    )


def expire(job: Job) -> None:
    silent(job)
    assert [str(runner.pk) for runner in expire_runners()] == [job.started["runner"]]


def silent(job: Job) -> None:
    """Let the lease of the job's runner end."""
    Runner.objects.filter(pk=job.started["runner"]).update(heartbeat_at=ago(hours=1))


def test_every_call_survives_a_killed_web_process(job: Job) -> None:
    workflow = job.workflow
    killed_at("runner.started", job.start)
    job.start()
    assert counts(workflow) == (1, 0, 0, 0)
    call = str(uuid4())
    killed_at("runner.allocated", lambda: job.allocate(2, call=call))
    files = job.allocate(2, call=call)
    assert (len(files), counts(workflow)) == (2, (1, 2, 0, 0))
    body = ([file["lfn"] for file in files], [output("a.root")])
    killed_at("runner.recorded", lambda: job.record(*body))
    recorded = job.record(*body)
    uploaded = job.upload(recorded, CERN)
    killed_at("runner.confirmed", lambda: job.confirm(uploaded))
    assert job.confirm(uploaded) == {"outcome": "processed"}
    assert counts(workflow) == (1, 0, 2, 1)


def test_an_abort_survives_a_killed_web_process(job: Job) -> None:
    job.start()
    job.allocate(2)
    killed_at("runner.aborted", job.abort)
    assert job.abort() == {"outcome": "failed"}
    assert set(job.workflow.input_files.values_list("state", "attempts")) == {("attempted", 1), ("fresh", 0)}


def test_a_heartbeat_survives_the_death_of_the_web_process(job: Job) -> None:
    job.start()
    recorded = job.record([file["lfn"] for file in job.allocate(1)], [output("a.root")])
    expire(job)
    after = Job(job.workflow, node="proc_000001")
    after.start()
    beat = {"removed": [one["lfn"] for one in recorded["outputs"]]}
    silent(after)
    killed_at("runner.heartbeat", lambda: after.call("heartbeat", beat))
    assert expire_runners() == []
    assert RunnerOutput.objects.get().state == UploadState.REMOVED
    assert after.call("heartbeat", beat) == {"state": "running"}
    assert counts(job.workflow) == (2, 0, 0, 0)
