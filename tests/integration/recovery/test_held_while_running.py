"""A request is held for its outputs while its jobs run: they continue, and no finished work is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from dags_app.models import DAG, FailureCluster
from dags_app.states import DAGStatus, FileState, GroupStatus, RoundStatus
from outputs_app.models import OutputBlock, OutputFile
from requests_app.lifecycle import handlers
from requests_app.lifecycle.advance import advance
from requests_app.lifecycle.monitoring import collect_held
from requests_app.lifecycle.outcome import Wait
from requests_app.models import Request
from requests_app.services.releasing import release_request
from requests_app.services.rescuing import rescue_dag
from requests_app.states import RequestStatus as S
from sites_app.models import SiteBan
from tests.integration.recovery.factories import CERN, Round

pytestmark = pytest.mark.django_db
SAID = "DBS writer: POST bulkblocks answered 503"


@pytest.fixture
def held(planned: Callable[..., Round], settings: Any) -> Round:
    """Return a request with three groups in the queue, held because a block of the first kept failing."""
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
    return release_request(request=row, actor="user:olga", reason="DBS is fixed", now=timezone.now())


def test_the_service_is_quoted_and_the_jobs_go_on(held: Round) -> None:
    request = Request.objects.get(pk=held.request.pk)
    assert request.hold_evidence is not None
    assert request.hold_evidence["service_says"] == SAID
    assert held.dag.status == DAGStatus.RUNNING
    assert held.dag.stop_requested_at is None


def test_groups_finished_meanwhile_are_collected_and_the_release_finds_the_same_dag(held: Round) -> None:
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


def test_groups_finished_after_the_release_are_collected_before_the_request_continues(held: Round) -> None:
    release(held)
    held.merge(1)
    collect_held({held.workflow.pk}, now=timezone.now())
    assert (status(held), held.groups[1].status) == (S.QUEUED, GroupStatus.COLLECTED)


def test_an_uncollectable_group_stops_no_other_request(held: Round) -> None:
    held.merge(1)
    taken = json.loads((held.directory(1) / "merge_output.json").read_text())["outputs"][0]["lfn"]
    OutputFile.objects.update(lfn=taken)  # by another group: no two may have written the same file
    collect_held({held.workflow.pk}, now=timezone.now())  # the watcher continues with the others
    assert held.groups[1].status == GroupStatus.DONE


def go_on(round_: Round) -> str:
    """Advance the released request; return it as the lifecycle leaves it."""
    request = round_.move(S.PLANNING)
    assert handlers.on_planning(request, timezone.now()).to == S.ACTIVE  # type: ignore[union-attr]
    round_.move(S.ACTIVE)
    for _ in range(2):
        advance(round_.request.pk)
    return status(round_)


def end_partial(round_: Round, *failed: int) -> None:
    for group in round_.groups:
        if group.index in failed:
            round_.fail(group.index)
        elif group.index:
            round_.merge(group.index)
    round_.end()


def test_failures_of_a_dag_that_ended_meanwhile_are_judged_after_the_release(held: Round) -> None:
    end_partial(held, 1, 2)
    release(held)
    assert go_on(held) == S.HELD, "two of three groups are too many"
    request = Request.objects.get(pk=held.request.pk)
    assert request.hold_evidence is not None
    assert request.hold_evidence["failure_ratio"] == 0.6667
    assert [(one.site, one.jobs) for one in FailureCluster.objects.all()] == [(CERN, 4)]
    assert [ban.site_id for ban in SiteBan.objects.filter(workflow=held.workflow)] == [CERN]


def test_few_failures_of_such_a_dag_are_rescued(held: Round, settings: Any) -> None:
    settings.ERROR_HOLD_THRESHOLD = 0.5
    end_partial(held, 1)
    release(held)
    assert go_on(held) == S.RESUBMITTING
    assert held.dag.round.status == RoundStatus.PLANNED


def test_failures_that_were_judged_are_not_judged_again_at_the_release(held: Round) -> None:
    end_partial(held, 1, 2)
    release(held)
    assert go_on(held) == S.HELD
    release(held)
    assert held.dag.round.status == RoundStatus.RESOLVED


def test_such_failures_are_shown_while_the_request_is_held(held: Round, viewer: APIClient) -> None:
    end_partial(held, 1)
    body = viewer.get(f"/api/v1/requests/{held.request.request_name}/errors").json()
    assert [(one["site"], one["jobs"]) for one in body["running"]] == [(CERN, 2)]


def test_a_rescue_by_hand_learns_the_failures_first(held: Round) -> None:
    end_partial(held, 1, 2)
    rescue_dag(dag=held.dag, actor="user:olga", reason="try again")
    assert FailureCluster.objects.filter(workflow=held.workflow).exists()


def test_a_dag_that_ended_meanwhile_loses_nothing_at_the_release(held: Round) -> None:
    held.merge(1)
    held.merge(2)
    held.end(DAGStatus.COMPLETED)
    release(held)
    assert {group.status for group in held.groups} == {GroupStatus.COLLECTED}
    assert OutputFile.objects.filter(group__round__workflow=held.workflow).count() == 3
    assert set(held.workflow.input_files.values_list("state", flat=True)) == {FileState.PROCESSED}
