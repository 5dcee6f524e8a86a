"""The slots of sites are measured from the collector and the schedd of the real pool."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.test import Client
from django.utils import timezone

from condor.collector import Collector, sum_slots
from condor.layout import GroupLayout, NodeLayout
from condor.types import SlotCount
from dags_app import adapters
from requests_app import tasks
from sites_app.models import Site
from sites_app.services.slots import measure_slots
from sites_app.services.sources import FAILURES_ALLOWED
from tests.integration.condor.conftest import Bench
from tests.integration.factories import make_site
from wms2_project.errors import ScheddUnreachable

NOWHERE = "T3_XX_Nowhere"


@pytest.fixture
def collector(pool_sites: tuple[str, ...]) -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


@pytest.fixture
def silent_pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Yield a collector at a port where nothing listens."""
    adapters.collector.cache_clear()
    monkeypatch.setenv("_CONDOR_COLLECTOR_HOST", "127.0.0.1:1")
    yield
    adapters.collector().close()
    adapters.collector.cache_clear()


def test_the_collector_counts_the_slots_of_every_site(
    collector: Collector, pool_sites: tuple[str, ...]
) -> None:
    counts = collector.count_slots()
    assert set(counts) == set(pool_sites)
    assert all(0 <= count.running <= count.total and count.total > 0 for count in counts.values())


def test_a_running_job_is_counted_at_its_site(bench: Bench, collector: Collector) -> None:
    site = bench.sites[0]
    node = NodeLayout("proc_000000", memory_mb=64, cpus=1, disk_kb=1024, wall_minutes=10)
    manifest = json.dumps({"proc_000000": "sleep"}, indent=0).encode()
    group = GroupLayout(name="mg_000000", sites=[site], nodes=[node], manifest=manifest)
    name = bench.submit(bench.write(bench.layout(groups=[group])))
    bench.wait(lambda: "proc_000000" in bench.running(name))
    bench.wait(lambda: collector.count_slots()[site].running >= 1)


@pytest.mark.django_db
def test_a_measurement_is_stored_with_its_time(bench: Bench, client: Client) -> None:
    site, now = make_site(bench.sites[0], total_slots=9999, running_slots=9999), timezone.now()
    make_site(NOWHERE, total_slots=7)
    node = NodeLayout("proc_000000", memory_mb=64, cpus=1, disk_kb=1024, wall_minutes=10)
    group = GroupLayout(name="mg_000000", sites=[NOWHERE], nodes=[node], manifest=b"{}")
    name = bench.submit(bench.write(bench.layout(groups=[group])))
    bench.wait(lambda: [job for job in bench.jobs(name) if job["JobUniverse"] == 5])
    assert measure_slots(now=now) == 1
    site.refresh_from_db()
    assert 0 < site.total_slots < 9999
    assert site.running_slots <= site.total_slots
    assert site.slots_measured_at == now
    nowhere = Site.objects.get(pk=NOWHERE)
    assert (nowhere.total_slots, nowhere.running_slots) == (0, 0)
    assert nowhere.pending_slots >= 1  # the landing waits for a slot there


@pytest.mark.django_db
@pytest.mark.usefixtures("silent_pool")
def test_without_an_answer_nothing_changes_and_health_says_so(client: Client, settings: Any) -> None:
    make_site(NOWHERE, total_slots=7)
    with pytest.raises(ScheddUnreachable):
        measure_slots(now=timezone.now())
    for _ in range(FAILURES_ALLOWED):
        tasks.slots()
    site = Site.objects.get()
    assert (site.total_slots, site.slots_measured_at) == (7, None)
    assert client.get("/api/v1/health").json()["parts"]["site_slots"] == "down"


@pytest.mark.django_db
def test_a_schedd_that_does_not_answer_keeps_no_site_from_being_measured(
    pool_sites: tuple[str, ...], settings: Any
) -> None:
    settings.SCHEDDS = ["absent@nowhere"]
    site = make_site(pool_sites[0])
    assert measure_slots(now=timezone.now()) == 1
    site.refresh_from_db()
    assert site.total_slots > 0


def test_the_measurement_is_scheduled() -> None:
    entry = django_settings.CELERY_BEAT_SCHEDULE["slots"]
    assert (entry["task"], entry["schedule"]) == (tasks.slots.name, django_settings.SLOTS_INTERVAL_SEC)


def test_static_and_partitionable_slots_are_summed_and_dynamic_ones_left_out() -> None:
    ads: list[dict[str, Any]] = [
        {"GLIDEIN_CMSSite": "T2_AA_A", "SlotType": "Partitionable", "TotalSlotCpus": 8, "Cpus": 3},
        {"GLIDEIN_CMSSite": "T2_AA_A", "SlotType": "Dynamic", "Cpus": 5, "State": "Claimed"},
        {"GLIDEIN_CMSSite": "T2_AA_A", "SlotType": "Static", "Cpus": 2, "State": "Claimed"},
        {"GLIDEIN_CMSSite": "T2_BB_B", "SlotType": "Static", "Cpus": 1, "State": "Unclaimed"},
        {"GLIDEIN_CMSSite": "Unknown site", "SlotType": "Static", "Cpus": 1, "State": "Claimed"},
        {"SlotType": "Static", "Cpus": 1, "State": "Claimed"},
    ]
    assert sum_slots(ads) == {"T2_AA_A": SlotCount(10, 7), "T2_BB_B": SlotCount(1, 0)}
