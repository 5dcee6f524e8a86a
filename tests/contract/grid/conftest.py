from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from lab.grid.description import VARIABLE, Grid
from tests.contract.grid.webdav import Client

HERE, THERE = "T2_CH_CERN", "T2_DE_DESY"


@pytest.fixture(scope="session")
def client() -> Client:
    """Return a client of the stack's grid."""
    return Client(Grid.load(Path(os.environ[VARIABLE])))


@pytest.fixture
def lfn(client: Client) -> Iterator[str]:
    """Yield the name of a file that no other test uses; delete the file afterwards."""
    name = f"/store/unmerged/contract/{uuid4().hex}.root"
    yield name
    for site in client.grid.sites.values():
        site.path(name).unlink(missing_ok=True)
