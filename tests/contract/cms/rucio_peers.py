"""The Rucio servers the contract is tested against: the lab's, the same in virtual time, and a real one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import requests

from cms.rucio_session import RucioConfig
from cms.types import BlockFile
from lab.cms_world.known import Credentials
from lab.cms_world.server import running_world
from lab.simulator.clock import VirtualClock
from lab.simulator.cms import URL, SimulatedCms
from tests.contract.rucio_server.server import RealRucio, running_rucio

SOURCE, DESTINATION = "T2_CH_CERN", "T2_DE_DESY"


@dataclass(frozen=True)
class RucioPeer:
    """A server, our account there, two of its storages, and the outcome of transfers to the second.

    `carry_out` runs the due work of the server: transfers "arrive", "hang" or "fail".
    """

    config: RucioConfig
    carry_out: Callable[[str], None]
    server: RealRucio | None = None
    source: str = SOURCE
    destination: str = DESTINATION


@dataclass(frozen=True)
class Block:
    """A new block, so that tests share a server without conflicts."""

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

        def carry_out(transfers: str) -> None:
            delay = {"rule_delay_sec": 0 if transfers == "arrive" else 3600}
            requests.put(f"{world.url}/lab/settings", json=delay, timeout=10).raise_for_status()
            wanted = {"rse_expression": DESTINATION, "from": "REPLICATING"}
            if transfers == "fail":
                body = {**wanted, "to": "STUCK"}
                requests.put(f"{world.url}/lab/rules", json=body, timeout=10).raise_for_status()
            elif transfers == "arrive":
                body = {**wanted, "to": "REPLICATING"}  # again, with the new delay
                requests.put(f"{world.url}/lab/rules", json=body, timeout=10).raise_for_status()

        yield RucioPeer(
            RucioConfig(url, url, known.account, known.username, known.password), carry_out=carry_out
        )


def real_peer(directory: Path) -> Iterator[RucioPeer]:
    with running_rucio(directory) as server:

        def carry_out(transfers: str) -> None:
            hold = (DESTINATION,) if transfers == "hang" else ()
            fail = (DESTINATION,) if transfers == "fail" else ()
            server.tick(hold=hold, fail=fail)

        config = RucioConfig(server.url, server.url, server.account, server.username, server.password)
        yield RucioPeer(config, carry_out=carry_out, server=server)


def simulated_peer(directory: Path) -> Iterator[RucioPeer]:
    known, clock = Credentials(), VirtualClock(time.time())
    cms = SimulatedCms(directory, clock)

    def carry_out(transfers: str) -> None:
        cms.control("PUT", "settings", {"rule_delay_sec": 0 if transfers == "arrive" else 3600})
        wanted = {"rse_expression": DESTINATION, "from": "REPLICATING"}
        if transfers != "hang":
            cms.control("PUT", "rules", wanted | {"to": "STUCK" if transfers == "fail" else "REPLICATING"})

    with cms.reachable():
        url = f"{URL}/rucio"
        config = RucioConfig(url, url, known.account, known.username, known.password)
        yield RucioPeer(config, carry_out=carry_out)
    cms.answers.store.close()


PEERS: dict[str, Callable[[Path], Iterator[RucioPeer]]] = {
    "lab": lab_peer,
    "real": real_peer,
    "simulated": simulated_peer,
}
