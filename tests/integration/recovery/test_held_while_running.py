"""A request is held for its outputs while its jobs run: they go on, and nothing they finish is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from dags_app.models import DAG
from dags_app.states import DAGStatus, FileState, GroupStatus
from outputs_app.models import OutputBlock, OutputFile
from requests_app.lifecycle import handlers
from requests_app.lifecycle.advance import advance
from requests_app.lifecycle.outcome import Wait
from requests_app.lifecycle.watch import collect_held
from requests_app.models import Request
from requests_app.services.releasing import release_request
from requests_app.states import RequestStatus as S
from tests.integration.recovery.conftest import CERN, Round

pytestmark = pytest.mark.django_db
SAID = "DBS writer: POST bulkblocks answered 503"


@pytest.fixture
def held(planned: Callable[..., Round], settings: Any) -> Round:
    """Three groups in the queue; a block of the first keeps failing for longer than it may."""
    settings.OUTPUT_HOLD_AFTER_SEC = 600.0
    round_ = planned([[CERN]] * 6)
    DAG.objects.filter(pk=round_.dag.pk).update(
        status=DAGStatus.RUNNING, applied_version=round_.workflow.version, submitted_at=timezone.now()
    )
    round_.merge(0)
    advance(round_.request.pk)
    assert status(round_) == S.ACTIVE
    hour_ago = timezone.now() - timedelta(hours=1)
    OutputBlock.objects.update(failing_since=hour_ago, last_error=SAID)
    advance(round_.request.pk)
    assert status(round_) == S.HELD
    return round_


def status(round_: Round) -> str:
    return Request.objects.get(pk=round_.request.pk).status


def release(round_: Round) -> Request:
    row = Request.objects.select_related("workflow").get(pk=round_.request.pk)
    return release_request(request=row, actor="user:olga", reason="DBS is mended", now=timezone.now())


def test_the_service_is_quoted_and_the_jobs_go_on(held: Round) -> None:
    request = Request.objects.get(pk=held.request.pk)
    assert request.hold_evidence is not None
    assert request.hold_evidence["service_says"] == SAID
    assert held.dag.status == DAGStatus.RUNNING
    assert held.dag.stop_requested_at is None


def test_what_finishes_meanwhile_is_collected_and_the_release_finds_the_same_dag(held: Round) -> None:
    dag = held.dag
    held.merge(1)
    (held.directory(2) / "merge_output.json").write_text("{")
    dag.round.groups.filter(index=2).update(status=GroupStatus.DONE)
    collect_held({held.workflow.pk}, now=timezone.now())
    states = [group.status for group in held.groups]
    assert states == [GroupStatus.COLLECTED, GroupStatus.COLLECTED, GroupStatus.DONE]

    held.merge(2)
    release(held)
    request = held.move(S.PLANNING)
    assert handlers.on_planning(request, timezone.now()).to == S.ACTIVE  # type: ignore[union-attr]
    request = held.move(S.ACTIVE)
    assert isinstance(handlers.on_active(request, timezone.now()), Wait), "the whole time begins again"
    assert held.dag == dag
    assert {group.status for group in held.groups} == {GroupStatus.COLLECTED}


def test_what_finishes_after_the_release_is_collected_before_its_turn_comes(held: Round) -> None:
    release(held)
    held.merge(1)
    collect_held({held.workflow.pk}, now=timezone.now())
    assert (status(held), held.groups[1].status) == (S.QUEUED, GroupStatus.COLLECTED)


def test_what_cannot_be_collected_stops_no_other_request(held: Round) -> None:
    held.merge(1)
    taken = json.loads((held.directory(1) / "merge_output.json").read_text())["outputs"][0]["lfn"]
    OutputFile.objects.update(lfn=taken)  # by another group: no two may have written the same file
    collect_held({held.workflow.pk}, now=timezone.now())  # the one watcher goes on to the others
    assert held.groups[1].status == GroupStatus.DONE


def test_a_dag_that_ended_meanwhile_loses_nothing_at_the_release(held: Round) -> None:
    held.merge(1)
    held.merge(2)
    held.end(DAGStatus.COMPLETED)
    release(held)
    assert {group.status for group in held.groups} == {GroupStatus.COLLECTED}
    assert OutputFile.objects.filter(group__round__workflow=held.workflow).count() == 3
    assert set(held.workflow.input_files.values_list("state", flat=True)) == {FileState.PROCESSED}
