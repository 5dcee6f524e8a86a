"""Metrics of one scrape: bounded aggregates from PostgreSQL, and shared counters."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from django.db.models import Count, Max, Q, Sum
from prometheus_client.core import GaugeMetricFamily, Metric

from dags_app.models import DAG
from dags_app.states import LIVE_DAG
from outputs_app.models import OutputBlock
from outputs_app.pipeline import MOVING
from outputs_app.states import BlockStatus
from requests_app import admission
from requests_app.models import Request, RetentionRecord
from requests_app.selectors.requests import by_status, open_requests, sweep_lag_sec
from requests_app.services.alerts import open_alerts
from requests_app.services.retention import retention_lags
from requests_app.states import SWEPT, TERMINAL, RequestStatus
from sites_app.selectors import count_sites
from wms2_project.access.audit import unsealed_sec
from wms2_project.models import AuditEvent
from wms2_project.observation.counters import counted_families
from wms2_project.observation.health import health
from wms2_project.observation.heartbeat import queue_lengths, workers_per_queue
from wms2_project.redis_state import ask

ENDED_KEPT_SEC = 60  # ended rows are counted over the whole table, so the counts are cached
MOST_DAGS = 1000
_NODES = ("idle", "running", "done", "failed", "held")


def families(*, now: datetime) -> Iterator[Metric]:
    """Yield all metrics."""
    yield from _work(now)
    yield from _dags()
    yield from _loop(now)
    yield from _retention(now)
    yield from _alerts()
    yield from _parts()
    yield from counted_families()


def _work(now: datetime) -> Iterator[Metric]:
    ended = sorted(TERMINAL)
    workflows = by_status(open_requests()) | _kept(
        "workflows", lambda: by_status(Request.objects.filter(status__in=ended))
    )
    yield _gauge("wms2_workflows", "Workflows by the status of their request.", workflows, RequestStatus)
    outputs = by_status(OutputBlock.objects.filter(status__in=sorted(MOVING))) | _kept(
        "outputs", lambda: by_status(OutputBlock.objects.exclude(status__in=sorted(MOVING)))
    )
    yield _gauge("wms2_outputs", "Output blocks by status.", outputs, BlockStatus)
    yield _gauge("wms2_sites", "Sites by status. `banned`: banned for all requests.", count_sites(now=now))
    limits = admission.limits()
    queued = workflows.get(RequestStatus.QUEUED, 0)
    yield _one("wms2_admission_queue_depth", "Requests waiting for admission.", queued)
    yield _one("wms2_admission_active", "Requests that use admission capacity.", admission.active_count())
    yield _one("wms2_admission_limit", "Admission capacity.", limits.max_active_dags)
    yield _one("wms2_admission_paused", "1 while admission is paused.", limits.paused)


def _dags() -> Iterator[Metric]:
    live = DAG.objects.filter(status__in=sorted(LIVE_DAG))
    progress = GaugeMetricFamily("wms2_dag_progress", "Fraction of finished nodes.", labels=["dag_id"])
    for dag_id, done, total in live.values_list("id", "nodes_done", "total_nodes")[:MOST_DAGS]:
        progress.add_metric([str(dag_id)], done / max(total, 1))
    yield progress
    sums = live.aggregate(**{state: Sum(f"nodes_{state}") for state in _NODES})
    nodes = {state: sums[state] or 0 for state in _NODES}
    yield _gauge("wms2_dag_nodes", "Nodes of live DAGs by state.", nodes, label="state")


def _loop(now: datetime) -> Iterator[Metric]:
    yield _one("wms2_sweep_lag_seconds", "Waiting time of the oldest due request.", sweep_lag_sec(now=now))
    swept = Request.objects.filter(status__in=sorted(SWEPT))
    loop = swept.aggregate(
        in_work=Count("id", filter=~Q(owner="")), failing=Count("id", filter=Q(attempt__gt=0))
    )
    yield _one("wms2_requests_in_work", "Requests being processed by a worker.", loop["in_work"])
    yield _one("wms2_requests_failing", "Requests whose last step failed.", loop["failing"])
    waiting = queue_lengths() or {}
    yield _gauge("wms2_queue_length", "Messages waiting in a queue.", waiting, label="queue")
    workers = workers_per_queue() or {}
    yield _gauge("wms2_workers", "Workers that serve a queue.", workers, label="queue")
    head = AuditEvent.objects.aggregate(head=Max("number"))["head"] or 0
    yield _one("wms2_audit_head", "Last number of the audit chain. Never decreases.", head)
    yield _one("wms2_audit_unsealed_seconds", "Age of the oldest unsealed audit row.", unsealed_sec(now=now))


def _retention(now: datetime) -> Iterator[Metric]:
    lags = {name: int(lag.total_seconds()) for name, lag in retention_lags(now=now).items()}
    text = "For how long the oldest row has been past its time."
    yield _gauge("wms2_retention_lag_seconds", text, lags, label="rows")
    removed = dict(RetentionRecord.objects.values_list("name", "removed"))
    yield _gauge("wms2_retention_removed", "Rows removed since the beginning.", removed, lags, label="rows")


def _alerts() -> Iterator[Metric]:
    yield _gauge("wms2_alerts_open", "Open, unacknowledged alerts.", open_alerts(), label="type")


def _parts() -> Iterator[Metric]:
    up = {part.name: int(part.works) for part in health()}
    yield _gauge("wms2_part_up", "1 if the part is healthy, as in /health.", up, label="part")


def _kept(name: str, compute: Callable[[], dict[str, int]]) -> dict[str, int]:
    key = f"wms2:ended:{name}"
    kept: str | None = ask(lambda client: client.get(key), otherwise=None)
    if kept is not None:
        return dict(json.loads(kept))
    counts = compute()
    ask(lambda client: client.set(key, json.dumps(counts), ex=ENDED_KEPT_SEC), otherwise=None)
    return counts


def _gauge(
    name: str, words: str, values: dict[str, int], known: Iterable[str] = (), *, label: str = "status"
) -> Metric:
    """Return one series per value. Known values without rows are 0, not absent."""
    family = GaugeMetricFamily(name, words, labels=[label])
    for key, value in sorted(({str(one): 0 for one in known} | values).items()):
        family.add_metric([key], value)
    return family


def _one(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(name, words, value=float(value))
