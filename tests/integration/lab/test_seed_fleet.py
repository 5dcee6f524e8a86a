"""`manage.py seed_fleet` writes a fleet that the product reads as its own and that no worker touches."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from lab.fleet.stories import spread_statuses, tell_stories
from outputs_app.models import OutputBlock
from outputs_app.states import BlockStatus
from requests_app.lifecycle.due import claim_blocks, claim_requests
from requests_app.models import Request, StatusTransition
from requests_app.selectors.progress import progress_of_many
from requests_app.selectors.statistics import throughput_metrics
from requests_app.states import RequestStatus, may_move
from sites_app.models import Site, SlotSample
from wms2_project.access.audit import flaws
from wms2_project.leases import wake

pytestmark = pytest.mark.django_db
SIZE = 60


@pytest.fixture
def fleet() -> list[Request]:
    call_command("seed_fleet", requests=SIZE)
    return list(Request.objects.all())


def test_the_fleet_has_every_status_with_rows_that_agree(fleet: list[Request]) -> None:
    assert len(fleet) == SIZE
    assert {request.status for request in fleet} == set(RequestStatus)
    assert all(0 <= one.fraction <= 1 for one in progress_of_many(fleet).values())
    assert set(OutputBlock.objects.values_list("status", flat=True)) > {
        BlockStatus.ANNOUNCED,
        BlockStatus.TRANSFERRING,
        BlockStatus.CHECKED,
    }
    moves = StatusTransition.objects.exclude(from_status="").values_list("from_status", "to_status")
    assert all(may_move(RequestStatus(before), RequestStatus(after)) for before, after in moves.distinct())
    assert list(flaws()) == []
    day = throughput_metrics(now=timezone.now(), hours=24, bucket_minutes=60)
    assert sum(bucket.completed for bucket in day) > 0


def test_no_worker_takes_a_request_of_the_fleet_even_if_it_is_due(fleet: list[Request]) -> None:
    wake(Request.objects.all())
    wake(OutputBlock.objects.all())
    assert claim_requests() == []
    assert claim_blocks() == []


def test_slots_that_were_measured_before_are_replaced() -> None:
    site, _ = Site.objects.get_or_create(name="T1_US_FNAL")
    at = timezone.now().replace(minute=0, second=0, microsecond=0)
    SlotSample.objects.create(site=site, at=at, total=1, running=1, pending=0)
    call_command("seed_fleet", requests=SIZE)
    assert SlotSample.objects.get(site=site, at=at).total > 1


def test_a_second_fleet_is_refused(fleet: list[Request]) -> None:
    with pytest.raises(CommandError, match="has a fleet already"):
        call_command("seed_fleet", requests=SIZE)


def test_a_fleet_is_refused_outside_the_lab(settings: Any) -> None:
    settings.LAB = False
    with pytest.raises(CommandError, match="in the lab only"):
        call_command("seed_fleet")


def test_the_same_seed_gives_the_same_fleet() -> None:
    now = timezone.now()
    first, again, other = (list(tell_stories(requests=SIZE, seed=seed, now=now)) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert len(spread_statuses(300)) == 300
