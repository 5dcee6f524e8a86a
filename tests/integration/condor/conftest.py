"""A real pool, named by CONDOR_CONFIG. Without one these tests fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from condor.schedd import Schedd
from tests import pool_dags
from tests.pool_dags import Bench


@pytest.fixture(scope="session")
def pool_sites() -> tuple[str, ...]:
    return pool_dags.pool_sites()


@pytest.fixture(scope="session")
def schedd(pool_sites: tuple[str, ...]) -> Iterator[Schedd]:
    made = Schedd()
    yield made
    made.close()


@pytest.fixture
def bench(schedd: Schedd, tmp_path: Path, pool_sites: tuple[str, ...]) -> Iterator[Bench]:
    made = Bench(schedd, tmp_path, pool_sites)
    yield made
    made.clear()
