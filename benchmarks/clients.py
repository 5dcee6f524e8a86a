"""B17: twenty concurrent clients on a database of a million requests, served by gunicorn as in the stack."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from statistics import median

import requests

from benchmarks.harness import Measured, percentile
from benchmarks.places import with_path
from benchmarks.population import Population, population
from benchmarks.run import NotRun, Run

CLIENTS = 20
START_SEC = 60.0


def paths(everything: Population) -> list[str]:
    """Return typical paths of users and portals: pages, filters, single requests."""
    newest = f"benchmark_{everything.rows}"
    return [
        "requests",
        "requests?status=active",
        "requests?status=completed&page_size=20",
        "requests?campaign=Muons2031&page_size=20",
        "requests?requestor=ana&fields=request_name,status",
        "requests?ordering=request_name&page_size=20",
        f"requests?name={newest}",
        f"requests/{newest}",
        f"requests/{newest}/progress",
        f"requests/{newest}/timeline",
        "admission/queue",
    ]


def many_clients(run: Run) -> Measured:
    """B17: the p99 of response times, against its limit."""
    everything = population(run)
    with serving(run, everything.many) as url:
        asked = paths(everything)
        times = run.size(55, len(asked))

        def client(number: int) -> list[tuple[str, float]]:
            with requests.Session() as session:
                session.headers["Authorization"] = f"Bearer {everything.token}"
                return [one(session, url, path) for path in islice(cycle(asked), number, number + times)]

        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(client, range(CLIENTS)))  # warms every worker and every connection
            taken = [pair for pairs in pool.map(client, range(CLIENTS)) for pair in pairs]
    seconds = [second for _, second in taken]
    slowest = max(asked, key=lambda path: percentile([s for p, s in taken if p == path], 99))
    note = (
        f"{everything.rows:,} rows, {len(seconds)} answers, median {1000 * median(seconds):.0f} ms; "
        f"slowest: {slowest}"
    )
    return Measured(1000 * percentile(seconds, 99), {"seconds": seconds}, note=note)


def one(session: requests.Session, url: str, path: str) -> tuple[str, float]:
    """Fetch the path. Return it with the seconds of the response."""
    began = time.perf_counter()
    answer = session.get(f"{url}/api/v1/{path}", timeout=30)
    seconds = time.perf_counter() - began
    assert answer.status_code == 200, f"{path} answered {answer.status_code}: {answer.text[:300]}"
    return path, seconds


@contextmanager
def serving(run: Run, database: str) -> Iterator[str]:
    """Run a separate gunicorn on this database and stop it afterwards."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{found.getsockname()[1]}"
    command = [
        *(sys.executable, "-m", "gunicorn", "wms2_project.wsgi", "--bind", address, "--workers", "2"),
        *("--threads", "4", "--preload", "--no-control-socket", "--log-level", "error"),
    ]
    server = run.places.database_server
    environment = os.environ | {"DATABASE_URL": with_path(server, database)}
    process = subprocess.Popen(command, env=environment, cwd=Path(__file__).parent.parent)
    try:
        _wait(f"http://{address}", process)
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(timeout=30)


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_SEC
    while process.poll() is None and time.monotonic() < end:
        try:
            if requests.get(f"{url}/api/v1/livez", timeout=2).ok:
                return
        except requests.RequestException:  # not listening yet, or still starting
            time.sleep(0.1)
    raise NotRun(f"gunicorn did not answer within {START_SEC:.0f} s")
