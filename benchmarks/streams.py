"""B26: two hundred open home pages on one streams process: its CPU at rest, and the delay of changes."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import requests
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from benchmarks.database import databases
from benchmarks.harness import Measured, percentile
from benchmarks.places import with_path
from benchmarks.run import NotRun, Run
from lab.fleet.seeding import seed_fleet
from requests_app.models import Request
from requests_app.states import RequestStatus
from requests_app.transitions import transition

PAGES, PAGES_OF_USER = 200, 25
CHANGES_PER_SEC = 10
CPU_BAR, DELAY_BAR_SEC = 0.05, 1.0
START_SEC = 60.0
HELD = re.compile(rb"<b>(\d+)</b> held")
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Arrivals:
    """Data received by a page: times at which it showed numbers of held requests, and bytes read."""

    seen: list[tuple[float, int]] = field(default_factory=list)
    received: int = 0  # bytes

    def delay(self, held: int, changed_at: float) -> float | None:
        """Return the seconds until the page showed that this number of requests is held."""
        return next((at - changed_at for at, count in self.seen if count >= held), None)


def keep_pages_live(run: Run) -> Measured:
    """B26: the larger of CPU at rest and delay, each divided by its limit."""
    made = databases(run)
    name = made.copy("streams")
    made.use(name)
    seed_fleet(requests=run.size(300, 60), seed=1, now=timezone.now())
    pages, changes = run.size(PAGES, 20), run.size(80, 10)
    cookies = [_log_in(number) for number in range(-(-pages // PAGES_OF_USER))]
    with serving(with_path(run.places.database_server, name)) as (port, process):
        found = asyncio.run(_measure(port, process.pid, cookies, pages, changes, run.size(20, 2)))
    worst = percentile(found.delays, 99)
    note = (
        f"{pages} pages: {100 * found.rest:.2f} % of a core at rest; {changes} changes at {CHANGES_PER_SEC}/s"
        f" shown after {1000 * median(found.delays):.0f} ms, p99 {1000 * worst:.0f} ms,"
        f" for {1000 * found.cpu_per_change_sec:.0f} ms of CPU and {found.bytes_per_change / 1000:.1f} kB per"
        " page each"
    )
    used = max(found.rest / CPU_BAR, worst / DELAY_BAR_SEC)
    return Measured(used, {"seconds": found.delays}, note=note)


@dataclass(frozen=True, slots=True)
class Found:
    """CPU share of the process at rest, its CPU time per change, and the delay of changes on each page."""

    rest: float
    cpu_per_change_sec: float
    bytes_per_change: float
    delays: list[float]


async def _measure(
    port: int, pid: int, cookies: list[str], pages: int, changes: int, seconds: float
) -> Found:
    """Open the pages, wait, then change requests."""
    arrivals = [Arrivals() for _ in range(pages)]
    opened = [asyncio.Event() for _ in range(pages)]
    tasks = [
        asyncio.create_task(_page(port, cookies[number // PAGES_OF_USER], arrivals[number], opened[number]))
        for number in range(pages)
    ]
    async with asyncio.timeout(START_SEC):
        await asyncio.gather(*(one.wait() for one in opened))
    began, used = time.monotonic(), _cpu_seconds(pid)
    await asyncio.sleep(seconds)
    rest = (_cpu_seconds(pid) - used) / (time.monotonic() - began)
    used, received = _cpu_seconds(pid), sum(one.received for one in arrivals)
    changed = await _hold_requests(changes)
    async with asyncio.timeout(START_SEC):
        last = max(changed)
        while any(one.delay(last, 0.0) is None for one in arrivals):
            await asyncio.sleep(0.05)
    spent = _cpu_seconds(pid) - used
    received = sum(one.received for one in arrivals) - received
    for task in tasks:
        task.cancel()
    found = [one.delay(held, at) for one in arrivals for held, at in changed.items()]
    delays = [delay for delay in found if delay is not None]
    return Found(rest, spent / len(changed), received / len(changed) / pages, delays)


async def _hold_requests(changes: int) -> dict[int, float]:
    """Hold one request after the other. Return the time of each change by the number of held requests."""
    held = await Request.objects.filter(status=RequestStatus.HELD).acount()
    rows = [row async for row in Request.objects.filter(status=RequestStatus.ACTIVE)[:changes]]
    changed = {}
    for number, row in enumerate(rows, start=1):
        next_at = time.monotonic() + 1 / CHANGES_PER_SEC
        await sync_to_async(transition, thread_sensitive=True)(
            request=row, to=RequestStatus.HELD, reason="a benchmark", actor="system:benchmark"
        )
        changed[held + number] = time.monotonic()
        await asyncio.sleep(max(0.0, next_at - time.monotonic()))
    return changed


async def _page(port: int, cookie: str, arrivals: Arrivals, opened: asyncio.Event) -> None:
    """Behave like an open home page: subscribe, and record what arrives."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
    query = "fragment=home/&etag=none"
    headers = f"Host: 127.0.0.1\r\nCookie: {settings.SESSION_COOKIE_NAME}={cookie}\r\n\r\n"
    writer.write(f"GET /streams/events?{query} HTTP/1.1\r\n{headers}".encode())
    try:
        while line := await reader.readline():
            arrivals.received += len(line)
            if line.startswith(b"data: ") and (found := HELD.search(line)):
                arrivals.seen.append((time.monotonic(), int(found[1])))
                opened.set()
    finally:
        writer.close()


def _log_in(number: int) -> str:
    browser = Client(headers={"host": settings.ALLOWED_HOSTS[0]})
    browser.force_login(User.objects.create_superuser(f"person{number}"))
    return str(browser.cookies[settings.SESSION_COOKIE_NAME].value)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@contextmanager
def serving(database: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Run a separate streams process on this database; yield its port and process."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [
        *(sys.executable, "-m", "uvicorn", "console.streams.asgi:application", "--port", str(port)),
        *("--no-access-log", "--log-level", "error", "--timeout-graceful-shutdown", "1"),
    ]
    environment = os.environ | {
        "DATABASE_URL": database,
        "REDIS_URL": settings.REDIS_URL,
        "WMS2_WEB_ADDRESS": "",
    }
    process = subprocess.Popen(command, env=environment, cwd=Path(__file__).parent.parent)
    try:
        _wait(port, process)
        yield port, process
    finally:
        process.terminate()
        process.wait(timeout=30)


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_SEC
    while process.poll() is None and time.monotonic() < end:
        try:
            if requests.get(f"http://127.0.0.1:{port}/streams/livez", timeout=2).ok:
                return
        except requests.RequestException:
            time.sleep(0.1)
    raise NotRun(f"the streams process did not answer within {START_SEC:.0f} s")
