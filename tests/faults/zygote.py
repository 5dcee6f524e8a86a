"""Workers that may be killed: `python -m tests.faults.zygote` forks two per line that it reads.

Each line on standard input names failpoints. The forked processes work like the real workers (sweep,
advance, watch) until they reach one of them or their time is up; the answer is a list with the point at which
each died, "" for one that did not. Django is loaded once, so a death costs milliseconds.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback

import django

django.setup()

from django.db import connection  # noqa: E402
from django.utils import timezone  # noqa: E402

from outputs_app.services import advance_block  # noqa: E402
from requests_app.lifecycle.advance import advance  # noqa: E402
from requests_app.lifecycle.due import claim_blocks, claim_requests, due_groups  # noqa: E402
from requests_app.lifecycle.monitoring import watch_dags  # noqa: E402
from wms2_project.failpoints import observe_failpoints  # noqa: E402

WORKERS = 2
LIFE_SEC = 1.0


def work_until(end: float) -> None:
    """Do the work of Celery's workers without the broker."""
    while time.monotonic() < end:
        for claim, _ in claim_requests(due_groups()):
            advance(claim.id)
        watch_dags(now=timezone.now())
        for block, _ in claim_blocks():
            advance_block(block.id)
        time.sleep(0.1)


def fork_worker(points: set[str], log: int) -> int:
    """Fork a worker that writes the point at which it dies; return its process id."""

    def die(point: str) -> None:
        if point in points:
            os.write(log, f"{os.getpid()} {point}\n".encode())
            os.kill(os.getpid(), signal.SIGKILL)

    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        with observe_failpoints(die):
            work_until(time.monotonic() + LIFE_SEC)
        connection.close()
        code = 0
    except BaseException:  # noqa: BLE001 — a child must never return into the parent's loop
        traceback.print_exc()
    finally:
        os._exit(code)


def work(points: set[str]) -> list[str]:
    """Let all workers work; return where each died. Raises RuntimeError if one ended otherwise."""
    read, write = os.pipe()
    pids = [fork_worker(points, write) for _ in range(WORKERS)]
    os.close(write)
    codes = {pid: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids}
    with os.fdopen(read) as log:
        died = {int(pid): point for pid, _, point in (line.strip().partition(" ") for line in log)}
    if any(code != (-signal.SIGKILL if pid in died else 0) for pid, code in codes.items()):
        raise RuntimeError(f"workers ended with {codes}, at {died}")
    return [died.get(pid, "") for pid in pids]


def main() -> None:
    for line in sys.stdin:
        sys.stdout.write(json.dumps(work(set(line.split()))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
