"""Clients that send half a request hold no thread of WMS2, because the proxy in front waits for the rest."""

from __future__ import annotations

import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from lab.ports import PortBook
from tests.integration.receiver import certificate

__all__ = ["certificate"]  # a fixture
ROOT = Path(__file__).resolve().parents[2]
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
HALF = {
    "nothing": b"",
    "half of the headers": b"GET /api/v1/livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
    "half of the body": (
        b"POST /api/v1/requests HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 1000\r\n\r\n{"
    ),
}
EACH = 12  # of each kind: more than the web process has threads
BLOCKED_SEC = 5.0
PATIENCE_SEC = 300.0  # of a busy machine; a blocked server would need as long as the clients stay
START_SEC = 120.0


@contextmanager
def running(argv: list[str], port: int, log: Path, **environment: str) -> Iterator[None]:
    """Run the server until the block ends; it takes connections at `port` when the block begins."""
    with log.open("wb") as out:
        process = subprocess.Popen(argv, env={**os.environ, **environment}, stdout=out, stderr=out, cwd=ROOT)
    try:
        end = time.monotonic() + START_SEC
        while not accepts(port):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)


def accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def ports(tmp_path: Path) -> dict[str, int]:
    book = PortBook(tmp_path / "ports.json")
    return {name: book.pick(name) for name in ("web", "proxy")}


@pytest.fixture
def web(tmp_path: Path, ports: dict[str, int]) -> Iterator[int]:
    """Yield WMS2's web process with four threads, as behind the proxy."""
    gunicorn = [
        str(Path(sys.executable).with_name("gunicorn")),
        "wms2_project.wsgi",
        "--no-control-socket",
        "--preload",
    ]
    argv = [*gunicorn, "--bind", f"127.0.0.1:{ports['web']}", "--workers", "1", "--threads", "4"]
    argv += ["--graceful-timeout", "1"]
    with running(argv, ports["web"], tmp_path / "web.log"):
        yield ports["web"]


@pytest.fixture
def proxy(tmp_path: Path, web: int, ports: dict[str, int], certificate: Path) -> Iterator[int]:
    """Run nginx with the deployed configuration, except for addresses and files."""
    for name in ("server.crt", "server.key", "clients.pem"):
        shutil.copy(certificate, tmp_path / name)
    text = (ROOT / "deploy/nginx/nginx.conf").read_text()
    for old, new in {
        "server web:8000": f"server 127.0.0.1:{web}",
        "server streams:8001": "server 127.0.0.1:1",
        "listen 8443": f"listen 127.0.0.1:{ports['proxy']}",
        "/etc/wms2/tls": str(tmp_path),
        "client_header_timeout 10s": "client_header_timeout 900s",  # they stay half open all the time
        "client_body_timeout 10s": "client_body_timeout 900s",
        "/dev/stdout": str(tmp_path / "access.log"),
        " /tmp/": f" {tmp_path}/",
    }.items():
        assert old in text
        text = text.replace(old, new)
    config = tmp_path / "nginx.conf"
    config.write_text(re.sub(r"worker_processes auto", "worker_processes 1", text))
    argv = [str(NGINX), "-c", str(config), "-e", "stderr", "-g", "daemon off;"]
    with running(argv, ports["proxy"], tmp_path / "nginx.log"):
        yield ports["proxy"]


@contextmanager
def half_open(port: int, *, tls: ssl.SSLContext | None) -> Iterator[None]:
    with ExitStack() as opened:
        for sent in HALF.values():
            for _ in range(EACH):
                client = opened.enter_context(
                    socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SEC)
                )
                if tls is not None:
                    client = opened.enter_context(tls.wrap_socket(client, server_hostname="localhost"))
                client.sendall(sent)
        yield


def health(url: str, context: ssl.SSLContext | None = None, *, timeout: float = PATIENCE_SEC) -> int:
    with urllib.request.urlopen(url, timeout=timeout, context=context) as answer:
        return int(answer.status)


def test_without_the_proxy_half_open_connections_block_the_web(web: int) -> None:
    """This is the reason for the proxy: if the test fails, the proxy is not needed any more."""
    url = f"http://127.0.0.1:{web}/api/v1/livez"
    assert health(url) == 200
    with half_open(web, tls=None), pytest.raises(OSError, match="timed out"):
        health(url, timeout=BLOCKED_SEC)


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
def test_half_open_connections_to_the_proxy_do_not_block_others(
    web: int, proxy: int, certificate: Path
) -> None:
    tls = ssl.create_default_context(cafile=str(certificate))
    through, direct = f"https://localhost:{proxy}/api/v1/livez", f"http://127.0.0.1:{web}/api/v1/livez"
    assert health(through, tls) == 200
    with half_open(proxy, tls=tls):
        for _ in range(5):
            assert health(through, tls) == 200
            assert health(direct) == 200  # the container's own health check
