"""A CRIC and a Rucio over HTTP for one test, whose sites the test changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from dags_app.adapters import build_cric, build_rucio
from lab.cms_world.server import World, running_world

Lab = Callable[[str, str, Any], Any]


@pytest.fixture
def world(tmp_path: Path, settings: Any, adapt: Callable[..., None]) -> Iterator[World]:
    with running_world(tmp_path / "cms") as running:
        services = {"cric_url": f"{running.url}/cric"}
        services |= dict.fromkeys(("rucio_url", "rucio_auth_url"), f"{running.url}/rucio")
        settings.CMS_SERVICES = {**settings.CMS_SERVICES, **services}
        settings.SERVICE_TIMEOUT_SEC = 10.0
        settings.BREAKER_FAILURES = 1000  # the breaker has tests of its own
        adapt(cric=build_cric(), rucio=build_rucio())
        yield running


@pytest.fixture
def lab(world: World) -> Lab:
    """Call the lab's own endpoints: lab("PUT", "sites", {...})."""

    def call(method: str, path: str, body: Any) -> Any:
        answer = requests.request(method, f"{world.url}/lab/{path}", json=body, timeout=10)
        answer.raise_for_status()
        return answer.json()

    return call
