"""Alerts over REST: listed, filtered, acknowledged once, and new when they recur."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from requests_app.api.alerts import AlertFilter
from requests_app.models import Alert, Request
from requests_app.services.alerts import close_alerts, open_alerts, raise_alert, raise_site_alerts
from requests_app.services.notifications import send_alerts
from tests.integration.admin.test_actions import press
from tests.integration.factories import ago, make_request
from wms2_project.models import AuditEvent

pytestmark = pytest.mark.django_db
URL = "/api/v1/alerts"


def raised(
    kind: str = "slow_dag", *, request: Request | None = None, message: str = "it takes long"
) -> Alert:
    request = request or make_request()
    raise_alert(request=request, kind=kind, message=message)
    return Alert.objects.filter(request=request, kind=kind).latest("id")


def listed(client: APIClient, **query: Any) -> list[int]:
    answer = client.get(URL, query)
    assert answer.status_code == 200, answer.content
    return [row["id"] for row in answer.json()["results"]]


def acknowledge(client: APIClient, alert: Alert, reason: str = "I am on it") -> Any:
    return client.post(f"{URL}/{alert.pk}/acknowledge", {"reason": reason})


def test_an_alert_is_shown_with_its_request_and_state(viewer: APIClient) -> None:
    alert = raised()
    (row,) = viewer.get(URL).json()["results"]
    assert {name: row[name] for name in ("id", "request_name", "kind", "message", "count", "state")} == {
        "id": alert.pk, "request_name": alert.request.request_name, "kind": "slow_dag",
        "message": "it takes long", "count": 1, "state": "open",
    }  # fmt: skip
    assert (row["acknowledged_at"], row["acknowledged_by"], row["closed_at"]) == (None, "", None)


def test_alerts_are_filtered_by_state_kind_request_and_time(viewer: APIClient, operator: APIClient) -> None:
    old, known, fresh = raised("stuck"), raised(), raised()
    close_alerts(request=old.request)
    acknowledge(operator, known)
    Alert.objects.filter(pk=old.pk).update(created_at=ago(days=2))
    assert listed(viewer) == [fresh.pk, known.pk, old.pk]
    assert listed(viewer, state="open") == [fresh.pk]
    assert listed(viewer, state="acknowledged") == [known.pk]
    assert listed(viewer, state=["closed", "acknowledged"]) == [known.pk, old.pk]
    assert listed(viewer, kind="stuck") == [old.pk]
    assert listed(viewer, request_name=known.request.request_name) == [known.pk]
    assert listed(viewer, created_before=ago(days=1).isoformat()) == [old.pk]
    assert listed(viewer, created_after=ago(days=1).isoformat(), ordering="created_at") == [
        known.pk, fresh.pk,
    ]  # fmt: skip
    assert viewer.get(URL, {"state": "asleep"}).status_code == 422


def test_an_alert_about_a_site_is_found_and_acknowledged(operator: APIClient) -> None:
    raised()
    raise_site_alerts(kind="full", messages={"T2_CH_CERN": "no room"})
    (row,) = operator.get(URL, {"site": "T2_CH_CERN"}).json()["results"]
    assert (row["site"], row["request_name"]) == ("T2_CH_CERN", None)
    assert acknowledge(operator, Alert.objects.get(pk=row["id"])).status_code == 200
    assert AuditEvent.objects.get(action="acknowledge").target == "T2_CH_CERN"


def test_an_acknowledged_alert_stays_open_and_names_the_user(operator: APIClient) -> None:
    alert = raised()
    answer = acknowledge(operator, alert)
    assert answer.status_code == 200, answer.content
    body = answer.json()
    assert (body["state"], body["acknowledged_by"]) == ("acknowledged", "user:olga")
    assert body["acknowledge_reason"] == "I am on it"
    raise_alert(request=alert.request, kind="slow_dag", message="it takes longer")
    alert.refresh_from_db()
    assert (alert.count, alert.acknowledged_by, alert.closed_at) == (2, "user:olga", None)
    (event,) = AuditEvent.objects.filter(action="acknowledge")
    assert (event.actor, event.target, event.reason) == (
        "user:olga", alert.request.request_name, "I am on it",
    )  # fmt: skip
    assert event.detail == {"alert": alert.pk, "kind": "slow_dag"}


def test_an_alert_that_recurs_after_its_end_is_new(operator: APIClient) -> None:
    alert = raised()
    acknowledge(operator, alert)
    close_alerts(request=alert.request)
    again = raised(request=alert.request)
    assert (again.pk != alert.pk, again.acknowledged_at) == (True, None)
    assert listed(operator, state="open") == [again.pk]


def test_acknowledging_again_changes_nothing_and_names_the_first_user(
    operator: APIClient, api_as: Any
) -> None:
    alert = raised()
    first = acknowledge(operator, alert).json()
    assert acknowledge(operator, alert, "once more").json() == first
    Alert.objects.update(acknowledged_by="user:bob")
    refused = acknowledge(operator, alert)
    assert (refused.status_code, "user:bob" in refused.json()["detail"]) == (409, True)
    assert AuditEvent.objects.filter(action="acknowledge").count() == 1


def test_closed_or_unknown_alerts_cannot_be_acknowledged(operator: APIClient) -> None:
    alert = raised()
    close_alerts(request=alert.request)
    assert acknowledge(operator, alert).status_code == 409
    for number in (0, alert.pk + 1, 10**30):
        assert operator.post(f"{URL}/{number}/acknowledge", {"reason": "r"}).status_code == 404
    assert operator.post(f"{URL}/{alert.pk}/acknowledge", {}).status_code == 422


def test_an_acknowledged_alert_is_not_notified_again(
    operator: APIClient, console: Client, settings: Any
) -> None:
    settings.ALERT_EMAIL_TO = ["shift@example.org"]
    acknowledge(operator, raised(message="known to an operator"))
    assert open_alerts() == {}
    assert send_alerts(now=timezone.now()) == 0
    assert "known to an operator" not in console.get("/admin/").content.decode()
    shown = console.get("/admin/requests_app/alert/").content.decode()
    assert ("known to an operator" in shown, "user:olga" in shown) == (True, True)


def test_the_console_acknowledges_by_the_same_service(console: Client) -> None:
    alert = raised()
    press(console, alert, "acknowledge", reason="seen")
    alert.refresh_from_db()
    assert (alert.acknowledged_by, alert.acknowledge_reason) == ("user:adam", "seen")
    page = console.get(f"/admin/requests_app/request/{alert.request_id}/change/").content.decode()
    assert "acknowledged by user:adam" in page


def test_a_request_shows_the_actor_who_acknowledged_its_alerts(
    viewer: APIClient, operator: APIClient
) -> None:
    alert = raised()
    acknowledge(operator, alert)
    (shown,) = viewer.get(f"/api/v1/requests/{alert.request.request_name}").json()["alerts"]
    assert (shown["id"], shown["acknowledged_by"]) == (alert.pk, "user:olga")


@pytest.mark.parametrize(
    "query", [{}, {"state": ["open"]}, {"state": ["acknowledged"]}, {"kind": "slow_dag"}, {"kind": "none"},
              {"state": ["open"], "kind": "none"}, {"site": "T2_CH_CERN"}]
)  # fmt: skip
def test_a_page_of_alerts_never_reads_them_all(query: dict[str, Any]) -> None:
    request = make_request()
    Alert.objects.bulk_create(
        Alert(request=request, kind=f"kind{number % 7}", message="m", closed_at=timezone.now())
        for number in range(3000)
    )
    raised(request=request)
    rows = AlertFilter(query, queryset=Alert.objects.order_by("-created_at", "-id")).qs[:50]
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE requests_app_alert; SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_sort = off; SET LOCAL enable_bitmapscan = off")
    plan = rows.explain(analyze=True)
    assert "Sort" not in plan, plan
    removed = [int(line.rpartition(":")[2]) for line in plan.splitlines() if "Rows Removed" in line]
    assert sum(removed) <= 10, plan
