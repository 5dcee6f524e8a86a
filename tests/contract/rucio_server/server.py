"""A real Rucio server for the length of a test run: its own virtual environment, database and port.

`./wms2 test` makes the environment once and names it in WMS2_RUCIO_VENV. Where it could not be made the
tests that need the server fail; they are never skipped.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlsplit, urlunsplit
from urllib.request import urlopen
from uuid import uuid4

import psycopg

from lab.grid.certificates import Certificates
from lab.processes import MARK
from tests.issuing import CLIENT_ID, RunningIssuer

HERE = Path(__file__).parent
PASSWORD = "contract"
TOKEN_AUDIENCE, TOKEN_SCOPE = "rucio", "openid profile"
START_SEC, STOP_SEC = 300.0, 10.0


class NoRealRucio(AssertionError):
    """The contract cannot be tested against the real thing, and that is a failure."""


@dataclass(frozen=True)
class RealRucio:
    """A running server, and its daemons, which run on demand."""

    url: str
    daemons: subprocess.Popen[str]
    environment: dict[str, str]
    account: str = "root"
    username: str = "contract"
    password: str = PASSWORD

    def tick(self, *, hold: tuple[str, ...] = (), fail: tuple[str, ...] = ()) -> None:
        """Run one pass of every daemon; transfers to these storages stay unfinished, or fail."""
        assert self.daemons.stdin is not None
        assert self.daemons.stdout is not None
        self.daemons.stdin.write(json.dumps({"hold": hold, "fail": fail}) + "\n")
        self.daemons.stdin.flush()
        if self.daemons.stdout.readline() != "done\n":
            raise NoRealRucio("Rucio's daemons died; see daemons.log in the test's directory")


@contextmanager
def running_rucio(directory: Path) -> Iterator[RealRucio]:
    """Run database, schema, server and daemons; remove all afterwards."""
    python = _python()
    with _database() as database:
        env = _environment(directory, python, database)
        _run(python, "bootstrap", env, directory)
        with socket.create_server(
            ("127.0.0.1", 0)
        ) as listener:  # passed to the server, so that the port stays reserved
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            argv = [python.parent / "gunicorn", *_options(listener.fileno(), directory)]
            server = _spawn(argv, env, directory / "server.log", pass_fds=(listener.fileno(),))
        daemons = _spawn([python, HERE / "daemons.py"], env, directory / "daemons.log")
        try:
            _await(f"{url}/ping", server, directory)
            yield RealRucio(url, daemons, env)
        finally:
            for process in (daemons, server):
                _stop(process)


@contextmanager
def tls_front(
    server: RealRucio, directory: Path, *, certificates: Certificates, issuer: RunningIssuer
) -> Iterator[str]:
    """Serve the same server by https, for clients with certificates of the CA and tokens of the issuer."""
    client = {"client_id": CLIENT_ID, "client_secret": "unused", "redirect_uris": [f"{issuer.url}/unused"]}
    secrets = directory / "idpsecrets.json"
    secrets.write_text(json.dumps({"lab": client | {"issuer": issuer.url, "SCIM": client}}))
    config = directory / "rucio.cfg"
    oidc = f"[oidc]\nidpsecrets = {secrets}\nadmin_issuer = lab\nexpected_audience = {TOKEN_AUDIENCE}\n"
    config.write_text(Path(server.environment["RUCIO_CONFIG"]).read_text() + oidc)
    env = server.environment | {
        "RUCIO_CONFIG": str(config),
        "RUCIO_FRONT_CERTIFICATES": str(certificates.directory),
        "REQUESTS_CA_BUNDLE": str(certificates.ca),  # by which it knows the issuer
        "NO_PROXY": "localhost",
    }
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"https://localhost:{listener.getsockname()[1]}"
        options = {
            "-c": str(HERE / "tls_front.py"),
            "--pythonpath": str(HERE),
            "--bind": f"fd://{listener.fileno()}",
        }
        words = [word for option in options.items() for word in option]
        argv = [_python().parent / "gunicorn", *words, "--chdir", str(directory), "tls_front:application"]
        front = _spawn(argv, env, directory / "server.log", pass_fds=(listener.fileno(),))
    try:
        _await(f"{url}/ping", front, directory, ca=certificates.ca)
        yield url
    finally:
        _stop(front)


def _python() -> Path:
    venv = os.environ.get("WMS2_RUCIO_VENV", "")
    python = Path(venv) / "bin" / "python"
    if not venv or not python.exists():
        raise NoRealRucio(
            f"there is no Rucio server in WMS2_RUCIO_VENV={venv!r}: run the contract tier by ./wms2 test, "
            "and see install-python.log in its cache if the packages could not be installed"
        )
    return python


@contextmanager
def _database() -> Iterator[str]:
    """Create a separate database on the PostgreSQL of the stack."""
    url, name = os.environ["DATABASE_URL"], f"rucio_{uuid4().hex[:12]}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        try:
            yield urlunsplit(urlsplit(url)._replace(scheme="postgresql+psycopg", path=f"/{name}"))
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _environment(directory: Path, python: Path, database: str) -> dict[str, str]:
    package = next(python.parent.parent.glob("lib/python*/site-packages/rucio"))
    values = {"database": database, "run": directory, "password": PASSWORD, "package": package}
    for name in ("rucio.cfg", "alembic.ini"):
        text = (HERE / f"{name}.template").read_text()
        for key, value in values.items():
            text = text.replace(f"@{key}@", str(value))
        (directory / name).write_text(text)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(directory),
        "LC_ALL": "C.UTF-8",
        "RUCIO_CONFIG": str(directory / "rucio.cfg"),
        "PYTHONPATH": str(HERE / "policy"),
        "PYTHONWARNINGS": "ignore",
        "TMPDIR": str(directory),
        MARK: os.environ.get(MARK, ""),  # by which the test run finds what an interrupted test left
    }


def _options(listener: int, directory: Path) -> list[str]:
    options = {
        "--bind": f"fd://{listener}",
        "--workers": "2",
        "--timeout": "120",
        "--graceful-timeout": "1",
        "--chdir": str(directory),
    }
    return [*(text for pair in options.items() for text in pair), "rucio.web.rest.main:application"]


def _run(python: Path, script: str, env: dict[str, str], directory: Path) -> None:
    log = directory / f"{script}.log"
    with log.open("wb") as out:
        done = subprocess.run(
            [python, HERE / f"{script}.py"], env=env, stdout=out, stderr=out, check=False, timeout=START_SEC
        )
    if done.returncode:
        raise NoRealRucio(f"{script} of the Rucio server failed:\n{log.read_text()[-2000:]}")


def _spawn(
    argv: list[str | Path], env: dict[str, str], log: Path, pass_fds: tuple[int, ...] = ()
) -> subprocess.Popen[str]:
    with log.open("wb") as out:
        return subprocess.Popen(
            argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE if "daemons" in log.name else out,
            stderr=out, text=True, pass_fds=pass_fds,
        )  # fmt: skip


def _await(url: str, server: subprocess.Popen[str], directory: Path, *, ca: Path | None = None) -> None:
    end = time.monotonic() + START_SEC
    context = ssl.create_default_context(cafile=ca) if ca else None
    while time.monotonic() < end and server.poll() is None:
        try:
            with urlopen(url, timeout=5, context=context):
                return
        except (URLError, OSError):
            time.sleep(0.1)
    log = (directory / "server.log").read_text()[-2000:]
    raise NoRealRucio(f"the Rucio server did not come up:\n{log}")


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SEC)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
