"""The Rucio servers the contract is tested against: always the lab's, and a real one where there is one.

A real server is named by WMS2_TEST_RUCIO_URL, _ACCOUNT, _USERNAME and _PASSWORD; it needs scope cms and
the storages T1_US_FNAL_Disk, T2_CH_CERN and T2_DE_DESY with the attributes tier, country and rse_type.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cms.rucio_session import RucioConfig
from cms.types import BlockFile
from lab.cms_world.known import Credentials
from lab.cms_world.server import running_world

REAL_URL = os.environ.get("WMS2_TEST_RUCIO_URL", "")


@dataclass(frozen=True)
class RucioPeer:
    """A server, who we are there, and two of its storages."""

    config: RucioConfig
    source: str = "T2_CH_CERN"
    destination: str = "T2_DE_DESY"


@dataclass(frozen=True)
class Block:
    """A block nobody used before, so that tests share a server without meeting."""

    dataset: str
    name: str
    files: tuple[BlockFile, ...]

    @property
    def lfns(self) -> list[str]:
        return [file.lfn for file in self.files]


def lab_peer(directory: Path) -> Iterator[RucioPeer]:
    known = Credentials()
    with running_world(directory) as world:
        url = f"{world.url}/rucio"
        yield RucioPeer(RucioConfig(url, url, known.account, known.username, known.password))


def real_peer(directory: Path) -> Iterator[RucioPeer]:
    account, username, password = (
        os.environ[f"WMS2_TEST_RUCIO_{key}"] for key in ("ACCOUNT", "USERNAME", "PASSWORD")
    )
    yield RucioPeer(RucioConfig(REAL_URL, REAL_URL, account, username, password))


PEERS: dict[str, Callable[[Path], Iterator[RucioPeer]]] = {"lab": lab_peer}
if REAL_URL:
    PEERS["real"] = real_peer
