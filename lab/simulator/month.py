"""Weeks of operation in virtual time: many concurrent requests on a large pool, with measurements."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection

from dags_app.models import MergeGroup
from lab.simulator import requests as documents
from lab.simulator.invariants import violations
from lab.simulator.laboratory import SITES, Laboratory, Size
from lab.simulator.pool import Laws
from lab.simulator.shared_state import SharedState
from requests_app.models import Request
from requests_app.services.importing import import_request
from requests_app.states import TERMINAL, RequestStatus

SECONDS = {"landing": 60.0, "processing": 4 * 3600.0, "merge": 1200.0, "cleanup": 60.0}
JOBS_PER_GROUP = 50
SERVICE_NODES = 3  # of a group: landing, merge, cleanup
EVENTS_PER_JOB = 1000
PER_HOUR = 50
BUSY = 0.6  # fraction of the time in which the pool's slots could do all the work
SAMPLE_SEC = 6 * 3600.0
DAY = 86_400.0
PARTS = {"p50": 0.5, "p99": 0.99, "worst": 1.0}
LINGER_SEC = 12 * 3600  # a block gathers the files of several groups
POLL_SEC = 6 * 3600.0  # an event of a DAG makes its request due at once


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a simulation: number and size of DAGs, and the days for them."""

    dags: int
    nodes: int
    days: float
    seed: int = 0
    failing: float = 0.02
    monitor_sec: float = 900.0
    slow_slots: float = 0.0
    bad_site: float = 0.0  # fraction of jobs that fail at one of the sites
    per_hour: float = PER_HOUR  # submissions
    urgent: bool = True  # without a pilot
    patience: float = 1.0  # times the days after which the simulation ends, finished or not

    @property
    def jobs_per_dag(self) -> int:
        groups = max(self.nodes // (JOBS_PER_GROUP + SERVICE_NODES), 1)
        return groups * JOBS_PER_GROUP if self.nodes > JOBS_PER_GROUP else max(self.nodes - SERVICE_NODES, 1)

    @property
    def longest_sec(self) -> float:
        return self.days * self.patience * DAY

    @property
    def slots_per_site(self) -> int:
        work = self.dags * self.jobs_per_dag * SECONDS["processing"]
        return max(round(work / (self.days * DAY * BUSY) / len(SITES)), 1)


@dataclass(slots=True)
class Record:
    """Measurements of a running simulation."""

    samples: list[tuple[float, int, int]] = field(default_factory=list)  # time, nodes done, requests ended
    lags_sec: list[float] = field(default_factory=list)
    queries: int = 0
    sampled_at: float = 0.0


def run_month(load: Load, directory: Path, *, tell: Callable[[str], None]) -> dict[str, Any]:
    """Run the load and return the report."""
    settings.JOBS_PER_GROUP, settings.MAX_ACTIVE_DAGS = JOBS_PER_GROUP, load.dags
    settings.POLL_INTERVAL_SEC, settings.BLOCK_LINGER_SEC = POLL_SEC, LINGER_SEC
    laws = Laws(
        seed=load.seed,
        seconds=SECONDS,
        failing=load.failing,
        bad_sites={SITES[0]: load.bad_site},
        slow_slots=load.slow_slots,
        lasting=False,
    )
    size = Size(slots=load.slots_per_site, cycle_sec=300.0, sweep_sec=30.0, monitor_sec=load.monitor_sec)
    lab = Laboratory(directory, seed=load.seed, laws=laws, size=size)
    lab.schedd.per_owner = lab.schedd.total = 100 * load.dags
    record, began = Record(), time.monotonic()

    def count(execute: Any, *arguments: Any) -> Any:
        record.queries += 1
        return execute(*arguments)

    shared = SharedState(lab.clock)
    with lab.running(), shared.connected(), connection.execute_wrapper(count):
        start = lab.clock.now
        _schedule_submissions(lab, load)
        while _goes_on(lab, load, start):
            _sample(lab, record, start, tell)
            lab.work()
            lab.advance(until=start + load.longest_sec)
        _sample(lab, record, start, tell, last=True)
        report = _report(lab, load, record, start)
    report["wall_sec"] = round(time.monotonic() - began, 1)
    lab.close()
    return report


def _schedule_submissions(lab: Laboratory, load: Load) -> None:
    for number in range(load.dags):
        document = documents.generating(
            f"load{number:04d}",
            events=load.jobs_per_dag * EVENTS_PER_JOB,
            per_job=EVENTS_PER_JOB,
            Urgent=load.urgent,
        )
        lab.later.append((lab.clock.now + number * 3600 / load.per_hour, document))


def _goes_on(lab: Laboratory, load: Load, start: float) -> bool:
    while lab.later and lab.later[0][0] <= lab.clock.now:
        _, document = lab.later.pop(0)
        import_request(document=document, actor="user:ana", on_behalf=True)
    if lab.clock.now >= start + load.longest_sec:
        return False
    return (
        bool(lab.later or lab.schedd.runs)
        or Request.objects.exclude(status__in=[*sorted(TERMINAL), RequestStatus.HELD]).exists()
    )


def _sample(
    lab: Laboratory, record: Record, start: float, tell: Callable[[str], None], *, last: bool = False
) -> None:
    if lab.due_at <= lab.clock.now:
        record.lags_sec.append(lab.clock.now - lab.due_at)
    if lab.clock.now < record.sampled_at + SAMPLE_SEC and not last:
        return
    record.sampled_at = lab.clock.now
    done = lab.jobs.nodes_done
    ended = Request.objects.filter(status__in=sorted(TERMINAL)).count()
    record.samples.append((lab.clock.now - start, done, ended))
    tell(f"day {(lab.clock.now - start) / DAY:5.1f}: {done} jobs done, {ended} requests ended")


def _report(lab: Laboratory, load: Load, record: Record, start: float) -> dict[str, Any]:
    problems = list(violations(lab))
    return {
        "load": asdict(load) | {"jobs_per_dag": load.jobs_per_dag, "slots": load.slots_per_site * len(SITES)},
        "statuses": {status: Request.objects.filter(status=status).count() for status in RequestStatus},
        "jobs_run": lab.jobs.nodes_done,
        "problems": problems,
        "outputs_lost": sum("lost" in problem for problem in problems),
        "outputs_doubled": sum("twice" in problem for problem in problems),
        **_measures_of_pool(lab, load, record),
        **_measures_of_wms2(lab, load, record),
        "samples": record.samples,
        "gantt": _gantt(start),
    }


def _measures_of_pool(lab: Laboratory, load: Load, record: Record) -> dict[str, Any]:
    makespan = max((at for at, done, _ in record.samples if done), default=1.0)
    slots = load.slots_per_site * len(SITES)
    work = load.dags * load.jobs_per_dag * SECONDS["processing"]
    return {
        "makespan_days": round(makespan / DAY, 2),
        "ideal_days": round(work / slots / DAY, 2),
        "slot_use": round(lab.pool.busy_sec / (slots * makespan), 3),
        "wasted_hours": round(lab.pool.wasted_sec / 3600, 1),
        "wasted_fraction": round(lab.pool.wasted_sec / max(lab.pool.busy_sec, 1), 4),
    }


def _measures_of_wms2(lab: Laboratory, load: Load, record: Record) -> dict[str, Any]:
    latency = _latencies(lab)
    in_time = sum(one <= load.monitor_sec + 60 for one in latency)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_database_size(current_database()), (SELECT sum(n_live_tup) FROM pg_stat_user_tables)"
        )
        size, rows = cursor.fetchone()
    return {
        "tracking_sec": {name: _part(latency, part) for name, part in PARTS.items()},
        "tracked_in_time": round(in_time / max(len(latency), 1), 4),
        "sweep_lag_sec": {name: _part(record.lags_sec, part) for name, part in PARTS.items()},
        "submissions_per_hour": load.per_hour,
        "queries_per_request": round(record.queries / load.dags),
        "rows_per_request": round(float(rows or 0) / load.dags),
        "database_mb": round(size / 1e6),
        "memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000),
    }


def _latencies(lab: Laboratory) -> list[float]:
    """Return the seconds from the end of each group until WMS2 recorded it."""
    seen = MergeGroup.objects.filter(finished_at__isnull=False).select_related("dag")
    found = []
    for group in seen.iterator():
        ended = lab.jobs.finished_at.get(f"{group.dag.submit_dir}/{group.name}") if group.dag else None
        if ended is not None and group.finished_at is not None:
            found.append(group.finished_at.timestamp() - ended)
    return sorted(found)


def _part(values: list[float], fraction: float) -> float:
    ordered = sorted(values)
    return round(ordered[min(int(len(ordered) * fraction), len(ordered) - 1)], 1) if ordered else 0.0


def _gantt(start: float) -> list[tuple[str, float, float, str]]:
    return [
        (
            row.request_name,
            row.created_at.timestamp() - start,
            row.status_since.timestamp() - start,
            row.status,
        )
        for row in Request.objects.order_by("request_name")
    ]
