from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.condor.peers import PEERS, Peer


@pytest.fixture(scope="module", params=sorted(PEERS))
def peer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    made = PEERS[request.param](tmp_path_factory.mktemp(request.param))
    yield made
    made.clear()
