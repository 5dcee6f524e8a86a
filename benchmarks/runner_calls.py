"""B23: calls of runners over HTTP, mixed as by one-hour jobs with five files and a heartbeat a minute."""

from __future__ import annotations

import http.client
import json
import threading
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count, repeat
from pathlib import Path
from random import Random
from statistics import median
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from django.conf import settings
from django.db import connection
from django.utils import timezone

from benchmarks.clients import serving
from benchmarks.dagfiles import scratch
from benchmarks.database import databases
from benchmarks.harness import Measured, percentile
from benchmarks.lending import PLACES, pull_database
from benchmarks.run import Run
from dags_app.models import Workflow
from dags_app.pull.tokens import TokenKind, group_subject, make_token
from requests_app.lifecycle.due import claim_requests
from requests_app.lifecycle.pulling import end_leases
from requests_app.models import Request
from requests_app.states import RequestStatus
from sites_app.models import Site

CLIENTS = 64
FILES, PULSES = 5, 12  # of a job; heartbeats before each file
JOBS = 2  # of a client, at full load and again as offered
CALLS = 3 + FILES * (PULSES + 1)  # of a job
OFFERED = 190  # calls a second of 10,000 such jobs
LONGEST_SEC = 0.5
CONTENT = b"x"  # of an output


class Client:
    """Jobs of one worker node, one after the other. Each call opens a connection, as those of a runner do.

    `arrivals` are the times at which its calls are due. Seconds count from there, however long the call had
    to wait for the one before it; a call that is due at 0 counts from when it is sent.
    """

    def __init__(self, url: str, workflow: Workflow, number: int, storage: Path) -> None:
        self._server, self._path = urlsplit(url).netloc, f"/api/v1/workflows/{workflow.pk}"
        self._number, self._storage = number, storage
        self._jobs = 0
        self.arrivals: Iterator[float] = repeat(0.0)
        self.taken: list[tuple[float, float]] = []  # when a call was due, and the seconds that it took
        self.done: list[str] = []
        subject = group_subject(round_number=0, group=0)
        self._token = make_token(
            key=settings.JOB_TOKEN_KEY, workflow_id=workflow.pk, kind=TokenKind.GROUP, subject=subject
        )

    def post(self, call: str, body: dict[str, Any], token: str) -> Any:
        due = next(self.arrivals)
        time.sleep(max(0.0, due - time.perf_counter()))
        began = due or time.perf_counter()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        server = http.client.HTTPConnection(self._server, timeout=60)
        try:
            server.request(
                "POST", f"{self._path}/{call}", json.dumps(body), headers | {"Connection": "close"}
            )
            answer = server.getresponse()
            content = answer.read()
        finally:
            server.close()
        self.taken.append((began, time.perf_counter() - began))
        assert answer.status == 200, f"{call} answered {answer.status}: {content[:300]!r}"
        return json.loads(content)

    def job(self) -> None:
        """Run one job."""
        self._jobs += 1
        body = {
            "node": f"proc_{1000 * self._number + self._jobs:06d}", "attempt": 0, "instance": str(uuid4()),
            "htcondor_id": "1.0", "site": f"T2_XX_{self._number % PLACES:02d}", "slot": "",
            "seconds_left": 3600,
        }  # fmt: skip
        started = self.post("runners", body, self._token)
        done = []
        for _ in range(FILES):
            for _ in range(PULSES):
                self.post("heartbeat", {}, started["runner_token"])
            lent = self.post("allocate", {"count": 1, "call": str(uuid4())}, started["files_token"])
            done += [file["lfn"] for file in lent["files"]]
        output = {
            "name": "a.root", "size_bytes": len(CONTENT), "adler32": f"{zlib.adler32(CONTENT):08x}",
            "events": 1, "lumis": [[1, 1, 1]],
        }  # fmt: skip
        recorded = self.post("record", {"processed": done, "outputs": [output]}, started["runner_token"])
        uploads = [{"name": one["name"], "site": self._upload(one)} for one in recorded["outputs"]]
        self.post("confirm", {"outputs": uploads}, started["runner_token"])
        self.done += done

    def _upload(self, output: dict[str, Any]) -> str:
        """Write the output to the first storage that was offered, and return its site."""
        site: str = output["sites"][0]
        path = Path(f"{self._storage}/{site}{output['lfn']}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(CONTENT)
        return site


def call_as_jobs(run: Run) -> Measured:
    """B23: calls a second of 64 clients while the sweep runs, first as many as are served, then as offered.

    The value is the rate under full load; it is reduced if of 190 calls a second, at times that are fixed
    beforehand, one in a hundred takes longer than 0.5 s. Clients begin one after the other, so that at any
    time some start, record or confirm.
    """
    name, workflow = pull_database(run, "calls", files=8 * CLIENTS * FILES * PLACES)
    Request.objects.update(status=RequestStatus.ACTIVE)
    storage = scratch()
    for number in range(PLACES):
        site = f"T2_XX_{number:02d}"
        Site.objects.create(name=site, storage_elements=[site], storage_prefixes=[f"{storage}/{site}"])
    with serving(run, name) as url, Sweeping():
        clients = [Client(url, workflow, number, storage) for number in range(CLIENTS)]
        began = time.perf_counter()
        full = [seconds for _, seconds in _work(clients)]
        rate = len(full) / (time.perf_counter() - began)
        interval = CLIENTS / run.size(OFFERED, 10 * OFFERED)  # between two calls of a client
        began = time.perf_counter()
        for number, client in enumerate(clients):
            first = began + number / CLIENTS * CALLS * interval
            client.arrivals = _arrivals(Random(number), first=first, interval=interval)
        steady = range(CALLS, 2 * CALLS)  # from when the last client has begun until the first one is through
        taken = _work(clients)
        offered = [seconds for due, seconds in taken if (due - began) // interval in steady]
    databases(run).use(name)
    done = [lfn for client in clients for lfn in client.done]
    assert len(done) == len(set(done)) == 2 * CLIENTS * JOBS * FILES, "a file was lent twice or not at all"
    assert workflow.input_files.filter(state="processed").count() == len(done), "a file was lost"
    slowest = percentile(offered, 99)
    note = (
        f"full load: {rate:,.0f} calls/s, p99 {1000 * percentile(full, 99):.0f} ms; {OFFERED:.0f}/s offered:"
        f" median {1000 * median(offered):.0f} ms, p99 {1000 * slowest:.0f} ms"
    )
    return Measured(rate * min(1.0, LONGEST_SEC / slowest), {"full": full, "offered": offered}, note=note)


def _work(clients: list[Client]) -> list[tuple[float, float]]:
    """Let every client run its jobs; return when each call was due, and its seconds."""
    for client in clients:
        client.taken.clear()

    def work(client: Client) -> None:
        for _ in range(JOBS):
            client.job()

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(work, clients))
    return [call for client in clients for call in client.taken]


def _arrivals(random: Random, *, first: float, interval: float) -> Iterator[float]:
    """Yield the times of one client's calls: one in each interval, at random."""
    return (first + (number + random.random()) * interval for number in count())


class Sweeping:
    """The sweep of a running stack, once a second, beside the calls."""

    def __enter__(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sweep, daemon=True)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _sweep(self) -> None:
        while not self._over.wait(1.0):
            end_leases(now=timezone.now())
            list(claim_requests())
        connection.close()
