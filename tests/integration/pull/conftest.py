"""A pull request at two sites with storage, and a job that calls WMS2 as a runner does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from requests_app.services.runners import geography, lending
from tests.integration.factories import make_site
from tests.integration.pull.factories import CERN, FNAL


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    """What processes keep for seconds outlives a test."""
    geography.forget()
    lending._rucio_outage.cache_clear()
    yield
    geography.forget()


@pytest.fixture
def sites(db: None, tmp_path: Path, settings: Any) -> list[str]:
    """Two sites whose storages are directories."""
    settings.SITE_STORAGE = {}
    for name in (CERN, FNAL):
        (tmp_path / name).mkdir()
        make_site(name)
        settings.SITE_STORAGE[name] = [str(tmp_path / name)]
    return [CERN, FNAL]
