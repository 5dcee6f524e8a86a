"""Storage is measured site by site, also if one of them or Rucio fails."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from sites_app.models import Site
from sites_app.services.site_settings import MEASURED, measure_storage
from tests.integration.factories import ago, make_site
from wms2_project.errors import ServiceUnavailable

pytestmark = pytest.mark.django_db


@pytest.fixture
def asked(adapt: Callable[..., None]) -> list[str]:
    """Return a list of the storages looked up in Rucio; one of them fails."""
    names: list[str] = []

    def used_fraction(rse: str) -> float:
        names.append(rse)
        if rse == "T2_XX_Broken":
            raise ServiceUnavailable("Rucio did not answer")
        return 0.5

    adapt(rucio=SimpleNamespace(used_fraction=used_fraction))
    return names


def site(name: str, asked_at: datetime | None = None, **values: Any) -> Site:
    return make_site(name, storage_asked_at=asked_at, **values)


def test_the_storage_with_the_oldest_measurement_is_first(asked: list[str]) -> None:
    site("T2_AA_Now", ago(minutes=1))
    site("T2_BB_Old", ago(days=2))
    site("T2_CC_Never")
    assert measure_storage() == 3
    assert asked == ["T2_CC_Never", "T2_BB_Old", "T2_AA_Now"]


def test_a_storage_that_cannot_be_measured_does_not_delay_the_others(asked: list[str]) -> None:
    broken = site("T2_XX_Broken", config_data={MEASURED: 0.9})
    site("T2_YY_Works")
    assert measure_storage() == 1
    broken.refresh_from_db()
    assert broken.config_data == {MEASURED: 0.9}  # what was known last
    assert broken.storage_asked_at is not None  # it had its turn


def test_sites_not_measured_in_time_are_first_in_the_next_run(asked: list[str]) -> None:
    for number in range(4):
        site(f"T2_DE_{number}")
    clock = iter(range(0, 10_000, 80))
    measure_storage(clock=lambda: float(next(clock)))
    assert asked == ["T2_DE_0", "T2_DE_1"]
    measure_storage(clock=lambda: float(next(clock)))
    assert asked == ["T2_DE_0", "T2_DE_1", "T2_DE_2", "T2_DE_3"]
