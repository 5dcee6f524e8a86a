"""Storages that fail on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.storage import Storage, Timeouts
from tests.unit.sandbox.storage.webdav import Serve, Server, certificate, servers

QUICK = Timeouts(connect_sec=10, idle_sec=10, fixed_sec=20)
Make = Callable[..., Storage]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    with servers(tmp_path / "servers") as serving:
        yield serving


@pytest.fixture
def server(serve: Serve) -> Server:
    return serve()


@pytest.fixture
def make_storage() -> Iterator[Make]:
    made: list[Storage] = []

    def make(**options: Any) -> Storage:
        known = {"token": lambda: "good", "ca_file": str(certificate()[0]), "timeouts": QUICK}
        made.append(Storage(**(known | {"pauses_sec": ()} | options)))
        return made[-1]

    yield make
    for storage in made:
        storage.close()


@pytest.fixture
def storage(make_storage: Make) -> Storage:
    return make_storage()


@pytest.fixture
def local(tmp_path: Path) -> Path:
    path = tmp_path / "local.root"
    path.write_bytes(b"0123456789" * 300_000)  # more than one chunk
    return path
