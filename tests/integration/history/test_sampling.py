"""Progress samples: one per change, at a bounded rate, fewer the older they are."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from dags_app.models import DAG, MergeGroup
from dags_app.states import GroupStatus
from requests_app.models import ProgressSample, Request
from requests_app.services.sampling import record_samples, thin_samples
from requests_app.states import RequestStatus
from tests.integration.factories import ago, make_dag, make_file, make_group, make_request, make_round

pytestmark = pytest.mark.django_db


def running(**dag: Any) -> tuple[Request, MergeGroup]:
    """Return an active request of 100 events with one group of four jobs."""
    row = make_request(status=RequestStatus.ACTIVE)
    make_file(row.workflow)
    row.workflow.refresh_from_db()
    round_ = make_round(row.workflow)
    make_dag(round_, **({"submitted_at": ago(minutes=1)} | dag))
    return row, make_group(round_)


def samples(row: Request) -> list[ProgressSample]:
    return list(row.samples.order_by("at"))


def test_a_change_of_progress_makes_one_sample_and_no_change_makes_none() -> None:
    row, group = running()
    now = timezone.now()
    assert record_samples(now=now) == 1
    assert record_samples(now=now + timedelta(minutes=2)) == 0
    MergeGroup.objects.filter(pk=group.pk).update(nodes_done=3)
    assert record_samples(now=now + timedelta(minutes=4)) == 1
    first, second = samples(row)
    assert (first.events_running, second.events_running, second.events_total) == (0, 50, 100)
    assert (second.status, second.jobs_running) == ("active", 3)


@pytest.mark.parametrize(("minutes", "seconds"), [(1, 5), (30, 30), (600, 60)])
def test_the_time_between_samples_grows_with_the_age_of_the_dag(minutes: int, seconds: int) -> None:
    row, group = running(submitted_at=ago(minutes=minutes))
    now = timezone.now()
    record_samples(now=now)
    DAG.objects.filter(round=group.round).update(nodes_running=1)
    assert record_samples(now=now + timedelta(seconds=seconds - 1)) == 0
    assert record_samples(now=now + timedelta(seconds=seconds + 2)) == 1
    assert len(samples(row)) == 2


def test_a_queued_request_is_sampled_when_its_gate_changes_not_when_its_position_does() -> None:
    row = make_request(status=RequestStatus.QUEUED, wait_gate="admission", wait_reason="position 2")
    now = timezone.now()
    record_samples(now=now)
    Request.objects.filter(pk=row.pk).update(wait_reason="position 1")
    assert record_samples(now=now + timedelta(minutes=5)) == 0
    Request.objects.filter(pk=row.pk).update(wait_gate="sites", wait_reason="no site has the input")
    assert record_samples(now=now + timedelta(minutes=6)) == 1
    assert [one.reason for one in samples(row)] == ["position 2", "no site has the input"]


def test_the_end_of_a_request_is_sampled_once_and_old_ends_are_not_read() -> None:
    ended = make_request(status=RequestStatus.COMPLETED)
    long_ago = make_request(status=RequestStatus.COMPLETED, status_since=ago(days=3))
    assert record_samples(now=timezone.now()) == 1
    assert record_samples(now=timezone.now()) == 0
    assert (len(samples(ended)), len(samples(long_ago))) == (1, 0)


def test_many_requests_take_three_queries(django_assert_num_queries: Any) -> None:
    for _ in range(5):
        running()
    with django_assert_num_queries(3):
        assert record_samples(now=timezone.now()) == 5


def test_samples_are_thinned_with_age_and_removed_in_the_end(settings: Any) -> None:
    row, _ = running()
    now = datetime.fromisoformat("2031-05-17T12:00:00+00:00")
    for age in (timedelta(minutes=3), timedelta(hours=3), timedelta(days=3), timedelta(days=300)):
        for second in range(5):
            ProgressSample.objects.create(
                request=row, status="active", at=now - age + timedelta(seconds=10 * second)
            )
    thin_samples(now=now)
    thin_samples(now=now)
    ages = [now - one.at for one in samples(row)]
    assert len([age for age in ages if age < timedelta(hours=1)]) == 5
    assert len([age for age in ages if timedelta(hours=1) < age < timedelta(days=1)]) == 1
    assert len([age for age in ages if timedelta(days=1) < age < timedelta(days=30)]) == 1
    assert max(ages) < timedelta(days=settings.KEEP_SAMPLES_DAYS)


def test_a_collected_group_counts_in_the_next_sample() -> None:
    row, group = running()
    record_samples(now=timezone.now())
    MergeGroup.objects.filter(pk=group.pk).update(status=GroupStatus.COLLECTED, events_read=100)
    record_samples(now=timezone.now() + timedelta(minutes=1))
    assert [(one.events_done, one.groups_done) for one in samples(row)] == [(0, 0), (100, 1)]
