"""Health check of the sweep."""

from __future__ import annotations

from django.utils import timezone

from requests_app.selectors.requests import sweep_lag_sec
from wms2_project.observation.health import Part, register_local

LAG_ALLOWED_SEC = 60.0


def _sweep() -> list[Part]:
    lag = sweep_lag_sec(now=timezone.now())
    late = lag > LAG_ALLOWED_SEC
    return [
        Part(
            "sweep",
            works=not late,
            detail=f"the oldest due request has been waiting for {lag:g} s" if late else "",
        )
    ]


register_local(_sweep)
