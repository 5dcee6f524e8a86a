"""Web and streams processes for the browser tests, on a database of their own.

No worker runs, so rows change only when a test changes them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg
from psycopg import sql

from lab.ports import PortBook
from lab.services.postgres import MIGRATED_COPY
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
BINARIES = Path(sys.executable).parent


@contextmanager
def own_database() -> Iterator[str]:
    """Create a database beside that of the stack, yield its URL, and drop it."""
    given = os.environ["DATABASE_URL"]
    name, template = f"wms2_browser_{uuid4().hex[:8]}", os.environ.get(MIGRATED_COPY) or "template1"
    with psycopg.connect(given, autocommit=True) as server:
        server.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
        )
        try:
            yield urlunsplit(urlsplit(given)._replace(path=f"/{name}"))
        finally:
            server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


class Server:
    """The console: its address, and its two processes, which a test may stop and start."""

    def __init__(self, database: str, work: Path) -> None:
        ports = PortBook(work / "ports.json")
        self.work = work
        self.web, self.streams = (f"127.0.0.1:{ports.pick(name)}" for name in ("web", "streams"))
        self.url = f"http://{self.web}"
        self.flower = f"http://127.0.0.1:{ports.pick('flower')}"
        self.environment = {
            **os.environ,
            "DATABASE_URL": database,
            "WMS2_MIGRATE_DATABASE_URL": "",
            "WMS2_WEB_ADDRESS": self.web,
            "WMS2_STREAMS_PORT": self.streams.rpartition(":")[2],
            "WMS2_TRACES": "",
            "WMS2_URL": self.url,
            "FLOWER_URL": self.flower,
            "FLOWER_BASIC_AUTH": "operator:not-used-by-browsers",
        }
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def manage(self, *arguments: str) -> None:
        """Run a management command."""
        argv = [sys.executable, "manage.py", *arguments]
        done = subprocess.run(argv, cwd=ROOT, env=self.environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-4000:]

    def start_web(self) -> None:
        argv = ["gunicorn", "wms2_project.wsgi", "--bind", self.web, "--threads", "8", "--no-control-socket"]
        self._start("web", argv, f"{self.url}/api/v1/livez")

    def start_streams(self) -> None:
        host, _, port = self.streams.partition(":")
        argv = ["uvicorn", "console.streams.asgi:application", "--host", host, "--port", port]
        argv += ["--no-access-log", "--timeout-graceful-shutdown", "1"]
        self._start("streams", argv, f"http://{self.streams}/streams/livez")

    def start_flower(self) -> None:
        address, _, port = self.flower.removeprefix("http://").partition(":")
        argv = ["python", "-m", "wms2_project.flower", f"--address={address}", f"--port={port}"]
        self._start("flower", argv, f"{self.flower}/healthcheck")

    def stop(self, name: str) -> None:
        """End a process at once, as a crash does; web's workers notice and end too."""
        process = self._running.pop(name)
        process.terminate()
        process.wait(timeout=60)

    def stop_all(self) -> None:
        for name in list(self._running):
            self.stop(name)

    def _start(self, name: str, argv: list[str], ready: str) -> None:
        log = self.work / f"{name}.log"
        with log.open("ab") as out:
            process = subprocess.Popen(
                [str(BINARIES / argv[0]), *argv[1:]],
                cwd=ROOT, env=self.environment, stdout=out, stderr=out,
            )  # fmt: skip
        self._running[name] = process

        def answers() -> bool:
            assert process.poll() is None, log.read_text()[-4000:]
            try:
                with urllib.request.urlopen(ready, timeout=5) as answer:
                    return bool(answer.status == 200)
            except OSError:
                return False

        until(answers, seconds=120, why=f"{name} does not answer")
