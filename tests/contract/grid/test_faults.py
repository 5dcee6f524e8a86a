"""Effects of each fault on clients, on a grid that no other test uses."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from lab.client import running_stack
from lab.grid.description import Grid, grid_file
from lab.grid.faults import SiteFaults
from lab.paths import Layout
from lab.state import load_state
from tests.contract.grid.conftest import HERE, THERE
from tests.contract.grid.webdav import Client, checksum

ROOT = Path(__file__).resolve().parents[3]
LFN, NEW = "/store/data/input.root", "/store/unmerged/output.root"
CONTENT = b"event" * 10_000


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Layout]:
    """Yield a running stack that is nothing but a grid of two sites."""
    home = tmp_path_factory.mktemp("grid")
    made = Layout(home=home, app=ROOT, venv=Path(sys.prefix))
    own = {"WMS2_HOME": str(home), "WMS2_SERVICES": "grid", "WMS2_POOL_SITES": f"{HERE} {THERE}"}
    with running_stack(made, speak=lambda _text: None, variables={**os.environ, **own}):
        yield made


@pytest.fixture(scope="module")
def client(layout: Layout) -> Client:
    made = Client(Grid.load(grid_file(layout.data)))
    for site in (HERE, THERE):
        assert made.status("PUT", site, LFN, body=CONTENT) == 201
    return made


@pytest.fixture
def site(client: Client, layout: Layout) -> Iterator[SiteFaults]:
    """Yield the faults of one site, which has none before and after."""
    faults = SiteFaults.of(layout, client.grid, HERE)
    yield faults
    faults.clear()
    assert faults.active() == []
    assert client.ask("GET", HERE, LFN).content == CONTENT
    client.ask("DELETE", HERE, NEW)


def test_down_refuses_connections_until_cleared(client: Client, site: SiteFaults) -> None:
    site.down()

    with pytest.raises(requests.ConnectionError):
        client.ask("GET", HERE, LFN)
    assert client.status("GET", THERE, LFN) == 200
    assert site.active() == ["down"]


def test_hang_gives_no_answer(client: Client, site: SiteFaults) -> None:
    site.hang()

    with pytest.raises(requests.Timeout):
        client.ask("GET", HERE, LFN, timeout_sec=0.5)
    assert site.active() == ["hang"]


def test_slow_limits_the_rate_of_reading_and_writing(client: Client, site: SiteFaults) -> None:
    site.slow(20_000)

    for method, lfn, body in (("GET", LFN, b""), ("PUT", NEW, CONTENT)):
        began = time.monotonic()
        answer = client.ask(method, HERE, lfn, body=body)
        assert time.monotonic() - began > 0.9  # 50 kB in portions of 20 kB, one portion a second
        assert answer.ok
    assert client.adler32(HERE, NEW) == checksum(CONTENT)
    assert site.active() == ["slow 20000"]


def test_full_refuses_new_files_and_keeps_the_old_ones(client: Client, site: SiteFaults) -> None:
    site.full()

    answer = client.ask("PUT", HERE, NEW, body=b"x")

    assert answer.status_code == 500  # dCache and others answer 507
    assert "no space left" in answer.text
    assert client.ask("GET", HERE, LFN).content == CONTENT
    assert not client.site(HERE).path(NEW).exists()


def test_deny_refuses_every_token(client: Client, site: SiteFaults) -> None:
    site.deny()

    assert client.status("GET", HERE, LFN) == 403
    assert client.status("GET", THERE, LFN) == 200


def test_corrupt_changes_one_replica_and_its_checksum(client: Client, site: SiteFaults) -> None:
    before = client.adler32(HERE, LFN)

    site.corrupt(LFN)

    answer = client.ask("GET", HERE, LFN)
    assert len(answer.content) == len(CONTENT)
    assert answer.content != CONTENT
    assert client.adler32(HERE, LFN) == checksum(answer.content) != before
    assert client.ask("GET", THERE, LFN).content == CONTENT
    site.clear()
    assert client.adler32(HERE, LFN) == before


def test_lose_hides_one_replica(client: Client, site: SiteFaults) -> None:
    site.lose(LFN)

    assert client.status("GET", HERE, LFN) == 404
    assert client.status("GET", THERE, LFN) == 200


def test_faults_add_up(client: Client, site: SiteFaults) -> None:
    site.deny()
    site.down()
    site.full()

    assert site.active() == ["down", "full", "deny"]
    with pytest.raises(requests.ConnectionError):
        client.ask("GET", HERE, LFN)


def test_a_killed_server_is_restarted(client: Client, layout: Layout, site: SiteFaults) -> None:
    state = load_state(layout)
    assert state is not None
    pid = next(service.pid for service in state.services if service.name == client.site(HERE).service)

    os.kill(pid, 9)

    end = time.monotonic() + 60
    while True:
        try:
            assert client.ask("GET", HERE, LFN).content == CONTENT
            return
        except requests.ConnectionError:
            assert time.monotonic() < end
            time.sleep(0.05)
