"""What one event costs: from the pilot if there was one, else from the requestor's hints."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dags_app.planning.types import Estimate
from wms2_project.errors import PermanentError

_NEEDED = ("events_per_job", "memory_mb", "time_per_job_sec", "output_size_per_event_kb")


class BadPilotReport(PermanentError):
    """The pilot's report cannot be believed; planning on it would be guessing."""


def estimate_from_pilot(report: Mapping[str, Any], *, minimum_memory_mb: int) -> Estimate:
    """What the pilot measured, refused if a number is missing, not finite or not positive."""
    recommended = report.get("recommended")
    if not isinstance(recommended, Mapping):
        raise BadPilotReport("the pilot's report has no 'recommended' part", cure="See the pilot's log")
    iterations = report.get("iterations") or []
    events = sum(_number(part, "events") for part in iterations)
    seconds = sum(_number(part, "wall_time_sec") for part in iterations)
    numbers = {key: _number(recommended, key) for key in _NEEDED}
    if events <= 0:
        raise BadPilotReport("the pilot processed no events", cure="See the pilot's log")
    return Estimate(
        time_per_event_sec=seconds / events,
        memory_mb=max(minimum_memory_mb, math.ceil(numbers["memory_mb"])),
        size_per_event_kb=numbers["output_size_per_event_kb"],
        source="pilot",
    )


def _number(part: Mapping[str, Any], key: str) -> float:
    value = part.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise BadPilotReport(
            f"the pilot's report says {key} = {str(value)[:40]!r}", cure="A finite number was expected"
        )
    return float(value)


def events_to_generate(*, wanted: int, filter_efficiency: float) -> int:
    """How many events to generate so that the filter very probably leaves the wanted number.

    Three standard deviations more than the average need: a shortfall would cost another round.
    """
    if wanted <= 0:
        return 0
    if filter_efficiency >= 1:
        return wanted
    spread = math.sqrt(wanted * (1 - filter_efficiency))
    return math.ceil((wanted + 3 * spread) / filter_efficiency)
