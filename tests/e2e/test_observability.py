"""The whole stack from outside: every part works, work is counted, and the audit is intact."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import requests
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.conftest import Stack

ROOT = Path(__file__).parents[2]
WITHIN_SEC = 300
Metrics = dict[tuple[str, tuple[str, ...]], float]


def scrape(stack: Stack) -> Metrics:
    answer = stack.api.get(f"{stack.url}/api/v1/metrics", timeout=30)
    assert answer.status_code == 200, answer.text
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_every_part_of_the_running_stack_is_seen_and_works(stack: Stack) -> None:
    end = time.monotonic() + WITHIN_SEC
    while True:
        health = requests.get(f"{stack.url}/api/v1/health", timeout=30).json()
        if health["status"] == "ok" or time.monotonic() > end:
            break
        time.sleep(1)
    assert health["status"] == "ok", health
    queues = {f"workers.{name}" for name in ("lifecycle", "planning", "condor", "outputs")}
    outside = {"schedd", "reqmgr2", "dbs", "rucio", "cric"}
    assert set(health["parts"]) >= {"database", "migrations", "redis", "beat", "sweep"} | queues | outside

    # Each web process checks separately, and a check may time out on a busy machine.
    result = scrape(stack)
    while not (all_work(result, queues) and all_up(result, outside)):
        assert time.monotonic() < end + WITHIN_SEC, result
        time.sleep(1)
        result = scrape(stack)


def all_work(metrics: Metrics, queues: set[str]) -> bool:
    return all(metrics.get(("wms2_workers", (name.removeprefix("workers."),)), 0) >= 1 for name in queues)


def all_up(metrics: Metrics, parts: set[str]) -> bool:
    return all(metrics.get(("wms2_part_up", (name,))) == 1 for name in parts)


def test_the_tasks_of_all_workers_are_counted(stack: Stack) -> None:
    swept = ("wms2_task_seconds_count", ("done", "requests_app.tasks.sweep"))
    before = scrape(stack).get(swept, 0.0)
    end = time.monotonic() + WITHIN_SEC
    while scrape(stack).get(swept, 0.0) < before + 2:
        assert time.monotonic() < end, "the sweep was not counted"
        time.sleep(1)


def test_the_audit_of_everything_done_so_far_is_whole(stack: Stack) -> None:
    stack.api.post(f"{stack.url}/api/v1/tokens", json={"name": "e2e", "reason": "a test"}, timeout=30)
    done = subprocess.run(
        [sys.executable, "manage.py", "verify_audit"],
        cwd=ROOT,
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("whole; head ")
