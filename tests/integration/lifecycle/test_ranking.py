"""Rank of queued requests, and the policy for full storage."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from dags_app.adapters import rucio, use_adapters
from requests_app import admission
from requests_app.models import Request, StatusTransition
from requests_app.ranking import MAX_RANK, refresh_ranks
from requests_app.services.editing import change_request
from requests_app.services.storage_policy import check_storage
from requests_app.states import RequestStatus as S
from tests.integration.factories import (
    ago,
    make_dag,
    make_group,
    make_request,
    make_round,
    make_site,
    make_workflow,
)
from tests.stand_in import Overridden
from wms2_project.errors import InvalidInput

pytestmark = pytest.mark.django_db


def change(**changes: Any) -> None:
    admission.change_limits(changes=changes, actor="user:olga", reason="a test")


def queued(priority: int = 100, hours: float = 0, retries: int = 0) -> Request:
    request = make_request(status=S.QUEUED, priority=priority)
    Request.objects.filter(pk=request.pk).update(status_since=ago(hours=hours))
    for _ in range(retries):
        StatusTransition.objects.create(
            request=request, from_status=S.PARTIAL, to_status=S.RESUBMITTING, reason="rescue",
            actor="system:lifecycle", at=timezone.now(),
        )  # fmt: skip
    return request


def rank(request: Request) -> float:
    request.refresh_from_db()
    return request.rank


def test_without_ageing_the_rank_is_the_priority() -> None:
    request = queued(priority=7, hours=5, retries=2)
    refresh_ranks()

    assert rank(request) == 7.0
    assert refresh_ranks() == 0, "nothing has changed"


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({"ageing_weight": 10.0}, 150),
        ({"retry_weight": 3.0}, 106),
        ({"priority_weight": 2.0, "ageing_weight": 1.0, "retry_weight": 1.0}, 207),
        ({"priority_weight": 0.0}, 0),
    ],
)
def test_the_rank_weighs_priority_hours_and_retries(weights: dict[str, float], expected: float) -> None:
    request = queued(priority=100, hours=5, retries=2)
    change(**weights)

    assert rank(request) == pytest.approx(expected, abs=0.1)


def test_repeated_computation_gives_the_same_result() -> None:
    request = queued(hours=5)
    change(ageing_weight=10.0)
    for _ in range(20):
        refresh_ranks()

    assert rank(request) == pytest.approx(150, abs=0.1)


def test_the_rank_is_bounded() -> None:
    request = queued(priority=1_000_000, hours=24 * 3650)
    change(priority_weight=1e6, ageing_weight=1e6)

    assert rank(request) == MAX_RANK


def test_only_queued_requests_are_ranked() -> None:
    active = make_request(status=S.ACTIVE, priority=5)
    Request.objects.filter(pk=active.pk).update(rank=1.0)
    change(ageing_weight=100.0)

    assert rank(active) == 1.0


def test_an_old_request_overtakes_a_more_important_young_one() -> None:
    old, young = queued(priority=10, hours=10), queued(priority=50)
    change(max_active_dags=1, ageing_weight=5.0)

    old.refresh_from_db()
    young.refresh_from_db()
    assert (admission.ahead_of(old), admission.ahead_of(young)) == (0, 1)


def test_a_new_priority_keeps_the_age() -> None:
    request = queued(priority=10, hours=10)
    change(ageing_weight=5.0)
    request.refresh_from_db()
    change_request(request=request, changes={"priority": 20}, actor="user:olga", reason="a test")

    assert rank(request) == pytest.approx(70, abs=0.1)


@pytest.mark.parametrize(
    "changes",
    [
        {"ageing_weight": -1.0},
        {"retry_weight": 1e7},
        {"storage_policy": "panic"},
        {"priority_weight": "much"},
    ],
)
def test_weights_and_policies_out_of_range_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        change(**changes)

    assert list(refused.value.fields) == list(changes)


def active_at(site: str, *, rank: float) -> Request:
    """Return an active request with a group at the site."""
    workflow = make_workflow()
    request = make_request(workflow=workflow, status=S.ACTIVE)
    Request.objects.filter(pk=request.pk).update(rank=rank)
    round_ = make_round(workflow)
    make_dag(round_)
    make_group(round_, site=site)
    return request


@pytest.fixture
def usage() -> Any:
    """Yield the usage that Rucio reports for the storage of each site."""
    make_site("T2_CH_CERN")
    make_site("T2_DE_DESY")
    fractions = {"T2_CH_CERN": 0.99, "T2_DE_DESY": 0.5}
    with use_adapters(rucio=Overridden(rucio(), used_fraction=lambda rse: fractions.get(rse))):
        yield fractions


def statuses(*requests: Request) -> list[str]:
    for request in requests:
        request.refresh_from_db()
    return [request.status for request in requests]


def test_full_storage_stops_and_holds_the_lowest_ranked_request_there(usage: Any) -> None:
    low, middle, high = (active_at("T2_CH_CERN", rank=rank) for rank in (1.0, 2.0, 3.0))
    elsewhere = active_at("T2_DE_DESY", rank=0.0)
    change(storage_policy="hold")
    check_storage()

    assert statuses(low, middle, high, elsewhere) == [S.STOPPING, S.ACTIVE, S.ACTIVE, S.ACTIVE]
    assert low.hold_after_stop
    assert "T2_CH_CERN is 99% full, above 95%" in low.transitions.latest("id").reason
    check_storage()
    assert statuses(low, middle, high, elsewhere) == [S.STOPPING, S.STOPPING, S.ACTIVE, S.ACTIVE]


def test_nothing_is_held_by_the_policy_close_or_with_free_storage(usage: Any) -> None:
    request = active_at("T2_CH_CERN", rank=1.0)
    check_storage()
    assert statuses(request) == [S.ACTIVE]
    change(storage_policy="hold")
    usage["T2_CH_CERN"] = 0.9
    check_storage()

    assert statuses(request) == [S.ACTIVE]
