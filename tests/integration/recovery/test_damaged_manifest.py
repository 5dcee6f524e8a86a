"""A group that is done and whose manifest cannot be used is discarded and run again, never waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from dags_app.models import DAGEvent, MergeGroup
from dags_app.services import manifests, production
from dags_app.states import DAGStatus, FileState, GroupStatus, RoundStatus
from requests_app.lifecycle import gates
from requests_app.lifecycle.snapshot import Snapshot
from requests_app.models import Request
from requests_app.states import RequestStatus as S
from sites_app.selectors import usable_sites
from tests.integration.recovery.factories import CERN, Round

pytestmark = pytest.mark.django_db
Planned = Callable[..., Round]


def release(client: APIClient, round_: Round, **body: Any) -> Any:
    path = f"/api/v1/requests/{round_.request.request_name}/release"
    return client.post(path, {"reason": "seen"} | body)


@pytest.fixture
def damaged(planned: Planned) -> Round:
    """Return a held round of three finished groups, of which the second has a truncated manifest."""
    round_ = planned([[CERN]] * 6)
    for group in round_.groups:
        round_.merge(group.index)
    (round_.directory(1) / "merge_output.json").write_text('{"schema": 1, "wor')
    round_.end(DAGStatus.COMPLETED)
    round_.move(S.HELD)
    return round_


def test_the_preview_counts_a_damaged_manifest_as_work_to_repeat(damaged: Round, operator: APIClient) -> None:
    seen = release(operator, damaged, dry_run=True).json()["preview"]
    assert (seen["groups_credited"], seen["groups_to_rerun"], seen["groups_discarded"]) == (2, 1, 1)
    assert {group.status for group in damaged.groups} == {GroupStatus.DONE}, "nothing was written"


def test_a_release_discards_the_group_and_its_files_are_planned_again(
    damaged: Round, operator: APIClient
) -> None:
    first, lost = damaged.dag, damaged.lfns_of(1)
    assert release(operator, damaged).status_code == 200
    groups = list(first.round.groups.order_by("index"))
    assert [one.status for one in groups] == [
        GroupStatus.COLLECTED, GroupStatus.FAILED, GroupStatus.COLLECTED,
    ]  # fmt: skip
    assert groups[1].last_error.startswith("discarded: mg_000001: merge_output.json: not a JSON document")
    assert {damaged.file(lfn).state for lfn in lost} == {FileState.ATTEMPTED}
    (event,) = DAGEvent.objects.filter(dag=first, event_type="discarded")
    (detail,) = event.detail["groups"]
    assert detail["group"] == "mg_000001"
    assert [lfn.startswith("/store/data/") for lfn in detail["merged_files"]] == [True]
    pool = usable_sites(workflow=damaged.workflow, now=timezone.now())
    dag = production.plan_round(workflow=damaged.workflow, sites=pool, priority=0)
    assert sorted(damaged.lfns_of(0)) == sorted(lost)
    assert dag.round.number == 1


def test_the_request_is_not_kept_from_its_end(damaged: Round, operator: APIClient) -> None:
    release(operator, damaged)
    request = Request.objects.get(pk=damaged.request.pk)
    assert not gates.stage_out(Snapshot(request, timezone.now())).blocks


def test_a_stopped_round_with_a_damaged_manifest_is_planned_anew(
    planned: Planned, operator: APIClient
) -> None:
    """DAGMan counts the group as done, so that a resume would not run it again."""
    round_ = planned([[CERN]] * 6)
    round_.merge(0)
    (round_.directory(0) / "merge_output.json").write_text("")
    round_.end(DAGStatus.STOPPED)
    round_.move(S.HELD)
    seen = release(operator, round_, dry_run=True).json()["preview"]
    assert (seen["resumes"], seen["groups_to_rerun"], seen["groups_discarded"]) == (False, 3, 1)
    assert release(operator, round_).status_code == 200
    assert (round_.dag.status, round_.dag.round.status) == (DAGStatus.STOPPED, RoundStatus.RESOLVED)
    assert not MergeGroup.objects.filter(status=GroupStatus.DONE).exists()


def test_a_manifest_that_cannot_be_read_now_discards_nothing(
    damaged: Round, operator: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unavailable disk is not evidence about the group."""

    def away(path: Any) -> Any:
        raise manifests.ManifestUnreadable(f"{path.name}: cannot be read: Input/output error")

    monkeypatch.setattr(manifests, "read_group_manifest", away)
    answer = release(operator, damaged)
    assert (answer.status_code, "Input/output error" in answer.json()["detail"]) == (503, True)
    assert Request.objects.get(pk=damaged.request.pk).status == S.HELD
    assert {group.status for group in damaged.groups} == {GroupStatus.DONE}
