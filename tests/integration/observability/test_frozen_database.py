"""A PostgreSQL that is frozen, connections and all, makes the web process answer 503, not wait.

The server is the test's own.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lab.services.postgres import accepts, make_cluster

WITHIN_SEC = 5.0
PATIENCE_SEC = 60.0  # after which the test itself gives up
PASSWORD = "of-a-test"


@dataclass(frozen=True)
class Server:
    """A private PostgreSQL."""

    pid: int
    port: int

    @property
    def url(self) -> str:
        return f"postgres://wms2:{PASSWORD}@127.0.0.1:{self.port}/wms2"

    def children(self) -> list[int]:
        stats = (path.read_text() for path in Path("/proc").glob("[0-9]*/stat") if path.exists())
        found = [stat.rpartition(")")[2].split()[1:2] + stat.split()[:1] for stat in stats]
        return [int(pid) for parent, pid in found if int(parent) == self.pid]

    def signal(self, number: signal.Signals) -> None:
        """Signal all processes, the postmaster first, so that it starts no others meanwhile."""
        os.kill(self.pid, number)
        for pid in self.children():
            with suppress(ProcessLookupError):
                os.kill(pid, number)


class Web:
    """A web process that uses the server."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        assert select.select([self._process.stdout], [], [], PATIENCE_SEC)[0], "it still waits"
        return dict(json.loads(self._process.stdout.readline()))

    def __call__(self, command: str) -> dict[str, Any]:
        self.ask(command)
        return self.answer()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("frozen")
    (root / "password").write_text(PASSWORD)
    binaries = make_cluster(root / "pg", root / "password", root)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    argv = [str(binaries / "postgres"), "-D", str(root / "pg"), "-p", str(port), "-k", "",
            "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "shared_buffers=16MB"]  # fmt: skip
    with (root / "log").open("wb") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log)
    try:
        wait_for(lambda: accepts(port, PASSWORD, {}))
        yield Server(process.pid, port)
    finally:
        process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGINT)
        process.wait()


@pytest.fixture(scope="module")
def process(server: Server) -> Iterator[Web]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.integration.observability.web_process"],
        cwd=Path(__file__).parents[3], env=os.environ | {"DATABASE_URL": server.url},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        web = Web(process)
        for path in ("/admin/", "/api/v1/me", "/api/v1/readyz"):  # what a running process has loaded
            web(f"GET {path}")
        try:
            yield web
        finally:
            server.signal(signal.SIGCONT)
            process.kill()


@pytest.fixture
def web(process: Web, server: Server) -> Iterator[Web]:
    """Yield the connected process; connect it again after the test."""
    assert process("SQL SELECT 'up'")["rows"] == ["up"]
    yield process
    server.signal(signal.SIGCONT)
    wait_for(lambda: "rows" in process("SQL SELECT 'up again'"))


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def backend_of(server: Server, query: str) -> int:
    """Return the server process that runs, or last ran, this statement."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        sql = "SELECT pid FROM pg_stat_activity WHERE query = %s"
        wait_for(lambda: connection.execute(sql, [query]).fetchone() is not None)
        row = connection.execute(sql, [query]).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("connected", [True, False])
@pytest.mark.parametrize("path", ["/api/v1/me", "/admin/", "/api/v1/readyz"])
def test_a_frozen_server_is_a_503_within_seconds(
    server: Server, web: Web, path: str, *, connected: bool
) -> None:
    if not connected:
        web("CLOSE")
    server.signal(signal.SIGSTOP)
    answer = web(f"GET {path}")
    assert answer["seconds"] < WITHIN_SEC
    assert answer["status"] == 503
    if path != "/api/v1/readyz":
        assert int(answer["headers"]["Retry-After"]) > 0


def test_a_statement_that_waits_when_the_server_freezes_is_given_up(server: Server, web: Web) -> None:
    slow = "SELECT pg_sleep(600)"
    web.ask(f"SQL {slow}")
    backend_of(server, slow)
    frozen_at = time.monotonic()
    server.signal(signal.SIGSTOP)
    result = web.answer()
    assert (result["error"], time.monotonic() - frozen_at < WITHIN_SEC) == ("OperationalError", True)


def test_a_slow_statement_of_a_server_that_answers_is_waited_for(web: Web) -> None:
    assert web("SQL SELECT 'slow' FROM pg_sleep(4)")["rows"] == ["slow"]


def test_a_frozen_backend_alone_costs_a_new_connection(server: Server, web: Web) -> None:
    web("SQL SELECT 'once'")
    os.kill(backend_of(server, "SELECT 'once'"), signal.SIGSTOP)
    body = web("GET /api/v1/readyz")
    assert json.loads(body["body"])["parts"]["database"] == "ok"
    assert body["seconds"] < WITHIN_SEC
