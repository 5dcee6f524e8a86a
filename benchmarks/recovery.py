"""B14: delay until a finished group is in the database.

B15: delay until the work of a killed worker continues.

Both observe the running stack, with its workers and database, from outside: by API, files and rows.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import psycopg
import requests

from benchmarks.harness import Measured, percentile
from benchmarks.run import NotRun, Run
from benchmarks.submission import document, jobs_for

LONGEST_SEC = 240.0
LOOK_SEC = 0.02
TOO_MUCH_MEMORY_MB = 900_000  # more than any machine has, so that queued jobs never run
GROUPS = """
    SELECT g.id, d.submit_dir, g.index, g.status FROM dags_app_mergegroup g
      JOIN dags_app_round r ON r.id = g.round_id JOIN dags_app_workflow w ON w.id = r.workflow_id
      JOIN dags_app_dag d ON d.round_id = r.id AND d.parent_id IS NULL
     WHERE w.request_name = ANY(%s)"""


class Stack:
    """The running stack."""

    def __init__(self, run: Run) -> None:
        if not os.environ.get("WMS2_URL") or not os.environ.get("CONDOR_CONFIG"):
            raise NotRun("no stack is running: run ./wms2 bench")
        self._url = f"{os.environ['WMS2_URL']}/api/v1"
        self._headers = {"Authorization": f"Bearer {os.environ['WMS2_TOKEN']}"}
        self.rows: psycopg.Connection[Any] = psycopg.connect(run.places.database_server, autocommit=True)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """POST to the API."""
        answer = requests.post(f"{self._url}/{path}", json=body, headers=self._headers, timeout=30)
        assert answer.ok, answer.text
        return dict(answer.json())

    def request(self, name: str) -> tuple[str, str]:
        """Return status and owner of a request from its row."""
        sql = "SELECT status, owner FROM requests_app_request WHERE request_name = %s"
        row = self.rows.execute(sql, [name]).fetchone()
        assert row is not None
        return row[0], row[1]


def see_groups(run: Run) -> Measured:
    """B14: seconds from the end of a group's DAGMan to the rows of its outputs, p99 over all groups."""
    from lab.seed.__main__ import seed  # the package is absent if an installation without the lab is measured
    from lab.seed.storage import Storage

    stack, suffix = Stack(run), f"bench{os.getpid()}"
    cms, storage = os.environ["WMS2_LAB_CMS_URL"], Storage(os.environ["WMS2_STORAGE_PREFIX"])
    names: list[str] = []
    for repeat in range(run.size(2, 1)):
        for made in seed(cms, storage, f"{suffix}{repeat}"):
            names.append(stack.post("requests", made)["request_name"])
    seen: dict[int, float] = {}

    def all_done() -> bool:
        for group, directory, index, status in stack.rows.execute(GROUPS, [names]).fetchall():
            if status == "collected" and group not in seen:
                ended = Path(directory) / f"mg_{index:06d}" / "group.dag.metrics"
                seen[group] = time.time() - ended.stat().st_mtime
        return {stack.request(name)[0] for name in names} == {"completed"}

    wait_for(all_done, message="the requests did not complete", pause=LOOK_SEC * 3)
    taken = sorted(seen.values())
    note = f"{len(taken)} groups of {len(names)} requests; median {median(taken):.2f} s; the lab's intervals"
    spread = percentile(taken, 25), percentile(taken, 75)
    return Measured(percentile(taken, 99), {"seconds": taken}, note=note, spread=spread)


def resume_killed(run: Run) -> Measured:
    """B15: kill a worker while it plans; seconds until another one works on the request."""
    stack = Stack(run)
    taken = [_kill_andwait_for(stack, jobs=jobs_for(run.size(10_000, 2_000))) for _ in range(run.repeat)]
    spread = percentile(taken, 25), percentile(taken, 75)
    note = f"worst {max(taken):.1f} s; the process that holds the lease gets SIGKILL"
    return Measured(median(taken), {"seconds": taken}, note=note, spread=spread)


def _kill_andwait_for(stack: Stack, *, jobs: int) -> float:
    body = document(jobs=jobs) | {"memory_mb": TOO_MUCH_MEMORY_MB, "site_whitelist": []}
    name = stack.post("requests", body)["request_name"]
    found: list[str] = []

    def planning() -> bool:
        status, owner = stack.request(name)
        if status == "planning" and owner.startswith("worker:"):
            found.append(owner)
        return bool(found)

    wait_for(planning, message=f"{name} was never seen in planning", pause=0.002)
    os.kill(int(found[0].rpartition(":")[2]), signal.SIGKILL)
    began = time.monotonic()

    def resumed() -> bool:
        status, owner = stack.request(name)
        return status != "planning" or (owner.startswith("worker:") and owner != found[0])

    wait_for(resumed, message=f"{name} was not resumed", pause=LOOK_SEC)
    seconds = time.monotonic() - began
    wait_for(lambda: stack.request(name)[0] == "active", message=f"{name} is not active", pause=0.2)
    stack.post(f"requests/{name}/abort", {"reason": "the benchmark is over"})
    return seconds


def wait_for(done: Callable[[], bool], *, message: str, pause: float) -> None:
    """Wait until the condition holds. Raise after the timeout."""
    end = time.monotonic() + LONGEST_SEC
    while not done():
        assert time.monotonic() < end, message
        time.sleep(pause)
