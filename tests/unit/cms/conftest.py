from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests

from cms.configcache import ConfigCacheClient, ConfigCacheConfig
from cms.cric import CricClient, CricConfig
from cms.dbs import DbsClient, DbsConfig
from cms.http import HttpOptions
from cms.reqmgr2 import ReqMgr2Client, ReqMgr2Config
from cms.rucio import RucioClient
from cms.rucio_session import RucioConfig
from lab.cms_world.server import World, running_world

QUICK = HttpOptions(retries=2, backoff_sec=0.01)
# For tests that wait for a timeout; long enough for an honest answer on a busy machine.
IMPATIENT = replace(QUICK, read_timeout_sec=1.0)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with running_world(tmp_path / "world") as running:
        yield running


@pytest.fixture
def lab(world: World) -> Callable[..., Any]:
    """Call the lab's own endpoints: lab("PUT", "faults", [...])."""

    def call(method: str, path: str, body: Any = None) -> Any:
        response = requests.request(method, f"{world.url}/lab/{path}", json=body, timeout=10)
        assert response.ok, response.text
        return response.json()

    return call


@pytest.fixture
def reqmgr2(world: World) -> ReqMgr2Client:
    return ReqMgr2Client(ReqMgr2Config(f"{world.url}/reqmgr2", QUICK))


@pytest.fixture
def config_cache(world: World) -> ConfigCacheClient:
    return ConfigCacheClient(
        ConfigCacheConfig(f"{world.url}/couchdb/reqmgr_config_cache", QUICK, max_bytes=5000)
    )


@pytest.fixture
def dbs_config(world: World) -> DbsConfig:
    return DbsConfig(f"{world.url}/dbs/DBSReader", f"{world.url}/dbs/DBSWriter", http=QUICK)


@pytest.fixture
def dbs(dbs_config: DbsConfig) -> DbsClient:
    return DbsClient(dbs_config)


@pytest.fixture
def impatient_dbs(dbs_config: DbsConfig) -> DbsClient:
    return DbsClient(replace(dbs_config, http=IMPATIENT))


@pytest.fixture
def cric(world: World) -> CricClient:
    return CricClient(CricConfig(f"{world.url}/cric", QUICK))


@pytest.fixture
def rucio_config(world: World) -> RucioConfig:
    url, known = f"{world.url}/rucio", world.credentials
    return RucioConfig(url, url, known.account, known.username, known.password)


@pytest.fixture
def rucio(rucio_config: RucioConfig) -> RucioClient:
    return RucioClient(rucio_config)


@pytest.fixture
def impatient_rucio(rucio_config: RucioConfig) -> RucioClient:
    return RucioClient(replace(rucio_config, read_timeout_sec=1.0))
