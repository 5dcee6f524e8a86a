"""State of a demonstration and its summary. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lab.demo.outputs import Merged

COMPLETED = "completed"
LOST = frozenset({"held", "failed", "aborted"})


@dataclass(frozen=True, slots=True)
class RequestView:
    """A request as returned by the API."""

    name: str
    status: str
    wait_reason: str = ""
    last_error: str = ""
    progress: Mapping[str, Any] = field(default_factory=dict)
    transitions: tuple[Mapping[str, Any], ...] = ()

    @property
    def fraction(self) -> float:
        return float(self.progress.get("fraction") or 0.0)

    @property
    def wall_time_sec(self) -> float:
        """Time from the first status change to the last."""
        if len(self.transitions) < 2:
            return 0.0
        first, last = (datetime.fromisoformat(self.transitions[i]["at"]) for i in (0, -1))
        return round((last - first).total_seconds(), 1)

    def count(self, name: str) -> int:
        return int(self.progress.get(name) or 0)


def parse_view(body: Mapping[str, Any], timeline: Sequence[Mapping[str, Any]]) -> RequestView:
    return RequestView(
        name=body["request_name"],
        status=body["status"],
        wait_reason=body.get("wait_reason") or "",
        last_error=body.get("last_error") or "",
        progress=body.get("progress") or {},
        transitions=tuple(timeline),
    )


def is_finished(views: Sequence[RequestView]) -> bool:
    return bool(views) and all(view.status == COMPLETED for view in views)


def explain_loss(views: Sequence[RequestView]) -> str | None:
    """Describe the first request that will not complete; None if there is none."""
    for view in views:
        if view.status in LOST:
            return f"request {view.name} is {view.status}: {_why(view)}"
    return None


def explain_delay(views: Sequence[RequestView], *, limit_sec: float) -> str:
    late = "; ".join(
        f"{view.name} is {view.status}" + (f" ({view.wait_reason})" if view.wait_reason else "")
        for view in views
        if view.status != COMPLETED
    )
    return f"not everything completed within {limit_sec:.0f} s: {late}"


def _why(view: RequestView) -> str:
    last = view.transitions[-1].get("reason") if view.transitions else ""
    return view.last_error or str(last or "") or view.wait_reason or "no reason given"


def build_summary(
    views: Sequence[RequestView],
    *,
    urls: Mapping[str, str],
    wall_time_sec: float,
    merged: Mapping[str, Merged] | None = None,
    error: str = "",
) -> dict[str, Any]:
    """Return the document that ``--json`` prints."""
    summary: dict[str, Any] = {
        "ok": not error and is_finished(views),
        "wall_time_sec": round(wall_time_sec, 1),
        "urls": dict(urls),
        "requests": [_request_facts(view) | _read(view, merged or {}) for view in views],
    }
    return {**summary, "error": error} if error else summary


def _read(view: RequestView, merged: Mapping[str, Merged]) -> dict[str, Any]:
    """Return the content of the merged files, if they were read."""
    found = merged.get(view.name)
    return {"merged_events": found.events, "z_peak_gev": round(found.peak_gev, 2)} if found else {}


def _request_facts(view: RequestView) -> dict[str, Any]:
    return {
        "request_name": view.name,
        "status": view.status,
        "groups": view.count("groups_total"),
        "groups_done": view.count("groups_done"),
        "jobs": view.count("jobs_total"),
        "files": view.count("files"),
        "blocks": view.count("blocks"),
        "blocks_announced": view.count("blocks_announced"),
        "events_in": view.count("events_total"),
        "events_accounted": view.count("events_done"),
        "wall_time_sec": view.wall_time_sec,
        "transitions": [dict(transition) for transition in view.transitions],
    }
