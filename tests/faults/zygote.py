"""Workers that may be killed: `python -m tests.faults.zygote` forks one per failpoint that it reads.

Each line on standard input is a JSON list of failpoints ("" for none). For each a child process is forked
that works like the real workers (sweep, advance, watch) until it dies at its failpoint or its time is up;
the answer is the list of exit codes. Django is loaded once, so a death costs milliseconds.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback

import django

django.setup()

from django.db import connection  # noqa: E402
from django.utils import timezone  # noqa: E402

from outputs_app.services import advance_block  # noqa: E402
from requests_app.lifecycle.advance import advance  # noqa: E402
from requests_app.lifecycle.due import claim_blocks, claim_requests  # noqa: E402
from requests_app.lifecycle.monitoring import watch_dags  # noqa: E402

LIFE_SEC = float(os.environ.get("WMS2_TEST_LIFE_SEC", "2"))


def work_until(end: float) -> None:
    """What Celery's workers do, without the broker between."""
    while time.monotonic() < end:
        for claim, _ in claim_requests():
            advance(claim.id)
        watch_dags(now=timezone.now())
        for block, _ in claim_blocks():
            advance_block(block.id)
        time.sleep(0.1)


def fork_worker(failpoint: str) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.environ["WMS2_FAILPOINT"] = failpoint
        work_until(time.monotonic() + LIFE_SEC)
        connection.close()
        code = 0
    except BaseException:  # noqa: BLE001 — a child must never return into the parent's loop
        traceback.print_exc()
    finally:
        os._exit(code)


def main() -> None:
    for line in sys.stdin:
        pids = [fork_worker(failpoint) for failpoint in json.loads(line)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
        sys.stdout.write(json.dumps(codes) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
