"""Separate simulated CMS services, and output blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from dags_app.adapters import build_cric, build_dbs, build_reqmgr2, build_rucio, use_adapters
from dags_app.models import Workflow
from lab.cms_world.known import Credentials
from lab.cms_world.server import World, running_world
from outputs_app.models import OutputBlock
from tests.integration.outputs.blocks import DESTINATION, add_block, make_producer
from tests.stand_in import FromSettings

Faults = Callable[..., None]


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running_world(tmp_path_factory.mktemp("cms")) as running:
        yield running


@pytest.fixture(autouse=True)
def _point_at_the_world(world: World, settings: Any) -> Iterator[None]:
    known = Credentials()
    settings.CMS_SERVICES = {
        **settings.CMS_SERVICES,
        "reqmgr2_url": f"{world.url}/reqmgr2",
        "dbs_url": f"{world.url}/dbs/DBSReader",
        "dbs_writer_url": f"{world.url}/dbs/DBSWriter",
        "rucio_url": f"{world.url}/rucio",
        "rucio_auth_url": f"{world.url}/rucio",
        "rucio_account": known.account,
        "rucio_username": known.username,
        "rucio_password": known.password,
        "cric_url": f"{world.url}/cric",
    }
    settings.TRANSFER_POLL_INTERVAL_SEC = 0.0
    settings.SERVICE_TIMEOUT_SEC = 10.0  # tests of timeouts have their own
    settings.BREAKER_FAILURES = 1000  # the breaker has tests of its own
    with use_adapters(
        dbs=FromSettings(build_dbs),
        rucio=FromSettings(build_rucio),
        reqmgr2=FromSettings(build_reqmgr2),
        cric=FromSettings(build_cric),
    ):
        yield


@pytest.fixture
def lab(world: World) -> Callable[[str, str, Any], Any]:
    """Return a function that calls the lab's own endpoints."""

    def call(method: str, path: str, body: Any = None) -> Any:
        answer = requests.request(method, f"{world.url}/lab/{path}", json=body, timeout=10)
        assert answer.status_code < 300, answer.text
        return answer.json()

    return call


@pytest.fixture
def faults(lab: Any) -> Iterator[Faults]:
    def install(*wanted: dict[str, Any]) -> None:
        lab("PUT", "faults", list(wanted))

    yield install
    install()


@pytest.fixture
def workflow(db: None) -> Workflow:
    return make_producer()


@pytest.fixture
def block(workflow: Workflow) -> OutputBlock:
    return add_block(workflow)


@pytest.fixture
def subscribe(lab: Any, workflow: Workflow) -> Callable[..., None]:
    """Subscribe the workflow's datasets to the storage."""
    primary = workflow.output_datasets[0].split("/")[1]

    def add(rse_expression: str, copies: int | str = 1) -> None:
        name = f"{primary}{rse_expression}".lower().replace("=", "").replace("|", "")
        wanted = {"name": name, "pattern": f"^/{primary}/.*", "rse_expression": rse_expression}
        lab("POST", "subscriptions", wanted | {"copies": copies})

    return add


@pytest.fixture
def subscribed(subscribe: Callable[..., None]) -> str:
    """Subscribe the workflow's datasets to another storage."""
    subscribe(DESTINATION)
    return DESTINATION
