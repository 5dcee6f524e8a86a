"""B23: calls of runners over HTTP, mixed as by one-hour jobs with five files and a heartbeat a minute."""

from __future__ import annotations

import threading
import time
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import requests
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
LONGEST_SEC = 0.5
CONTENT = b"x"  # of an output
Taken = list[tuple[str, float]]


class Client:
    """Jobs of one worker node, one after the other."""

    def __init__(self, url: str, workflow: Workflow, number: int, storage: Path) -> None:
        self._url, self._workflow, self._number = f"{url}/api/v1/workflows/{workflow.pk}", workflow, number
        self._storage = storage
        self._session = requests.Session()
        self.taken: Taken = []
        subject = group_subject(round_number=0, group=0)
        self._token = make_token(
            key=settings.JOB_TOKEN_KEY, workflow_id=workflow.pk, kind=TokenKind.GROUP, subject=subject
        )

    def post(self, call: str, body: dict[str, Any], token: str) -> Any:
        began = time.perf_counter()
        answer = self._session.post(
            f"{self._url}/{call}", json=body, headers={"Authorization": f"Bearer {token}"}, timeout=60
        )
        self.taken.append((call, time.perf_counter() - began))
        assert answer.status_code == 200, f"{call} answered {answer.status_code}: {answer.text[:300]}"
        return answer.json()

    def job(self, number: int) -> list[str]:
        """Run one job and return the files that it processed."""
        body = {
            "node": f"proc_{1000 * self._number + number:06d}", "attempt": 0, "instance": str(uuid4()),
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
        return done

    def _upload(self, output: dict[str, Any]) -> str:
        """Write the output to the first storage that was offered, and return its site."""
        site: str = output["sites"][0]
        path = Path(f"{self._storage}/{site}{output['lfn']}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(CONTENT)
        return site


def call_as_jobs(run: Run) -> Measured:
    """B23: calls a second of 64 clients while the sweep runs; reduced if the p99 is above 0.5 s."""
    jobs = run.size(2, 1)
    name, workflow = pull_database(run, "calls", files=4 * CLIENTS * FILES * jobs * PLACES)
    Request.objects.update(status=RequestStatus.ACTIVE)
    storage = scratch()
    for number in range(PLACES):
        site = f"T2_XX_{number:02d}"
        Site.objects.create(name=site, storage_elements=[site], storage_prefixes=[f"{storage}/{site}"])
    done: list[str] = []
    with serving(run, name) as url, Sweeping():
        clients = [Client(url, workflow, number, storage) for number in range(CLIENTS)]

        def work(client: Client) -> None:
            for number in range(jobs):
                done.extend(client.job(number))

        began = time.perf_counter()
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(work, clients))
        seconds = time.perf_counter() - began
    databases(run).use(name)
    assert len(done) == len(set(done)) == CLIENTS * jobs * FILES, "a file was lent twice or not at all"
    assert workflow.input_files.filter(state="processed").count() == len(done), "a file was lost"
    taken = [pair for client in clients for pair in client.taken]
    slowest, rate = percentile([one for _, one in taken], 99), len(taken) / seconds
    kinds = ", ".join(f"{count} {call}" for call, count in Counter(call for call, _ in taken).most_common())
    note = f"{rate:,.0f} calls/s, p99 {1000 * slowest:.0f} ms; {kinds}"
    return Measured(rate * min(1.0, LONGEST_SEC / slowest), {"seconds": [one for _, one in taken]}, note=note)


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
