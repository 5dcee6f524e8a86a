"""The grid's storages as the backends see them: the same tests for mounted storage, WebDAV and XRootD."""

from __future__ import annotations

import base64
import json
import os
import ssl
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from sandbox.storage import Storage, Timeouts

SCOPES = "storage.read:/store storage.modify:/store"
TIMEOUTS = Timeouts(connect_sec=10, idle_sec=30, fixed_sec=60)


@dataclass(frozen=True, slots=True)
class Grid:
    """The grid described by WMS2_LAB_GRID."""

    document: dict[str, Any]

    @property
    def ca(self) -> str:
        return str(self.document["ca"])

    @property
    def sites(self) -> list[str]:
        return sorted(self.document["sites"])

    def prefix(self, site: str, scheme: str) -> str:
        return str(self.document["sites"][site][scheme])

    def token(self, scopes: str = SCOPES) -> str:
        """Ask the issuer for a token."""
        secret = Path(self.document["client_secret_file"]).read_text().strip()
        basic = base64.b64encode(f"{self.document['client_id']}:{secret}".encode()).decode()
        form = urllib.parse.urlencode({"grant_type": "client_credentials", "scope": scopes}).encode()
        request = urllib.request.Request(
            f"{self.document['issuer']}/token", data=form, headers={"Authorization": f"Basic {basic}"}
        )
        tls = ssl.create_default_context(cafile=self.ca)
        with urllib.request.urlopen(request, timeout=30, context=tls) as answer:
            return str(json.load(answer)["access_token"])


@pytest.fixture(scope="session")
def grid() -> Grid:
    path = os.environ.get("WMS2_LAB_GRID", "")
    if not path:
        pytest.fail("WMS2_LAB_GRID names no description of a grid: run these tests by ./wms2 test")
    return Grid(json.loads(Path(path).read_text()))


@pytest.fixture(scope="session")
def token(grid: Grid) -> str:
    return grid.token()


StorageWith = Callable[..., Storage]


@pytest.fixture
def storage_with(grid: Grid, token: str) -> Iterator[StorageWith]:
    """Make storages that are closed after the test."""
    made: list[Storage] = []

    def make(**options: Any) -> Storage:
        known = {"token": lambda: token, "ca_file": grid.ca, "timeouts": TIMEOUTS, "pauses_sec": ()}
        made.append(Storage(**(known | options)))
        return made[-1]

    yield make
    for storage in made:
        storage.close()


@dataclass(frozen=True, slots=True)
class Place:
    """A directory of this test at two storages of one kind."""

    here: str
    there: str


@pytest.fixture(params=["file", "davs", "root"])
def place(request: pytest.FixtureRequest, tmp_path: Path, storage_with: StorageWith) -> Iterator[Place]:
    directory = f"/store/unmerged/contract-{uuid4().hex}"
    if request.param == "file":
        yield Place(f"{tmp_path}/one{directory}", f"file://{tmp_path}/two{directory}")
        return
    grid: Grid = request.getfixturevalue("grid")
    here, there = (f"{grid.prefix(site, request.param)}{directory}" for site in grid.sites[:2])
    yield Place(here, there)
    for url in (here, there):
        _clean(storage_with(), url)


def _clean(storage: Storage, url: str) -> None:
    for entry in storage.list(url):
        inner = f"{url}/{entry.name}"
        if entry.is_directory:
            _clean(storage, inner)
        else:
            storage.delete(inner)
    storage.remove_directory(url)
