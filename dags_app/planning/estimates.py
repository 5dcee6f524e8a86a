"""Cost of an event, from earlier rounds or the pilot, and the resulting size of jobs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dags_app.planning.types import Estimate
from sandbox.values import is_number
from wms2_project.errors import PermanentError

MIN_JOBS = 3  # fewer jobs do not replace the previous estimate
RSS_MARGIN = 1.2
LEAST_CORES = 4  # smaller jobs would multiply the fixed cost of a job
FIRST_WINDOWS = 15  # 1 + 2 + 4 + 8 times the first window of the first pilot
_NEEDED = ("events_per_job", "memory_mb", "time_per_job_sec", "output_size_per_event_kb")


class BadPilotReport(PermanentError):
    """The pilot's report is invalid; planning with it would be a guess."""


def estimate_from_pilot(report: Mapping[str, Any], *, minimum_memory_mb: int, cores: int = 1) -> Estimate:
    """Return the pilot's measurements; raise BadPilotReport if a number is missing or invalid."""
    recommended = report.get("recommended")
    if not isinstance(recommended, Mapping):
        raise BadPilotReport("the pilot's report has no 'recommended' part", cure="Check the pilot's log")
    iterations = report.get("iterations") or [{"events": 0, "wall_time_sec": 0}]
    # Fixed costs matter least in the largest window; the last one may be small.
    largest = max(iterations, key=lambda one: _number(one, "events"))
    events, seconds = (_number(largest, key) for key in ("events", "wall_time_sec"))
    numbers = {key: _number(recommended, key) for key in _NEEDED}
    if events <= 0:
        raise BadPilotReport("the pilot processed no events", cure="Check the pilot's log")
    return Estimate(
        time_per_event_sec=seconds / events,
        memory_mb=max(minimum_memory_mb, math.ceil(numbers["memory_mb"])),
        size_per_event_kb=numbers["output_size_per_event_kb"],
        source="pilot",
        cores=cores,
    )


@dataclass(frozen=True, slots=True)
class Windows:
    """What a pilot measures: its first window, the events of all windows, and its time budget."""

    first: int
    events: int
    budget_sec: float


def decide_windows(
    report: Mapping[str, Any] | None, *, initial_events: int, budget_sec: float
) -> Windows | None:
    """Return the windows of the next pilot; None once its numbers have settled or the budget is spent.

    The first pilot has four windows, because their cost is unknown. Each further one has the next two,
    which are enough to compare, if they fit into the remaining time.
    """
    if report is None:
        return Windows(initial_events, initial_events * FIRST_WINDOWS, budget_sec)
    measured = [(_number(one, "events"), _number(one, "wall_time_sec")) for one in report["iterations"]]
    if report.get("converged") or not measured:
        return None
    events, seconds = max(measured)
    first = 2 * int(events)
    left_sec = budget_sec - sum(wall for _, wall in measured)
    fits = first > 0 and 3 * first * seconds / events <= left_sec
    return Windows(first, 3 * first, left_sec) if fits else None


def join_reports(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one report of all pilots: the last one's findings, all iterations and the highest memory."""
    last = dict(reports[-1])
    last["iterations"] = [one for report in reports for one in report["iterations"]]
    memory = max(_number(report["recommended"], "memory_mb") for report in reports)
    last["recommended"] = {**last["recommended"], "memory_mb": math.ceil(memory)}
    return last


def _number(part: Mapping[str, Any], key: str) -> float:
    value = part.get(key)
    if not is_number(value):
        raise BadPilotReport(
            f"the pilot's report has {key} = {str(value)[:40]!r}", cure="A finite number is expected"
        )
    return float(value)


@dataclass(frozen=True, slots=True)
class Measurement:
    """Measured cost of a finished group."""

    jobs: int
    time_per_event_sec: float
    peak_rss_mb: int
    size_per_event_kb: float
    cores_used: float = 1.0  # by a job, on average over its time


def estimate_from_rounds(
    measured: Sequence[Measurement],
    *,
    cores: int,
    memory_per_core_mb: tuple[int, int],
    follows_cores: bool = False,
) -> Estimate | None:
    """Return medians of time and size and the maximum memory; None while too few jobs finished.

    Memory is the peak with a margin, within the window of memory per core. A payload that scales with its
    cores gets no more cores than it was measured to use.
    """
    seen = [one for one in measured if one.time_per_event_sec > 0]
    if sum(one.jobs for one in seen) < MIN_JOBS:
        return None
    if follows_cores:
        cores = fitting_cores(asked=cores, used=_median([(one.cores_used, one.jobs) for one in seen]))
    low, high = (limit * cores for limit in memory_per_core_mb)
    peak = math.ceil(max(one.peak_rss_mb for one in seen) * RSS_MARGIN)
    return Estimate(
        time_per_event_sec=_median([(one.time_per_event_sec, one.jobs) for one in seen]),
        memory_mb=min(max(peak, low), high),
        size_per_event_kb=_median([(one.size_per_event_kb, one.jobs) for one in seen]),
        source="measured",
        cores=cores,
    )


def common_estimate(
    measured: Sequence[Estimate], *, at_least: int, tolerance: float, cores: int
) -> Estimate | None:
    """Return one estimate of several requests; None if they are too few or their times differ too much."""
    times = [one.time_per_event_sec for one in measured]
    if len(measured) < at_least or not times or max(times) > min(times) * (1 + tolerance):
        return None
    return Estimate(
        time_per_event_sec=_median([(time, 1) for time in times]),
        memory_mb=max(one.memory_mb for one in measured),
        size_per_event_kb=_median([(one.size_per_event_kb, 1) for one in measured]),
        source="campaign",
        cores=cores,
    )


def fitting_cores(*, asked: int, used: float) -> int:
    """Return the smallest power of two, at least four, that covers the usage; at most `asked`."""
    cores = LEAST_CORES
    while cores < used:
        cores *= 2
    return min(cores, asked)


def _median(weighted: Sequence[tuple[float, int]]) -> float:
    """Return the median over jobs of the groups' values."""
    half = sum(weight for _, weight in weighted) / 2
    for value, weight in sorted(weighted):
        half -= weight
        if half <= 0:
            return value
    raise ValueError("no value has a weight")


def steer_events_per_job(*, current: int, time_per_event_sec: float, target_job_sec: float) -> int:
    """Return events per job for the target wall time, at most twice or half of the current value."""
    wanted = target_job_sec / time_per_event_sec if time_per_event_sec > 0 else 2.0 * current
    return max(1, round(min(max(wanted, current / 2), current * 2)))


def events_to_generate(*, wanted: int, filter_efficiency: float) -> int:
    """Return how many events to generate so that very probably enough pass the filter.

    This is three standard deviations above the mean, because a shortfall would cost another round.
    """
    if wanted <= 0:
        return 0
    if filter_efficiency >= 1:
        return wanted
    spread = math.sqrt(wanted * (1 - filter_efficiency))
    return math.ceil((wanted + 3 * spread) / filter_efficiency)
