"""Schedds over REST: listed, drained with a deadline, enabled; unknown ones refused."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from dags_app.models import Schedd
from tests.integration.factories import make_dag, make_request, make_round
from wms2_project.models import AuditEvent

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _two(settings: Any) -> None:
    settings.SCHEDDS = ["one@pool", "two@pool"]


def test_all_schedds_are_listed_also_one_that_left_the_settings(viewer: APIClient) -> None:
    make_dag(make_round(make_request().workflow), schedd_name="two@pool")
    rows = viewer.get("/api/v1/schedds").json()["results"]
    assert [(row["name"], row["status"], row["live_dags"]) for row in rows] == [
        ("one@pool", "enabled", 0),
        ("two@pool", "enabled", 1),
    ]


def test_a_drain_has_a_reason_and_may_have_a_deadline(operator: APIClient) -> None:
    body = {"reason": "kernel update", "deadline_minutes": 30}
    answer = operator.post("/api/v1/schedds/one@pool/drain", body)
    assert answer.status_code == 200, answer.json()
    assert (answer.json()["status"], answer["ETag"]) == ("draining", '"1"')
    left = datetime.fromisoformat(answer.json()["drain_deadline"]) - timezone.now()
    assert timedelta(minutes=29) < left <= timedelta(minutes=30)
    enabled = operator.post("/api/v1/schedds/one@pool/enable", {"reason": "done"}).json()
    assert (enabled["status"], enabled["drain_deadline"], enabled["version"]) == ("enabled", None, 2)
    events = AuditEvent.objects.filter(target="one@pool").order_by("id")
    assert list(events.values_list("action", "actor", "target")) == [
        ("draining", "user:olga", "one@pool"),
        ("enabled", "user:olga", "one@pool"),
    ]


def test_only_a_silent_schedd_is_fenced(operator: APIClient) -> None:
    refused = operator.post("/api/v1/schedds/one@pool/fence", {"reason": "its host burnt"})
    assert (refused.status_code, "not known to be silent" in refused.json()["detail"]) == (409, True)
    Schedd.objects.filter(name="one@pool").update(silent_since=timezone.now())
    answer = operator.post("/api/v1/schedds/one@pool/fence", {"reason": "its host burnt"})
    assert (answer.status_code, answer.json()["status"]) == (200, "fenced")
    event = AuditEvent.objects.get(target="one@pool")
    assert (event.action, event.actor, event.reason) == ("fenced", "user:olga", "its host burnt")


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("three@pool/drain", {"reason": "r"}, 404),
        ("one@pool/drain", {}, 422),
        ("one@pool/drain", {"reason": "r", "deadline_minutes": -1}, 422),
        ("one@pool/enable", {"reason": ""}, 422),
        ("three@pool/fence", {"reason": "r"}, 404),
        ("one@pool/fence", {}, 422),
    ],
)
def test_impossible_operations_are_refused_with_the_reason(
    operator: APIClient, path: str, body: Any, status: int
) -> None:
    assert operator.post(f"/api/v1/schedds/{path}", body).status_code == status
    assert not AuditEvent.objects.filter(target="one@pool").exists()
