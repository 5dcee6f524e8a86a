"""Requests wait for a site that returns automatically; events that open a gate make waiting requests due."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from cms.types import SiteInfo
from dags_app.models import Schedd, Workflow
from dags_app.services.schedds import enable_schedd
from dags_app.states import DAGKind, DAGStatus, FileState
from requests_app import admission
from requests_app.lifecycle.advance import advance
from requests_app.lifecycle.snapshot import Snapshot
from requests_app.models import Request
from requests_app.states import RequestStatus as S
from sites_app.models import Site
from sites_app.services import site_settings
from sites_app.services.bans import ban_site, expire_bans, lift_bans
from sites_app.services.site_settings import change_site, measure_storage
from sites_app.services.sites import drain_site, enable_site, sync_sites
from tests.integration.factories import (
    ago,
    make_dag,
    make_file,
    make_request,
    make_round,
    make_site,
    make_workflow,
)

pytestmark = pytest.mark.django_db
NAME, OTHER = "T2_CH_CERN", "T2_US_Purdue"
WHO: dict[str, Any] = {"actor": "user:olga", "reason": "cooling"}


def drained(name: str = NAME, **until: float) -> Site:
    end = timezone.now() + timedelta(**until) if until else None
    return drain_site(site=make_site(name), until=end, **WHO)


def banned(name: str = NAME, *, workflow: Workflow | None = None, **until: float) -> Site:
    site, now = make_site(name), timezone.now()
    ban_site(site=site, workflow=workflow, now=now, until=now + timedelta(**until), **WHO)
    return site


def generates(status: S = S.QUEUED, **values: Any) -> Request:
    workflow = make_workflow(input_dataset=None, total_events=10, **values)
    return make_request(status=status, urgent=True, workflow=workflow)


def reads(storage: str, status: S = S.QUEUED) -> Request:
    workflow = make_workflow(input_resolved_at=ago(days=1), memory_mb=2000)
    make_file(workflow, locations=[storage])
    return make_request(status=status, urgent=True, workflow=workflow)


def step(row: Request) -> Request:
    advance(row.pk)
    row.refresh_from_db()
    return row


@pytest.mark.parametrize("away", [drained, banned])
def test_a_request_waits_for_its_only_site_until_the_end_of_its_drain(
    viewer: APIClient, away: Callable[..., Site]
) -> None:
    away(days=2)
    ends = timezone.now() + timedelta(days=2)
    row = step(generates(site_whitelist=[NAME]))
    assert (row.status, row.wait_gate) == ("queued", "sites")
    assert f"until {ends:%F}" in row.wait_reason
    assert NAME in row.wait_reason
    body = viewer.get(f"/api/v1/requests/{row.request_name}/why").json()
    (gate,) = [one for one in body["gates"] if one["verdict"] == "block"]
    assert (gate["name"], gate["opens_at"][:10], gate["remedy"] != "") == ("sites", f"{ends:%F}", True)
    assert gate["detail"] == body["summary"] == row.wait_reason


def test_a_ban_for_this_request_is_waited_for_too() -> None:
    row = generates()
    banned(days=2, workflow=row.workflow)
    assert (step(row).status, row.wait_gate) == ("queued", "sites")


def test_the_site_that_returns_first_is_named() -> None:
    drained(days=2)
    drained(OTHER, hours=5)
    assert OTHER in step(generates()).wait_reason


def test_the_request_is_due_when_the_drain_ends() -> None:
    drained(seconds=40)
    row = step(generates())
    assert row.next_check_at < timezone.now() + timedelta(seconds=200)
    Site.objects.update(drain_until=ago(seconds=1))
    assert step(row).status == "planning"


def test_a_distant_end_is_not_polled_for() -> None:
    drained(days=2)
    assert step(generates()).next_check_at > timezone.now() + timedelta(seconds=200)


def test_a_request_about_to_be_planned_waits_in_the_queue_and_takes_no_place() -> None:
    drained(days=2)
    row = step(generates(S.PLANNING))
    assert (row.status, row.transitions.latest("id").to_status) == ("queued", "queued")
    assert NAME in row.transitions.latest("id").reason
    assert step(row).wait_gate == "sites"


@pytest.mark.parametrize("status", [S.QUEUED, S.PLANNING])
def test_a_drain_without_an_end_holds_the_request(status: S) -> None:
    drained()
    assert step(generates(status)).status == "held"


def test_the_only_site_with_the_input_is_waited_for() -> None:
    make_site(OTHER)
    drained(days=2)
    row = step(reads(NAME))
    assert (row.status, row.wait_gate) == ("queued", "sites")
    assert "input" in row.wait_reason
    assert step(reads(OTHER)).status == "planning"


def test_files_that_a_usable_site_can_read_do_not_wait_for_others() -> None:
    make_site(OTHER)
    drained(days=2)
    row = reads(NAME)
    make_file(row.workflow, locations=[OTHER])
    assert step(row).status == "planning"


def test_the_site_that_first_brings_some_of_the_input_back_is_waited_for() -> None:
    make_site("T2_DE_DESY")
    drained(days=2)
    drained(OTHER, hours=5)
    row = reads(NAME)
    make_file(row.workflow, locations=[OTHER])
    make_file(row.workflow, locations=["T2_XX_Elsewhere"])
    assert OTHER in step(row).wait_reason


def test_input_that_no_returning_site_can_read_is_left_to_planning() -> None:
    make_site(OTHER)
    drained(days=2)
    assert step(reads("T2_XX_Elsewhere")).status == "planning"


@pytest.mark.parametrize("storage", [NAME, OTHER])
def test_a_prepared_rescue_waits_for_the_only_site_that_reads_its_files(storage: str) -> None:
    make_site(OTHER)
    drained(days=2)
    row = reads(storage, S.PLANNING)
    failed = make_dag(make_round(row.workflow), status=DAGStatus.FAILED)
    row.workflow.input_files.update(state=FileState.ASSIGNED, round=failed.round, first_group=0, last_group=0)
    make_file(row.workflow, locations=["T2_XX_Elsewhere"])  # it is fresh, and not part of this DAG
    make_dag(failed.round, status=DAGStatus.READY, parent=failed, submitted_at=None, kind=DAGKind.RESCUE)
    awaited = Snapshot(row, timezone.now()).awaited_site
    assert (awaited is not None) == (storage == NAME)
    if awaited is not None:
        assert (step(row).status, step(row).wait_gate) == ("queued", "sites")


def enable() -> None:
    enable_site(site=drained(days=2), **WHO)


def unban() -> None:
    lift_bans(site=banned(days=2), workflow=None, now=timezone.now(), **WHO)


def end_ban() -> None:
    banned(days=2)
    expire_bans(now=timezone.now() + timedelta(days=3))


def free_by_hand() -> None:
    change_site(site=make_site(), changes={"storage_used_fraction": 0.4}, **WHO)


def free_by_measuring() -> None:
    make_site(config_data={site_settings.MEASURED: 0.99})
    measure_storage()


def open_schedd() -> None:
    Schedd.objects.create(name="a@pool", status="draining")
    enable_schedd(name="a@pool", **WHO)


OPENED = [
    ("sites", enable),
    ("sites", unban),
    ("sites", end_ban),
    ("sites", lambda: sync_sites(now=timezone.now())),
    ("data", enable),
    ("data", unban),
    ("data", end_ban),
    ("data", lambda: sync_sites(now=timezone.now())),
    ("storage", free_by_hand),
    ("storage", free_by_measuring),
    ("storage", enable),
    ("storage", lambda: admission.change_limits(changes={"storage_critical_fraction": 0.99}, **WHO)),
    ("schedds", open_schedd),
]


@pytest.mark.parametrize(("gate", "opens"), OPENED)
def test_events_that_may_open_a_gate_make_its_waiting_requests_due(
    gate: str, opens: Callable[[], object], adapt: Callable[..., None], settings: Any
) -> None:
    settings.SCHEDDS = ["a@pool"]
    known = [SiteInfo(name=OTHER, rses=(OTHER,))]
    cric = SimpleNamespace(sites=lambda: known)
    rucio = SimpleNamespace(used_fraction=lambda rse: 0.4, storage_prefixes=lambda rse: ())
    adapt(cric=cric, rucio=rucio)
    later = timezone.now() + timedelta(hours=1)
    make_request(status=S.ACTIVE)
    admission.change_limits(changes={"max_active_dags": 1}, **WHO)
    waiting = make_request(status=S.QUEUED, wait_gate=gate, next_check_at=later)
    other = make_request(status=S.QUEUED, wait_gate="admission", next_check_at=later)
    held = make_request(status=S.HELD, wait_gate=gate, next_check_at=later)
    admission.wake_by_news()
    opens()
    admission.wake_by_news()
    for row in (waiting, other, held):
        row.refresh_from_db()
    assert [row.next_check_at < later for row in (waiting, other, held)] == [True, False, False]
    assert waiting.wait_gate == "", "it has its place in the line again until its gates are asked"


def test_a_measurement_that_changes_nothing_wakes_no_request(adapt: Callable[..., None]) -> None:
    adapt(rucio=SimpleNamespace(used_fraction=lambda rse: 0.99))
    make_site(config_data={site_settings.MEASURED: 0.99})
    later = timezone.now() + timedelta(hours=1)
    row = make_request(status=S.QUEUED, wait_gate="storage", next_check_at=later)
    measure_storage()
    assert admission.wake_by_news() == 0
    row.refresh_from_db()
    assert row.next_check_at == later
