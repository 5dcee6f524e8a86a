"""Guards are shared through Redis: all workers have the same state of a service, and health shows it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
import redis
from django.conf import settings as django_settings
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from outputs_app.models import OutputBlock
from outputs_app.pipeline import Tier
from outputs_app.selectors import unannounced
from outputs_app.services import advance_block
from outputs_app.states import BlockStatus
from requests_app.models import Request
from tests.integration.outputs.blocks import add_block, walk
from tests.integration.outputs.conftest import Faults
from wms2_project.errors import NotFound, RateLimited, ServiceUnavailable
from wms2_project.service_guards import Guard, GuardOptions, calling_as, outages


@pytest.fixture
def options() -> GuardOptions:
    return GuardOptions(redis_url=django_settings.REDIS_URL, calls_per_sec=1000, failures=3, pause_sec=60.0)


@pytest.fixture
def service() -> Iterator[str]:
    """Yield a service without earlier calls."""
    name = f"test-{uuid4().hex[:8]}"
    yield name
    with redis.Redis.from_url(django_settings.REDIS_URL) as client:
        for key in client.scan_iter(f"wms2:guard:{name}*"):
            client.delete(key)


def call(guard: Guard, error: Exception | None = None, *, operation: str = "") -> None:
    with guard.calling(operation):
        if error is not None:
            raise error


def fail(guard: Guard, times: int) -> None:
    for _ in range(times):
        with pytest.raises(ServiceUnavailable):
            call(guard, ServiceUnavailable("503 says the service"))


def test_workers_share_the_state_of_a_service(service: str, options: GuardOptions) -> None:
    one, other = Guard(service, options), Guard(service, options)
    fail(one, 3)
    called = False
    with pytest.raises(ServiceUnavailable, match="503 says the service"), other.calling():
        called = True
    assert not called
    [outage] = outages(options.redis_url, now=time.time(), services=[service])
    assert outage.message == "503 says the service"


def test_after_the_pause_one_call_that_works_opens_the_way_for_all(
    service: str, options: GuardOptions
) -> None:
    short = replace(options, pause_sec=1.0)
    one, other = Guard(service, short), Guard(service, short)
    fail(one, 3)
    end = time.monotonic() + 60
    while True:
        try:
            call(other)
            break
        except ServiceUnavailable:
            assert time.monotonic() < end, "the pause does not end"
            time.sleep(0.05)
    call(one)
    assert outages(options.redis_url, now=time.time(), services=[service]) == []


def test_a_refusal_does_not_count_as_a_failure_of_the_service(service: str, options: GuardOptions) -> None:
    guard = Guard(service, options)
    fail(guard, 2)
    with pytest.raises(NotFound):
        call(guard, NotFound("no such block"))
    fail(guard, 2)
    call(guard)


def test_workers_share_one_rate(service: str, options: GuardOptions) -> None:
    slow = GuardOptions(redis_url=options.redis_url, calls_per_sec=4, failures=3, pause_sec=1.0)
    workers = [Guard(service, slow), Guard(service, slow)]
    began = time.monotonic()
    for number in range(9):
        call(workers[number % 2])
    assert time.monotonic() - began > 1.0  # 9 calls at 4 a second need a third second's window


PROTECT, REQUEST, POLL = Tier


def used_up(options: GuardOptions) -> GuardOptions:
    """Return a limit that never has a call left."""
    return replace(options, calls_per_sec=0)


def test_a_used_up_limit_is_no_failure_of_the_service(service: str, options: GuardOptions) -> None:
    counted: list[tuple[str, str]] = []

    def count(service: str, rank: str) -> None:
        counted.append((service, rank))

    limited = Guard(service, replace(used_up(options), count_limited=count))
    for _ in range(2 * options.failures):
        with (
            calling_as(PROTECT, patience_sec=0.0),
            pytest.raises(RateLimited, match="the WMS2 limit of 0 calls"),
        ):
            call(limited)
    call(Guard(service, options))
    assert outages(options.redis_url, now=time.time(), services=[service]) == []
    assert counted == [(service, str(int(PROTECT)))] * 2 * options.failures


def test_less_urgent_calls_do_not_wait_in_the_worker(service: str, options: GuardOptions) -> None:
    options = replace(options, sleep=lambda _seconds: pytest.fail("it waited"))
    with calling_as(POLL, patience_sec=0.0), pytest.raises(RateLimited):
        call(Guard(service, used_up(options)))


def test_a_step_that_has_begun_waits_for_its_further_calls(service: str, options: GuardOptions) -> None:
    waits: list[float] = []
    options = replace(options, sleep=waits.append, max_turn_sec=0.2)
    with calling_as(POLL, patience_sec=0.0):
        call(Guard(service, options))
        with pytest.raises(RateLimited):
            call(Guard(service, used_up(options)))
    assert waits


@pytest.mark.parametrize(
    ("waiting", "refused"), [(PROTECT, {REQUEST, POLL}), (REQUEST, {POLL}), (POLL, set())]
)
def test_calls_left_go_to_the_most_urgent_tier_that_waits(
    waiting: Tier, refused: set[Tier], service: str, options: GuardOptions
) -> None:
    with calling_as(waiting, patience_sec=0.0), pytest.raises(RateLimited):
        call(Guard(service, used_up(options)))

    got: set[Tier] = set()
    for tier in Tier:
        with calling_as(tier, patience_sec=0.0), contextlib.suppress(RateLimited):
            call(Guard(service, options))
            got.add(tier)

    assert got == set(Tier) - refused


def test_less_urgent_calls_are_made_again_when_nothing_urgent_waits_any_more(
    service: str, options: GuardOptions
) -> None:
    options = replace(options, place_sec=0.2)
    with calling_as(PROTECT, patience_sec=0.0), pytest.raises(RateLimited):
        call(Guard(service, used_up(options)))
    with calling_as(POLL, patience_sec=30.0):
        call(Guard(service, options))


def test_without_redis_calls_go_on_unguarded(service: str) -> None:
    away = GuardOptions(redis_url="redis://127.0.0.1:1/0", calls_per_sec=1, failures=1, pause_sec=60)
    guard = Guard(service, away)
    for _ in range(3):
        with pytest.raises(ServiceUnavailable, match=r"^503"):
            call(guard, ServiceUnavailable("503 says the service"))
    assert outages(away.redis_url, now=time.time()) == []


def test_a_breaker_without_recent_calls_is_not_an_outage(service: str, options: GuardOptions) -> None:
    fail(Guard(service, options), 3)
    assert outages(options.redis_url, now=time.time() + 3600, services=[service]) == []


def is_out(service: str) -> bool:
    return bool(outages(django_settings.REDIS_URL, now=time.time(), services=[service]))


def until_allowed(guard: Guard, error: Exception | None = None, *, operation: str) -> None:
    """Call as soon as the guard allows calls again."""
    while True:
        try:
            call(guard, error, operation=operation)
            return
        except ServiceUnavailable as refused:
            if "is not called" not in str(refused):
                return
            time.sleep(0.05)


@pytest.mark.parametrize("answer", [None, NotFound("no such block")])
def test_an_outage_is_reported_until_the_failed_part_works_again(
    service: str, options: GuardOptions, answer: Exception | None
) -> None:
    guard = Guard(service, replace(options, pause_sec=1.0))
    down = ServiceUnavailable("503 says the service")
    for _ in range(3):
        with pytest.raises(ServiceUnavailable):
            call(guard, down, operation="POST bulkblocks")
    seen = [is_out(service)]
    for _ in range(2):
        with suppress(NotFound):
            until_allowed(guard, answer, operation="GET blocks")  # other calls work, so all are let through
        seen.append(is_out(service))
        until_allowed(guard, down, operation="POST bulkblocks")
        seen.append(is_out(service))
    assert seen == [True] * 5
    until_allowed(guard, operation="POST bulkblocks")
    assert not is_out(service)


def test_a_single_failure_is_no_outage(service: str, options: GuardOptions) -> None:
    guard = Guard(service, options)
    fail(guard, 1)
    assert not is_out(service)


@pytest.mark.django_db
@pytest.mark.usefixtures("subscribed")
def test_a_service_that_is_down_is_seen_everywhere_and_nothing_else_stops(
    block: OutputBlock, faults: Faults, lab: Any, settings: Any, viewer: APIClient, console: Client
) -> None:
    settings.BREAKER_FAILURES, settings.BREAKER_PAUSE_SEC = 2, 1.0
    lab("PUT", "settings", {"rule_delay_sec": 0})
    workflow = block.dataset.workflow
    ahead = walk(add_block(workflow), until=BlockStatus.SOURCE_PROTECTED)
    faults({"service": "dbs", "kind": "status", "status": 503, "times": None})
    for _ in range(3):
        advance_block(block.pk)
    assert walk(ahead).status == BlockStatus.ANNOUNCED, "what needs only Rucio goes on"

    ready, status = viewer.get("/api/v1/readyz"), viewer.get("/api/v1/status")
    assert (ready.status_code, ready.data["status"], ready.data["parts"]["dbs"]) == (200, "degraded", "down")
    assert ready.data["parts"]["rucio"] == "ok"
    [dbs] = [part for part in status.data["parts"] if part["name"] == "dbs"]
    assert "503" in dbs["detail"]
    request = Request.objects.get(workflow=workflow)
    page = console.get(reverse("admin:requests_app_request_change", args=[request.pk])).content.decode()
    assert "blocks answered 503" in page
    assert "503" in unannounced(workflow=workflow)

    faults()
    end = time.monotonic() + 120
    while block.status != BlockStatus.ANNOUNCED and time.monotonic() < end:
        walk(block, looks=1)
    assert block.status == BlockStatus.ANNOUNCED
    assert viewer.get("/api/v1/readyz").data["parts"]["dbs"] == "ok"
