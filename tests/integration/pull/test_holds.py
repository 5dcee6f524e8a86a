"""Holds and waits of pull requests, and completion without catalogued output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from dags_app.models import DAG, RunnerOutput, Workflow
from dags_app.states import DAGStatus, FileState, RunnerOutcome
from requests_app.lifecycle import handlers
from requests_app.lifecycle.outcome import Move, Outcome, Wait
from requests_app.models import Request
from requests_app.services.runners.calls import note_end
from requests_app.states import RequestStatus as S
from sites_app.models import Site
from sites_app.services.bans import ban_site
from tests.integration.factories import ago, make_request
from tests.integration.pull.factories import CERN, FNAL, make_pull_workflow, make_runner, open_round
from tests.integration.pull.jobs import Job, output
from tests.stand_in import OwnFilesDbs

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _adapters(fake_schedd: Any, adapt: Callable[..., None]) -> None:
    adapt(dbs=OwnFilesDbs(), rucio=NoReplicas())


class NoReplicas:
    """A Rucio that has no file."""

    def replicas(self, names: list[str]) -> dict[str, list[str]]:
        return {name: [] for name in names}


def handled(workflow: Workflow, status: S) -> Outcome:
    Request.objects.filter(workflow=workflow).update(status=status)
    request = Request.objects.select_related("workflow").get(workflow=workflow)
    return handlers.HANDLERS[status](request, timezone.now())


def made(places: list[list[str]], **values: Any) -> Workflow:
    workflow = make_pull_workflow(places=places, input_resolved_at=timezone.now(), **values)
    make_request(workflow=workflow, status=S.ACTIVE)
    return workflow


def end_dag(workflow: Workflow, status: DAGStatus = DAGStatus.COMPLETED) -> None:
    DAG.objects.filter(workflow=workflow).update(status=status, completed_at=timezone.now())


def hold_reason(outcome: Outcome) -> str:
    assert isinstance(outcome, Move)
    assert outcome.to is S.HELD
    return outcome.reason


def ban(site: str, workflow: Workflow) -> None:
    found = Site.objects.get(pk=site)
    ban_site(site=found, workflow=workflow, reason="broken", actor="user:ana", now=timezone.now())


def test_a_request_whose_files_are_at_a_banned_site_only_is_held(sites: list[str]) -> None:
    workflow = made([[FNAL]] * 12)
    end_dag(workflow)
    ban(FNAL, workflow)
    reason = hold_reason(handled(workflow, S.QUEUED))
    assert f"12 files are at {FNAL} only, and {FNAL} is banned" in reason


def test_a_request_without_a_site_within_its_distance_is_held(sites: list[str]) -> None:
    workflow = made([[FNAL]], site_whitelist=[CERN])
    end_dag(workflow)
    reason = hold_reason(handled(workflow, S.QUEUED))
    assert reason.startswith("no usable site may read a file within the distance 0: 1 file is at")


def test_a_larger_distance_lets_another_site_read_the_files(sites: list[str]) -> None:
    workflow = made([[FNAL]], site_whitelist=[CERN], max_distance=100)
    end_dag(workflow)
    outcome = handled(workflow, S.QUEUED)
    assert isinstance(outcome, Move)
    assert outcome.to is S.PLANNING


def test_files_without_a_replica_are_looked_up_again_and_do_not_block(sites: list[str]) -> None:
    workflow = made([[]] * 2, located_at=ago(days=1))
    end_dag(workflow)
    outcome = handled(workflow, S.QUEUED)
    assert isinstance(outcome, Wait)
    assert "2 files are at no storage" in outcome.why
    workflow.refresh_from_db()
    assert workflow.located_at is not None
    assert workflow.located_at > ago(minutes=10)


def test_too_many_failed_runners_hold_the_request_at_once_and_stop_lending(sites: list[str]) -> None:
    workflow = made([[CERN]] * 3)
    job = Job(workflow)
    job.start()
    job.allocate()
    for number in range(20):
        outcome = RunnerOutcome.FAILED if number < 4 else RunnerOutcome.PROCESSED
        make_runner(workflow, state="ended", outcome=outcome, ended_at=timezone.now())
    note_end(round_=open_round(workflow), workflow=workflow)
    assert "4 of 20 runners failed" in hold_reason(handled(workflow, S.ACTIVE))
    job.allocate(expect=410)
    Job(workflow, node="proc_000001").start(expect=410)


def test_nineteen_failed_runners_do_not_hold_the_request(sites: list[str]) -> None:
    workflow = made([[CERN]])
    for _ in range(19):
        make_runner(workflow, state="ended", outcome=RunnerOutcome.FAILED, ended_at=timezone.now())
    assert note_end(round_=open_round(workflow), workflow=workflow) == ""


def test_a_released_request_continues_after_its_runners_failed(sites: list[str]) -> None:
    workflow = made([[CERN]])
    for _ in range(20):
        make_runner(workflow, state="ended", outcome=RunnerOutcome.FAILED, ended_at=timezone.now(),
                    files_lent=1)  # fmt: skip
    note_end(round_=open_round(workflow), workflow=workflow)
    hold_reason(handled(workflow, S.ACTIVE))
    request = Request.objects.get(workflow=workflow)
    request.transitions.create(
        from_status=S.HELD, to_status=S.QUEUED, reason="go on", actor="user:ana", at=timezone.now()
    )
    end_dag(workflow)
    assert handled(workflow, S.ACTIVE) == Move(S.QUEUED, "next round: 1 files are not processed yet")


def test_files_tried_as_often_as_allowed_hold_the_request_by_name(sites: list[str]) -> None:
    workflow = made([[CERN]] * 2)
    end_dag(workflow)
    workflow.rounds.update(status="resolved", resolved_at=timezone.now())
    workflow.input_files.update(state=FileState.ATTEMPTED, attempts=6)
    first = workflow.input_files.order_by("lfn").values_list("lfn", flat=True)[0]
    reason = hold_reason(handled(workflow, S.PLANNING))
    assert reason == f"2 files failed in every round, the first is {first}"


def test_a_request_whose_outputs_are_all_scratch_completes(sites: list[str], settings: Any) -> None:
    settings.JOBS_URL = "https://wms2"
    workflow = made([[CERN]], payload_config={"outputs": [{"pattern": "*.log", "scratch": True}]})
    job = Job(workflow)
    job.start()
    (file,) = job.allocate()
    recorded = job.record([file["lfn"]], [output("a.log", events=None)])
    job.confirm(job.upload(recorded, CERN))
    end_dag(workflow)
    assert handled(workflow, S.ACTIVE) == Move(
        S.COMPLETED, "every file is processed; all outputs are on scratch storage"
    )


def test_unconfirmed_uploads_are_named_at_the_end(sites: list[str]) -> None:
    workflow = made([[CERN]], payload_config={"outputs": [{"pattern": "*.log", "scratch": True}]})
    lost = make_runner(workflow, node="proc_000009", state="ended", outcome="lost", ended_at=timezone.now())
    RunnerOutput.objects.create(
        runner=lost,
        name="a.log",
        pattern=1,
        lfn="/store/a.log",
        size_bytes=1,
        adler32="00000001",
        state="void",
    )
    done = {"state": FileState.PROCESSED, "round": open_round(workflow), "first_group": 0, "last_group": 0}
    workflow.input_files.update(**done)
    end_dag(workflow)
    outcome = handled(workflow, S.ACTIVE)
    assert isinstance(outcome, Move)
    assert outcome.to is S.COMPLETED
    assert "1 upload not confirmed and possibly still on storage" in outcome.reason
