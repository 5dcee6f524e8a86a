"""Gates: what each blocks on; the lifecycle stops there with its text and continues when it opens."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from condor.fake import FakeSchedd
from dags_app.adapters import build_config_cache, build_dbs
from dags_app.models import Round, Workflow
from dags_app.states import DAGStatus, FileState, GroupStatus
from outputs_app.reconciliation import Comparison
from outputs_app.states import BlockStatus
from requests_app.lifecycle import gates
from requests_app.lifecycle.advance import advance
from requests_app.lifecycle.snapshot import Snapshot
from requests_app.models import Request
from requests_app.states import TERMINAL, RequestStatus
from tests.integration.factories import (
    ago,
    make_dag,
    make_file,
    make_group,
    make_request,
    make_round,
    make_site,
    make_workflow,
)
from tests.integration.lifecycle.situations import (
    CASES,
    HOLDING,
    TRIED,
    Case,
    failing,
    large,
    limit,
    nowhere,
    on_silent_schedd,
    paused,
    queued_behind,
    resolved,
    with_block,
)
from tests.stand_in import FromSettings
from wms2_project.leases import wake

pytestmark = pytest.mark.django_db
S = RequestStatus


@pytest.fixture(autouse=True)
def _without_dbs(settings: Any, adapt: Callable[..., None]) -> None:
    settings.CMS_SERVICES = settings.CMS_SERVICES | {"dbs_url": "", "config_cache_url": ""}
    settings.ERROR_BACKOFF_BASE_SEC = 60.0  # a cool-off that is not over before a busy machine has looked
    adapt(dbs=FromSettings(build_dbs), config_cache=FromSettings(build_config_cache))


def blocking(viewer: APIClient, row: Request) -> list[dict[str, Any]]:
    answer = viewer.get(f"/api/v1/requests/{row.request_name}/why")
    assert answer.status_code == 200, answer.content
    body = [gate for gate in answer.json()["gates"] if gate["verdict"] == "block"]
    assert not body or body[0]["detail"] in answer.json()["summary"]
    return body


def step(row: Request) -> str:
    """Advance the request once; return the reason of its wait."""
    advance(row.pk)
    row.refresh_from_db()
    return row.last_error if row.status == S.HELD else row.wait_reason


@pytest.fixture
def catalogues_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate announced outputs that agree with DBS and Rucio, without calls."""
    monkeypatch.setattr("outputs_app.services.compare_outputs", lambda **given: Comparison(differences=[]))
    monkeypatch.setattr("outputs_app.services.announce_datasets", lambda **given: None)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.gate}: {case.words}")
def test_the_lifecycle_stops_at_the_gate_that_why_shows_and_continues_when_it_opens(
    viewer: APIClient, case: Case, settings: Any, catalogues_agree: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SCHEDDS, settings.MIN_FREE_BYTES, settings.TOKEN_ISSUER = ["a@pool"], 0, ""
    disk = os.statvfs("/")
    monkeypatch.setattr(
        "dags_app.services.disk_space.os.statvfs", lambda path: disk
    )  # others write meanwhile
    make_site()
    row = case.situation()
    row.refresh_from_db()
    before = row.status
    (gate,) = [one for one in blocking(viewer, row) if one["name"] == case.gate]
    assert (gate["remedy"] != "", gate["since"] is not None) == (True, True)

    reason = step(row)
    assert row.status == ("held" if case.gate in HOLDING else before)
    assert case.words in reason
    assert reason == blocking(viewer, row)[0]["detail"]
    if case.gate not in TRIED:
        assert reason == gate["detail"]

    case.open(row)
    result = step(row)
    closed = blocking(viewer, row)
    assert case.gate not in [one["name"] for one in closed]
    assert (row.status, closed[0]["name"] if result else "") == case.then
    assert result == (closed[0]["detail"] if result else "")


def test_no_gate_is_left_out() -> None:
    look = Snapshot(resolved(S.QUEUED), timezone.now())
    asked = [ask for status, asks in gates.ASKED.items() if status not in TERMINAL for ask in asks]
    assert {ask(look).name for ask in asked} == {one.gate for one in CASES}


def test_a_message_delivered_late_does_not_end_a_cool_off_but_a_wake_does() -> None:
    row = failing()
    step(row)
    assert row.attempt == 1
    wake(Request.objects.filter(pk=row.pk))
    step(row)
    assert row.attempt == 2


@pytest.mark.parametrize("status", [S.ACTIVE, S.STOPPING])
def test_a_silent_schedd_is_not_called(status: RequestStatus, fake_schedd: FakeSchedd) -> None:
    row = on_silent_schedd()
    Request.objects.update(status=status)
    Workflow.objects.update(version=7)  # an edit that the jobs have not seen
    assert "a@pool does not answer" in step(row)
    assert (row.status, row.attempt, fake_schedd.calls) == (status, 0, [])


def test_a_prepared_dag_has_its_sites(viewer: APIClient) -> None:
    row = resolved(S.QUEUED)  # and there is no site at all
    make_dag(make_round(row.workflow), status=DAGStatus.READY, submitted_at=None)
    assert blocking(viewer, row) == []


@pytest.mark.parametrize(("situation", "gate"), [(nowhere, "sites"), (large, "memory")])
def test_a_gate_that_opens_only_by_an_operator_holds_the_request(
    situation: Callable[[], Request], gate: str
) -> None:
    make_site()
    row = situation()
    advance(row.pk)
    row.refresh_from_db()
    assert (row.status, row.hold_evidence["gate"]) == ("held", gate)  # type: ignore[index]
    assert row.hold_evidence["remedy"]  # type: ignore[index]


@pytest.mark.parametrize("status", list(S))
def test_every_status_has_its_gates_and_an_answer(viewer: APIClient, status: RequestStatus) -> None:
    row = resolved(status)
    assert status in gates.ASKED
    body = viewer.get(f"/api/v1/requests/{row.request_name}/why").json()
    assert (body["status"], body["summary"] != "") == (status.value, True)


def test_excluded_input_is_named_when_nothing_is_waited_for_and_at_the_end(
    viewer: APIClient, catalogues_agree: None
) -> None:
    row, _ = with_block(BlockStatus.ANNOUNCED)
    held = {"round": row.workflow.rounds.get(), "first_group": 0, "last_group": 0}
    make_file(row.workflow, events=60, state=FileState.PROCESSED, lumis=[[1, 1, 6]], **held)
    lost = make_file(row.workflow, events=40, state=FileState.EXCLUDED, excluded_reason="it is corrupt",
                     lumis=[[1, 7, 10]])  # fmt: skip
    make_file(row.workflow, state=FileState.EXCLUDED, excluded_reason="beyond total_files", wanted=[],
              lumis=[[1, 11, 12]])  # fmt: skip
    gap = f"40 of 100 input events in 1 file are excluded, the first is {lost.lfn}: it is corrupt"

    step(row)
    assert row.status == S.COMPLETED
    assert row.transitions.latest("id").reason == f"50 events in 1 files, 1 blocks announced; {gap}"
    why = viewer.get(f"/api/v1/requests/{row.request_name}/why").json()
    assert (why["gaps"], gap in why["summary"]) == (gap, True)
    assert "Everything asked for" not in why["summary"] + why["status_why"]
    ledger = viewer.get(f"/api/v1/requests/{row.request_name}/ledger").json()
    assert ledger["missing"] == {"files": 1, "events": 40, "lumis": {"1": [[7, 10]]}}
    assert {"lfn": lost.lfn, "reason": "it is corrupt"} in ledger["excluded_files"]


def running_for(minutes: float, *, done: int) -> Request:
    """Return an active request of 400 events in four groups, of which `done` are finished in `minutes`."""
    workflow = make_workflow(input_dataset=None, total_events=400)
    row = make_request(status=S.ACTIVE, workflow=workflow)
    round_ = make_round(workflow)
    Round.objects.filter(pk=round_.pk).update(created_at=ago(minutes=minutes))
    for _ in range(done):
        make_group(
            round_, status=GroupStatus.COLLECTED, events_read=100, finished_at=ago(minutes=minutes / 2)
        )
    return row


def turn_of(viewer: APIClient, row: Request) -> tuple[dict[str, Any] | None, str]:
    body = viewer.get(f"/api/v1/requests/{row.request_name}/why").json()
    return body["turn"], body["summary"]


def likely_minutes(turn: dict[str, Any]) -> float:
    earliest, likely, latest = (datetime.fromisoformat(turn[key]) for key in ("earliest", "likely", "latest"))
    assert earliest < likely < latest
    return (likely - timezone.now()).total_seconds() / 60


def test_the_start_is_expected_when_enough_running_requests_will_have_ended(viewer: APIClient) -> None:
    make_site()
    limit(max_active_dags=2)
    running_for(30, done=3)  # the last quarter takes 10 minutes
    running_for(300, done=3)  # and here 100
    first, second, third = (resolved(S.QUEUED, priority=number) for number in (9, 8, 7))
    turn, summary = turn_of(viewer, first)
    assert turn is not None
    assert (turn["position"], turn["places_needed"], turn["estimated_from"]) == (1, 1, 2)
    assert likely_minutes(turn) == pytest.approx(10, abs=2)
    assert summary.startswith("admission 2/2, position 1, expected start in ")
    turn, _ = turn_of(viewer, second)
    assert turn is not None
    assert likely_minutes(turn) == pytest.approx(100, abs=5)
    assert turn_of(viewer, third) == (None, "admission 2/2, position 3, start time unknown")


def test_running_requests_that_show_no_pace_are_no_ground_for_an_estimate(viewer: APIClient) -> None:
    make_site()
    row = queued_behind()
    assert turn_of(viewer, row) == (None, "admission 1/1, position 1, start time unknown")


def test_while_admission_is_paused_no_start_is_expected(viewer: APIClient) -> None:
    make_site()
    running_for(30, done=3)
    turn, summary = turn_of(viewer, paused())
    assert (turn, summary) == (None, "admission is paused: power cut")
