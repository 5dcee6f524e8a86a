"""Slots of sites over time: one sample per interval, fewer after two days, none after the limit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from console.sites.slot_history import Cores, day_chart, running_lines, slot_history
from sites_app.models import SlotSample
from sites_app.services.slot_samples import record_slots, thin_slot_samples
from tests.integration.factories import make_site

pytestmark = pytest.mark.django_db
NOW = datetime(2031, 5, 6, 12, 4, tzinfo=UTC)
HOUR = timedelta(hours=1)


def times() -> list[datetime]:
    return list(SlotSample.objects.order_by("at").values_list("at", flat=True))


def test_an_interval_has_its_last_measurement() -> None:
    site = make_site(total_slots=100, running_slots=10)
    record_slots([site], now=NOW)
    site.running_slots = 30
    record_slots([site], now=NOW + timedelta(minutes=5))
    record_slots([site], now=NOW + timedelta(minutes=6))
    assert list(SlotSample.objects.order_by("at").values_list("at", "running")) == [
        (NOW.replace(minute=0), 30),
        (NOW.replace(minute=10), 30),
    ]


def test_samples_are_thinned_after_two_days_and_removed_after_the_limit(settings: Any) -> None:
    settings.KEEP_SAMPLES_DAYS = 5
    site = make_site()
    for age in (timedelta(days=6), timedelta(days=3), timedelta(days=1)):
        for minutes in (0, 10, 120):
            record_slots([site], now=NOW - age + timedelta(minutes=minutes))
    thin_slot_samples(now=NOW)
    day = NOW.replace(minute=0)
    old, new = day - timedelta(days=3), day - timedelta(days=1)
    assert times() == [old, old + 2 * HOUR, new, new + timedelta(minutes=10), new + 2 * HOUR]


def test_the_history_has_gaps_where_nothing_was_measured() -> None:
    site, other = make_site(total_slots=100, running_slots=40, pending_slots=7), make_site("T2_XX_Other")
    record_slots([site], now=NOW - timedelta(hours=2, minutes=30))
    found = slot_history([site.name, other.name], now=NOW, length=4 * HOUR, step=HOUR)
    assert found == {site.name: [None, Cores(100, 40, 7), None, None], other.name: [None] * 4}
    assert list(running_lines(found, now=NOW)) == [site.name]
    chart = day_chart(site.name, now=NOW)
    assert chart is not None
    assert [one["label"] for one in chart["series"]] == ["running", "in the pool", "wanted by waiting jobs"]
    assert [value for value in chart["series"][0]["data"] if value is not None] == [40]
    assert day_chart(other.name, now=NOW) is None
