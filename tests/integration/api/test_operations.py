"""Sites, admission, and the state of the whole system."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest
from django.db import OperationalError
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from cms.types import SiteInfo
from requests_app.models import AdmissionConfig
from requests_app.states import RequestStatus
from sites_app.models import Site, SiteBan
from sites_app.selectors import usable_sites
from sites_app.services.sites import sync_sites
from tests.integration.factories import make_dag, make_request, make_round, make_site, make_workflow
from wms2_project.console import address_of
from wms2_project.models import AuditEvent
from wms2_project.operations.rest import MESSAGE_HEADER, encode_message

pytestmark = pytest.mark.django_db


def test_sites_are_listed_by_name_and_filtered(viewer: APIClient) -> None:
    make_site("T2_US_MIT", status="draining")
    make_site("T1_US_FNAL")
    names = [row["name"] for row in viewer.get("/api/v1/sites").json()["results"]]
    assert names == ["T1_US_FNAL", "T2_US_MIT"]
    drained = viewer.get("/api/v1/sites?status=draining").json()["results"]
    assert [row["name"] for row in drained] == ["T2_US_MIT"]


def test_a_site_lists_the_bans_in_force(viewer: APIClient) -> None:
    site = make_site()
    now = timezone.now()
    ban = {"site": site, "created_by": "system:banning"}
    SiteBan.objects.create(reason="fails", expires_at=now + timedelta(days=7), **ban)
    SiteBan.objects.create(
        reason="fixed", expires_at=now + timedelta(days=7), removed_at=now, removed_by="user:olga", **ban
    )
    body = viewer.get("/api/v1/sites/T2_CH_CERN").json()
    assert [one["reason"] for one in body["bans"]] == ["fails"]


def test_a_site_is_drained_until_a_time_and_enabled_again(operator: APIClient) -> None:
    make_site()
    until = (timezone.now() + timedelta(hours=2)).isoformat()

    drained = operator.post("/api/v1/sites/T2_CH_CERN/drain", {"reason": "cooling", "until": until})
    assert drained.status_code == 200, drained.json()
    assert (drained.json()["status"], drained["ETag"]) == ("draining", '"1"')

    enabled = operator.post("/api/v1/sites/T2_CH_CERN/enable", {"reason": "cool again"})
    assert enabled.json()["status"] == "enabled"
    assert enabled.json()["drain_until"] is None


def test_an_operation_answers_with_its_result_as_a_sentence(operator: APIClient) -> None:
    make_site()
    answer = operator.post("/api/v1/sites/T2_CH_CERN/disable", {"reason": "fire"})
    assert answer[MESSAGE_HEADER] == "T2_CH_CERN takes no new work until it is enabled."


def test_a_message_of_any_characters_is_a_legal_header() -> None:
    sentence = f"100 % déjà vu – \r\nSet-Cookie: a=b {'long ' * 1000}"
    header = encode_message(sentence)
    assert header.startswith("100 %25 d%C3%A9j%C3%A0 vu %E2%80%93 %0D%0ASet-Cookie: a=b long ")
    assert header.isascii()
    assert header.isprintable()
    assert len(unquote(header)) == 1000


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "reason"),
        ({"reason": "r", "until": "2001-01-01T00:00:00Z"}, "until"),
        ({"reason": "r", "for": 1}, "for"),
    ],
)
def test_a_wrong_drain_changes_nothing(operator: APIClient, body: dict[str, Any], field: str) -> None:
    make_site()
    answer = operator.post("/api/v1/sites/T2_CH_CERN/drain", body)
    assert answer.status_code == 422
    assert set(answer.json()["errors"]) == {field}
    assert Site.objects.get().status == "enabled"


def test_an_unknown_site_is_not_found(operator: APIClient) -> None:
    assert operator.post("/api/v1/sites/T2_XX_Nowhere/enable", {"reason": "r"}).status_code == 404


def test_the_queue_shows_capacity_and_the_next_request(viewer: APIClient) -> None:
    make_request(status=RequestStatus.ACTIVE)
    make_request(status=RequestStatus.QUEUED, priority=100)
    first = make_request(status=RequestStatus.QUEUED, priority=900)

    body = viewer.get("/api/v1/admission/queue").json()

    assert (body["active_dags"], body["max_active_dags"], body["queued_workflows"]) == (1, 300, 2)
    assert body["next_in_queue"]["request_name"] == first.request_name
    assert body["next_in_queue"]["priority"] == 900
    assert body["next_in_queue"]["queued_since"]


def test_an_empty_queue_has_no_next(viewer: APIClient) -> None:
    assert viewer.get("/api/v1/admission/queue").json()["next_in_queue"] is None


def test_limits_are_changed_with_the_version_that_was_read(operator: APIClient) -> None:
    read = operator.get("/api/v1/admission/config")
    body = {"reason": "maintenance", "paused": True, "max_active_dags": 5}

    changed = operator.patch("/api/v1/admission/config", body, headers={"If-Match": read["ETag"]})
    stale = operator.patch("/api/v1/admission/config", body, headers={"If-Match": read["ETag"]})

    assert changed.status_code == 200, changed.json()
    assert changed.json()["pause_reason"] == "maintenance"
    assert changed.json()["updated_by"] == "user:olga"
    assert stale.status_code == 412
    assert AdmissionConfig.objects.get().max_active_dags == 5


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"max_active_dags": 3}, "reason"),
        ({"reason": "r"}, "body"),
        ({"reason": "r", "max_active_dags": -1}, "max_active_dags"),
        ({"reason": "r", "storage_critical_fraction": 2}, "storage_critical_fraction"),
        ({"reason": "r", "storage_critical_fraction": 10**400}, "storage_critical_fraction"),
        ({"reason": "r", "ageing_weight": -1.0}, "ageing_weight"),
        ({"reason": "r", "updated_by": "mallory"}, "updated_by"),
    ],
)
def test_wrong_limits_are_refused_by_field(operator: APIClient, body: dict[str, Any], field: str) -> None:
    answer = operator.patch("/api/v1/admission/config", body)
    assert answer.status_code == 422
    assert set(answer.json()["errors"]) == {field}


def test_the_status_counts_open_objects(viewer: APIClient) -> None:
    make_request(status=RequestStatus.COMPLETED)
    make_dag(make_round(make_request(status=RequestStatus.ACTIVE).workflow))
    make_site()
    body = viewer.get("/api/v1/status").json()
    assert body["requests"] == {"active": 1}
    assert body["dags"] == {"running": 1}
    assert body["sites"] == {"enabled": 1}
    assert body["admission"]["active_dags"] == 1


def test_the_lifecycle_status_counts_due_requests(viewer: APIClient) -> None:
    make_request(status=RequestStatus.QUEUED)
    make_request(status=RequestStatus.COMPLETED)  # ended requests are not counted
    body = viewer.get("/api/v1/lifecycle/status").json()
    assert body["due"] == 1
    assert body["by_status"] == {"queued": 1}


def test_the_process_is_alive_without_asking_anything(client: Client, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        answer = client.get("/api/v1/livez", headers={"Authorization": "Bearer wms2_unknown"})
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


def test_it_is_ready_when_database_and_schema_are(client: Client) -> None:
    answer = client.get("/api/v1/readyz")
    assert answer.status_code == 200
    parts = dict.fromkeys(("database", "migrations", "redis", "reqmgr2", "dbs", "rucio", "cric"), "ok")
    assert answer.json() == {"status": "ok", "parts": parts}


def test_without_redis_it_is_degraded_but_ready(client: Client, settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    answer = client.get("/api/v1/readyz")
    assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
    assert answer.json()["parts"]["redis"] == "down"


def test_without_the_database_it_is_not_ready_and_does_not_say_why(client: Client, monkeypatch: Any) -> None:
    def gone() -> None:
        raise OperationalError("host db-17.internal is down")

    monkeypatch.setattr("wms2_project.observation.health.connection.cursor", gone)
    answer = client.get("/api/v1/readyz")
    assert (answer.status_code, answer.json()["status"]) == (503, "down")
    assert answer.json()["parts"]["database"] == "down"
    assert "internal" not in answer.content.decode()


def test_an_unapplied_migration_makes_it_not_ready(client: Client, monkeypatch: Any) -> None:
    monkeypatch.setattr("wms2_project.observation.health._migrated", False)
    monkeypatch.setattr(
        "django.db.migrations.executor.MigrationExecutor.migration_plan", lambda *args: ["something"]
    )
    answer = client.get("/api/v1/readyz")
    assert (answer.status_code, answer.json()["parts"]["migrations"]) == (503, "down")


def test_a_measured_value_of_a_site_is_shown_and_can_be_removed(operator: APIClient) -> None:
    make_site("T2_CH_CERN", config_data={"note": "kept"})
    url, body = (
        "/api/v1/sites/T2_CH_CERN",
        {"reason": "robot", "storage_used_fraction": 0.97, "memory_mb_per_core": 2500},
    )
    result = operator.patch(url, body, headers={"If-Match": '"0"'})
    assert (result.status_code, result["ETag"]) == (200, '"1"'), result.content
    assert result.json()["config_data"] == {"note": "kept", "storage_used_fraction": 0.97}
    assert result.json()["thresholds"] == {"memory_mb_per_core": 2500}
    assert operator.patch(url, body, headers={"If-Match": '"0"'}).status_code == 412
    forgotten = operator.patch(url, {"reason": "r", "storage_used_fraction": None}).json()
    assert forgotten["config_data"] == {"note": "kept"}
    assert AuditEvent.objects.filter(target="T2_CH_CERN", action="change").count() == 2


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "body"),
        ({"storage_used_fraction": 2}, "storage_used_fraction"),
        ({"status": "enabled"}, "status"),
        ({"drain_until": "2031-01-01T00:00:00Z"}, "drain_until"),
        ({"storage_elements": []}, "storage_elements"),
        ({"storage_elements": ["no storage"]}, "storage_elements[0]"),
        ({"memory_mb_per_core": 0}, "memory_mb_per_core"),
        ({"total_slots": 11}, "total_slots"),
        ({"notes": "x" * 2001}, "notes"),
    ],
)
def test_an_invalid_value_of_a_site_is_refused(operator: APIClient, body: dict[str, Any], field: str) -> None:
    make_site("T2_CH_CERN")
    answer = operator.patch("/api/v1/sites/T2_CH_CERN", {"reason": "r"} | body)
    assert (answer.status_code, list(answer.json()["errors"])) == (422, [field])
    assert Site.objects.get().version == 0


def test_a_site_is_closed_for_maintenance_and_enabled_again(operator: APIClient) -> None:
    make_site("T2_CH_CERN")
    workflow = make_workflow()
    body = operator.patch("/api/v1/sites/T2_CH_CERN", {"reason": "new roof", "status": "maintenance"})
    assert (body.status_code, body.json()["status"]) == (200, "maintenance")
    assert not usable_sites(workflow=workflow, now=timezone.now()).names
    assert AuditEvent.objects.get(action="change").detail["previous"] == {"status": "enabled"}
    operator.post("/api/v1/sites/T2_CH_CERN/enable", {"reason": "done"})
    assert usable_sites(workflow=workflow, now=timezone.now()).names == {"T2_CH_CERN"}


def test_storages_that_an_operator_names_stand_over_crics_until_null(
    operator: APIClient, adapt: Callable[..., None]
) -> None:
    make_site("T2_CH_CERN")
    known = SiteInfo(name="T2_CH_CERN", rses=("T2_CH_CERN",))
    adapt(cric=SimpleNamespace(sites=lambda: [known]))
    url, mine = "/api/v1/sites/T2_CH_CERN", ["T2_CH_CERN_New", "T1_US_FNAL_Disk"]
    body = operator.patch(url, {"reason": "moved", "storage_elements": mine, "notes": "ask Ana"}).json()
    assert (body["storage_elements"], body["config_data"]["notes"]) == (mine, "ask Ana")
    sync_sites(now=timezone.now())
    assert Site.objects.get().storage_elements == mine
    operator.patch(url, {"reason": "back", "storage_elements": None})
    sync_sites(now=timezone.now())
    assert Site.objects.get().storage_elements == ["T2_CH_CERN"]


def test_the_console_configures_a_site(console: Any) -> None:
    site = make_site("T2_CH_CERN", config_data={"notes": "old"})
    answers = {
        "_confirmed": "1", "reason": "larger slots", "memory_mb_per_core": "3000", "notes": "old",
        "initial-notes": "old",
        "storage_elements": "T2_CH_CERN_New", "storage_used_fraction": "",
    }  # fmt: skip
    console.post(address_of("admin:sites_app_site_edit", site.pk), answers)
    site.refresh_from_db()
    assert (site.thresholds, site.storage_elements) == ({"memory_mb_per_core": 3000}, ["T2_CH_CERN_New"])
    changes = AuditEvent.objects.get(action="change").detail["changes"]
    assert set(changes) == {"memory_mb_per_core", "storage_elements"}
