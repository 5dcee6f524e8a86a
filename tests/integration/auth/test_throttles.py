"""Throttles: per user and per address, shared by all processes, and open while Redis is unavailable."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from tests.integration.conftest import ApiAs
from wms2_project.access import throttles
from wms2_project.access.roles import Role

pytestmark = pytest.mark.django_db
SITES, SCHEMA = "/api/v1/sites", "/api/v1/docs"


@pytest.fixture(autouse=True)
def _few(settings: Any) -> None:
    """Allow few calls in a window that is longer than a test."""
    settings.THROTTLE_RATES = {"user": "3/year", "anonymous": "2/year", "failures": "2/year"}


def statuses(client: Any, url: str, count: int, **more: Any) -> list[int]:
    return [client.get(url, **more).status_code for _ in range(count)]


def test_each_user_has_calls_of_their_own(api_as: ApiAs) -> None:
    ana, bob = api_as(Role.VIEWER, "ana"), api_as(Role.VIEWER, "bob")
    assert statuses(ana, SITES, 4) == [200, 200, 200, 429]
    assert statuses(bob, SITES, 1) == [200]


def test_the_count_is_in_redis_not_in_the_process(api_as: ApiAs) -> None:
    client = api_as(Role.VIEWER)
    statuses(client, SITES, 3)
    throttles._limiter.cache_clear()  # as another process would begin
    refused = client.get(SITES)
    assert refused.status_code == 429
    assert int(refused["Retry-After"]) > 0
    assert refused.json()["code"] == "throttled"


def test_each_address_has_a_separate_limit_of_calls() -> None:
    assert statuses(Client(REMOTE_ADDR="1.1.1.1"), SCHEMA, 3) == [200, 200, 429]
    assert statuses(Client(REMOTE_ADDR="2.2.2.2"), SCHEMA, 1) == [200]


def test_behind_a_trusted_proxy_the_callers_address_counts(settings: Any) -> None:
    settings.TRUSTED_PROXIES = ["10.0.0.1"]
    proxy = Client(REMOTE_ADDR="10.0.0.1")
    for address in ("1.1.1.1", "2.2.2.2"):
        assert statuses(proxy, SCHEMA, 3, headers={"X-Forwarded-For": address}) == [200, 200, 429]


def test_refused_calls_are_counted_too(api_as: ApiAs) -> None:
    assert statuses(Client(REMOTE_ADDR="1.1.1.1"), SITES, 3) == [401, 401, 429]
    viewer = api_as(Role.VIEWER)
    refused = [viewer.post(f"{SITES}/T2_CH_CERN/drain").status_code for _ in range(4)]
    assert refused == [403, 403, 403, 429]


def test_wrong_credentials_are_throttled_by_address() -> None:
    wrong = {"Authorization": "Bearer wms2_guess"}
    assert statuses(Client(REMOTE_ADDR="1.1.1.1"), SITES, 3, headers=wrong) == [401, 401, 429]
    assert statuses(Client(REMOTE_ADDR="2.2.2.2"), SITES, 1, headers=wrong) == [401]


def test_probes_are_never_throttled() -> None:
    assert set(statuses(Client(), "/api/v1/livez", 6)) == {200}


def test_without_redis_calls_go_on(api_as: ApiAs, settings: Any) -> None:
    client: APIClient = api_as(Role.VIEWER)
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert statuses(client, SITES, 6) == [200] * 6
