"""Finished requests of a campaign give the next ones an estimate and sites to avoid."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from dags_app.services import pilot
from dags_app.services.estimating import current_estimate
from dags_app.states import GroupStatus, SplittingAlgo
from requests_app.models import Request
from requests_app.services.campaigns import ACTOR, learn_from_campaign
from requests_app.states import RequestStatus
from sites_app.banning import SiteTally
from sites_app.models import Site, SiteBan
from sites_app.selectors import usable_sites
from sites_app.services.bans import DETECTION, ban_site
from tests.integration.factories import make_group, make_request, make_round, make_site, make_workflow

pytestmark = pytest.mark.django_db
BAD, GOOD = "T2_US_Purdue", "T2_CH_CERN"


@pytest.fixture
def now(db: None, settings: Any) -> datetime:
    settings.LEARN_FROM_REQUESTS = 3
    make_site(GOOD)
    make_site(BAD)
    return timezone.now()


def generating(*, status: RequestStatus, **values: Any) -> Request:
    workflow = make_workflow(
        input_dataset=None, total_events=1000, splitting_algo=SplittingAlgo.EVENT_BASED,
        splitting_params={"events_per_job": 10}, time_per_event_sec=1.0, **values,
    )  # fmt: skip
    return make_request(status=status, workflow=workflow)


def finished(*, seconds: float) -> Request:
    """Return a completed request that measured this number of seconds per event."""
    request = generating(status=RequestStatus.COMPLETED)
    metrics = {
        "jobs": 8, "wall_time_per_event_sec": seconds, "peak_rss_mb": 1000, "output_kb_per_event": 7.0,
        "cpu_efficiency": 0.9,
    }  # fmt: skip
    make_group(make_round(request.workflow), status=GroupStatus.COLLECTED, jobs=8, metrics=metrics)
    return request


def ban(request: Request, now: datetime, *, evidence: SiteTally | None = None) -> SiteBan:
    site, data = Site.objects.get(pk=BAD), evidence.as_json() if evidence else None
    return ban_site(
        site=site,
        workflow=request.workflow,
        reason="jobs failed",
        actor=DETECTION,
        now=now,
        failure_data=data,
    )


def learn(request: Request, now: datetime) -> None:
    sites = usable_sites(workflow=request.workflow, now=now)
    learn_from_campaign(request=request, sites=sites, now=now)


def test_three_requests_that_agree_replace_the_pilot(now: datetime, viewer: APIClient) -> None:
    names = {finished(seconds=seconds).request_name for seconds in (4.0, 4.4, 4.8)}
    request = generating(status=RequestStatus.QUEUED)
    assert pilot.is_wanted(workflow=request.workflow, urgent=False)
    learn(request, now)

    estimate = current_estimate(request.workflow)
    assert (estimate.source, estimate.time_per_event_sec, estimate.size_per_event_kb) == (
        "campaign",
        4.4,
        7.0,
    )
    assert not pilot.is_wanted(workflow=request.workflow, urgent=False)
    learned = viewer.get(f"/api/v1/requests/{request.request_name}/why").json()["learned"]
    assert (set(learned["requests"]), learned["estimate"]["source"]) == (names, "campaign")


@pytest.mark.parametrize("times", [(4.0, 4.4), (4.0, 4.4, 9.0)], ids=["too few", "too different"])
def test_without_agreement_a_pilot_measures(now: datetime, times: tuple[float, ...]) -> None:
    for seconds in times:
        finished(seconds=seconds)
    request = generating(status=RequestStatus.QUEUED)
    learn(request, now)
    assert current_estimate(request.workflow).source == "hints"
    assert pilot.is_wanted(workflow=request.workflow, urgent=False)


def test_a_number_of_an_operator_outranks_the_campaign(now: datetime) -> None:
    for _ in range(3):
        finished(seconds=4.0)
    request = generating(status=RequestStatus.QUEUED, chosen_memory_mb=1234)
    learn(request, now)
    estimate = current_estimate(request.workflow)
    assert (estimate.memory_mb, estimate.source_of("memory_mb")) == (1234, "operator")


def test_a_site_that_failed_two_requests_is_avoided_once(now: datetime) -> None:
    bans = [ban(generating(status=RequestStatus.ACTIVE), now) for _ in range(2)]
    request = generating(status=RequestStatus.QUEUED)
    learn(request, now)

    assert usable_sites(workflow=request.workflow, now=now).names == {GOOD}
    own = SiteBan.objects.get(workflow=request.workflow)
    assert (own.created_by, own.expires_at) == (ACTOR, max(one.expires_at for one in bans))
    assert request.workflow.learned is not None
    assert len(request.workflow.learned["avoided_sites"][BAD]) == 2

    SiteBan.objects.filter(pk=own.pk).update(removed_at=now, removed_by="user:olga")
    learn(request, now)
    assert BAD in usable_sites(workflow=request.workflow, now=now).names, "an operator lifted the ban"


@pytest.mark.parametrize(
    ("evidence", "avoided"),
    [
        (SiteTally(BAD, jobs=50, infrastructure=45, unreadable_files=0), True),
        (SiteTally(BAD, jobs=50, infrastructure=0, unreadable_files=0, claimed=45), False),
    ],
    ids=["reported by the wrapper", "claimed by the payload"],
)
def test_one_request_is_enough_if_its_failures_are_proved(
    now: datetime, evidence: SiteTally, avoided: bool
) -> None:
    ban(generating(status=RequestStatus.ACTIVE), now, evidence=evidence)
    request = generating(status=RequestStatus.QUEUED)
    learn(request, now)

    assert (BAD not in usable_sites(workflow=request.workflow, now=now).names) is avoided


@pytest.mark.parametrize(
    ("bans", "values"),
    [(1, {}), (2, {"site_whitelist": [BAD, GOOD]}), (2, {"site_blacklist": [GOOD]})],
    ids=["one request", "a listed site", "the last site"],
)
def test_a_site_is_not_avoided(now: datetime, bans: int, values: dict[str, Any]) -> None:
    for _ in range(bans):
        ban(generating(status=RequestStatus.ACTIVE), now)
    request = generating(status=RequestStatus.QUEUED, **values)
    learn(request, now)
    assert BAD in usable_sites(workflow=request.workflow, now=now).names
