from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from lab.cms_world.server import World, running_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with running_world(tmp_path / "world") as running:
        yield running


@pytest.fixture
def ask(world: World) -> Callable[..., requests.Response]:
    """Call the world: ask("GET", "/lab/health")."""

    def call(method: str, path: str, body: Any = None, **headers: str) -> requests.Response:
        accept = {
            "Accept": "application/json",
            **{key.replace("_", "-"): value for key, value in headers.items()},
        }
        return requests.request(method, f"{world.url}{path}", json=body, headers=accept, timeout=10)

    return call


@pytest.fixture
def token(world: World, ask: Callable[..., requests.Response]) -> str:
    known = world.credentials
    reply = ask(
        "GET",
        "/rucio/auth/userpass",
        X_Rucio_Account=known.account,
        X_Rucio_Username=known.username,
        X_Rucio_Password=known.password,
    )
    return reply.headers["X-Rucio-Auth-Token"]
