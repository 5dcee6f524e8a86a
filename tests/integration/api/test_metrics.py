"""Statistics over a window: outcomes, durations, failures by kind, throughput."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from requests_app.models import Request, StatusTransition
from requests_app.states import RequestStatus
from tests.integration.factories import ago, make_request

pytestmark = pytest.mark.django_db
S = RequestStatus


def ended(status: RequestStatus, *, took: float, hours_ago: float = 1, campaign: str = "A") -> Request:
    row = make_request(status=status, campaign=campaign, status_since=ago(hours=hours_ago))
    Request.objects.filter(pk=row.pk).update(created_at=ago(hours=hours_ago + took))
    return row


def stopped(reason: str, **values: Any) -> None:
    row = make_request(status=S.ACTIVE, **values)
    StatusTransition.objects.create(
        request=row, from_status="active", to_status="held", reason=reason, actor="system:t", at=ago(hours=1)
    )


def test_campaign_metrics_have_success_durations_and_common_failures(viewer: APIClient) -> None:
    for took in (1, 2, 3, 4):
        ended(S.COMPLETED, took=took)
    ended(S.FAILED, took=9)
    ended(S.COMPLETED, took=1, campaign="B")
    ended(S.COMPLETED, took=1, hours_ago=24 * 8)  # before the window
    stopped("30 of 90 groups failed", campaign="A")

    first, second = viewer.get("/api/v1/metrics/workflows").json()["workflows"]

    assert (first["campaign"], first["total"], first["completed"], first["failed"]) == ("A", 5, 4, 1)
    assert first["success_rate"] == 0.8
    assert first["p50_duration_sec"] == pytest.approx(2.5 * 3600, rel=0.01)
    assert first["p95_duration_sec"] == pytest.approx(3.85 * 3600, rel=0.01)
    kinds = {one["pattern"]: one["status"] for one in first["common_failures"]}
    assert kinds == {"N of N groups failed": "held", "made for a test": "failed"}
    assert (second["campaign"], second["common_failures"]) == ("B", [])
    only = viewer.get("/api/v1/metrics/workflows?campaign=B&days=1").json()
    assert (only["days"], [one["campaign"] for one in only["workflows"]]) == (1, ["B"])


def test_failures_of_one_kind_are_counted_together(viewer: APIClient) -> None:
    stopped("2 files failed in every round, the first is /store/data/a/1.root")
    stopped("9 files failed in every round, the first is /store/data/b/2.root")
    stopped("site T2_CH_CERN is gone")
    found = viewer.get("/api/v1/metrics/failures").json()["failures"]
    assert [(one["pattern"], one["occurrences"], one["requests"]) for one in found] == [
        ("N files failed in every round, the first is …", 2, 2),
        ("site … is gone", 1, 1),
    ]
    assert len(viewer.get("/api/v1/metrics/failures?limit=1").json()["failures"]) == 1


def test_throughput_has_a_step_for_every_time_even_the_empty_ones(viewer: APIClient) -> None:
    ended(S.COMPLETED, took=2, hours_ago=0.5)
    ended(S.COMPLETED, took=4, hours_ago=0.5)
    ended(S.FAILED, took=1, hours_ago=2.5)
    steps = viewer.get("/api/v1/metrics/throughput?hours=4").json()["buckets"]
    assert [step["completed"] for step in steps] == [0, 0, 0, 2]
    assert [step["failed"] for step in steps] == [0, 1, 0, 0]
    assert steps[3]["avg_duration_sec"] == pytest.approx(3 * 3600, rel=0.01)
    assert steps[0]["avg_duration_sec"] is None


@pytest.mark.parametrize(
    ("query", "field"),
    [("workflows?days=0", "days"), ("failures?days=91", "days"), ("failures?limit=1000", "limit"),
     ("throughput?hours=999999", "hours"), ("throughput?hours=2000&bucket_minutes=5", "bucket_minutes"),
     ("workflows?weeks=1", "weeks")],
)  # fmt: skip
def test_an_unbounded_window_is_refused(viewer: APIClient, query: str, field: str) -> None:
    answer = viewer.get(f"/api/v1/metrics/{query}")
    assert (answer.status_code, set(answer.json()["errors"])) == (422, {field})
