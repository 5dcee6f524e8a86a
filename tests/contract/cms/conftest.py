from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from rucio_peers import PEERS, Block, RucioPeer

from cms.rucio import RucioClient
from cms.types import BlockFile


@pytest.fixture(scope="package", params=sorted(PEERS))  # gone before other tests kill its PostgreSQL
def peer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RucioPeer]:
    yield from PEERS[request.param](tmp_path_factory.mktemp("rucio"))


@pytest.fixture
def rucio(peer: RucioPeer) -> RucioClient:
    return RucioClient(peer.config)


@pytest.fixture
def block() -> Block:
    word = uuid4().hex[:12]
    dataset = f"/Contract{word}/Lab-Test-v1/AOD"
    files = tuple(
        BlockFile(f"/store/data/Lab/{word}/{index}.root", 1000 + index, 10, f"0000000{index}", ((1, 1, 1),))
        for index in range(3)
    )
    return Block(dataset, f"{dataset}#{uuid4()}", files)


@pytest.fixture
def registered(rucio: RucioClient, peer: RucioPeer, block: Block) -> Block:
    rucio.ensure_container(block.dataset)
    rucio.ensure_block(block.name, block.dataset, peer.source, block.files)
    return block


@pytest.fixture
def no_rucio_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Remove all configuration of Rucio; return the home directory, in which it would store files."""
    for name in ("RUCIO_CONFIG", "RUCIO_HOME", "VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("rucio.client.baseclient.BaseClient.TOKEN_PATH_PREFIX", f"{tmp_path}/token_")
    return tmp_path
