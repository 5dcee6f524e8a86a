"""Charts of the request page: geometry in percent, from samples, spans and measured values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from console.request.burndown import Forecast, build_burndown
from console.request.gantt import Span, build_gantt
from console.request.histogram import Marker, build_histogram
from console.request.matrix import build_matrix
from dags_app.failures.clusters import Cluster

NOON = datetime(2031, 5, 17, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Sample:
    at: datetime
    events_done: int
    events_total: int = 100
    events_running: int = 0
    events_excluded: int = 0


def hours(number: float) -> datetime:
    return NOON + timedelta(hours=number)


def test_the_burn_down_falls_from_the_total_to_the_remaining_events() -> None:
    chart = build_burndown([Sample(hours(0), 0), Sample(hours(1), 50)], now=hours(2), forecast=None)
    assert chart is not None
    assert chart.line == "0.0,0.00 50.0,50.00 100.0,50.00"
    assert chart.band == ""
    assert [tick.value for tick in chart.amounts] == [0, 25, 50, 75, 100]


def test_the_cone_of_the_forecast_ends_between_the_earliest_and_the_latest_end() -> None:
    forecast = Forecast(hours(3), hours(4), hours(5))
    chart = build_burndown([Sample(hours(0), 0), Sample(hours(2), 50)], now=hours(2), forecast=forecast)
    assert chart is not None
    assert chart.now == 40.0
    assert chart.band == "40.0,50.00 60.0,100.00 100.0,100.00"


def test_a_distant_end_does_not_compress_the_past() -> None:
    forecast = Forecast(hours(100), hours(500), hours(900))
    chart = build_burndown([Sample(hours(0), 0), Sample(hours(2), 1)], now=hours(2), forecast=forecast)
    assert chart is not None
    assert chart.now > 30


@pytest.mark.parametrize(
    "samples", [[], [Sample(hours(0), 0)], [Sample(hours(0), 0, 0), Sample(hours(1), 0, 0)]]
)
def test_there_is_no_burn_down_without_work(samples: list[Sample]) -> None:
    assert build_burndown(samples, now=hours(1), forecast=None) is None


def test_bars_that_overlap_are_in_different_rows() -> None:
    spans = [Span("a", hours(0), hours(2)), Span("b", hours(1), hours(3)), Span("c", hours(2), None)]
    gantt = build_gantt([("DAGs", spans), ("Empty", [])], begin=hours(0), end=hours(4))
    (lane,) = gantt.lanes
    assert [[bar.span.label for bar in row] for row in lane.rows] == [["a", "c"], ["b"]]
    assert [(bar.left, bar.width) for bar in lane.rows[0]] == [(0, 50), (50, 50)]


def test_a_moment_has_a_bar_that_can_be_seen_inside_the_chart() -> None:
    gantt = build_gantt([("Actions", [Span("stop", hours(4), hours(4))])], begin=hours(0), end=hours(4))
    ((bar,),) = gantt.lanes[0].rows
    assert bar.width > 0
    assert bar.left + bar.width <= 100


def test_a_histogram_has_its_markers_on_the_axis_of_its_values() -> None:
    limits = [Marker("limit", 3000, "danger"), Marker("unknown", 0, "info")]
    chart = build_histogram([1000, 1010, 2000, 0], title="Memory", unit="MB", markers=limits)
    assert chart is not None
    assert (chart.count, chart.median, chart.largest) == (3, 1010, 2000)
    assert sum(one.count for one in chart.bins) == 3
    assert [(one.label, round(one.position)) for one in chart.markers] == [("limit", 93)]
    assert build_histogram([0], title="Memory", unit="MB") is None


def test_the_matrix_sums_clusters_by_site_and_code_the_most_first() -> None:
    cluster = Cluster("", 7, "", "data", "A", 2, (), (), 2, 0, 0, 0, "", "", "")
    others = [replace(cluster, jobs=3), replace(cluster, site="", exit_code=9, jobs=10)]
    matrix = build_matrix([cluster, *others])
    assert matrix is not None
    assert [code for code, _, _ in matrix.codes] == [9, 7]
    assert [(site, jobs) for site, jobs, _ in matrix.rows] == [("no site", 10), ("A", 5)]
    assert [cell.jobs if cell else 0 for cell in matrix.rows[1][2]] == [0, 5]
    assert build_matrix([]) is None
