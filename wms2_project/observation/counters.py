"""Counters that all processes increment and a Prometheus scrape reads, in a Redis hash.

Metrics of what PostgreSQL stores are read by the scrape instead (requests_app/selectors/gauges.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from wms2_project.redis_state import ask

KEY = "wms2:counts"
BUCKETS_SEC = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0)


@dataclass(frozen=True, slots=True)
class Counted:
    """A counter with labels; `timed` adds a histogram of durations."""

    name: str
    help: str
    labels: tuple[str, ...]
    timed: bool = False


HTTP_CALLS = Counted(
    "wms2_http_request_seconds", "HTTP calls served, by route.", ("method", "route", "status"), timed=True
)
TASKS = Counted("wms2_task_seconds", "Celery tasks run, by outcome.", ("task", "outcome"), timed=True)
STUCK = Counted("wms2_request_stuck_total", "Exceeded status deadlines.", ("status",))
ALERTS = Counted("wms2_alerts_total", "Alert detections.", ("type",))
RATE_LIMITED = Counted(
    "wms2_rate_limited_total",
    "Work delayed by WMS2's own call limit of a service. Rank 0 is the most urgent.",
    ("service", "rank"),
)
OUTPUT_CHECKS = Counted(
    "wms2_output_check_seconds", "Output files checked on the storage, by result.", ("result",), timed=True
)
INTAKE = Counted(
    "wms2_intake_messages_total", "Messages of the intake: announced, dead or ignored.", ("reader", "result")
)
ALL = (HTTP_CALLS, TASKS, STUCK, ALERTS, RATE_LIMITED, OUTPUT_CHECKS, INTAKE)


def count(counted: Counted, *labels: str, seconds: float = 0.0, number: int = 1) -> None:
    """Add a number to the counter, with a duration if it is timed. Not counted without Redis."""

    def add(client: Any) -> None:
        pipe = client.pipeline(transaction=False)
        pipe.hincrby(KEY, _field(counted, labels, "count"), number)
        if counted.timed:
            pipe.hincrbyfloat(KEY, _field(counted, labels, "sum"), round(seconds, 6))
            bucket = next((str(limit) for limit in BUCKETS_SEC if seconds <= limit), "+Inf")
            pipe.hincrby(KEY, _field(counted, labels, bucket), 1)
        pipe.execute()

    ask(add, otherwise=None)


def counted_families() -> Iterator[Metric]:
    """Yield all counters as Prometheus metrics."""
    stored: dict[str, str] = ask(lambda client: client.hgetall(KEY), otherwise={})
    for counted in ALL:
        series: dict[tuple[str, ...], dict[str, float]] = {}
        for field, value in stored.items():
            name, labels, part = json.loads(field)
            if name == counted.name and len(labels) == len(counted.labels):
                series.setdefault(tuple(labels), {})[part] = float(value)
        yield _histogram(counted, series) if counted.timed else _counter(counted, series)


def _field(counted: Counted, labels: tuple[str, ...], part: str) -> str:
    return json.dumps([counted.name, labels, part], separators=(",", ":"))


def _counter(counted: Counted, series: dict[tuple[str, ...], dict[str, float]]) -> Metric:
    family = CounterMetricFamily(counted.name, counted.help, labels=counted.labels)
    for labels, parts in sorted(series.items()):
        family.add_metric(labels, parts["count"])
    return family


def _histogram(counted: Counted, series: dict[tuple[str, ...], dict[str, float]]) -> Metric:
    family = HistogramMetricFamily(counted.name, counted.help, labels=counted.labels)
    for labels, parts in sorted(series.items()):
        total, buckets = 0.0, []
        for limit in (*map(str, BUCKETS_SEC), "+Inf"):
            total += parts.get(limit, 0.0)
            buckets.append((limit, total))
        family.add_metric(labels, buckets, parts.get("sum", 0.0))
    return family
