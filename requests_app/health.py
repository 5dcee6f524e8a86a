"""Health checks of the sweep and of the retention."""

from __future__ import annotations

from django.utils import timezone

from requests_app.models import RetentionRecord
from requests_app.selectors.requests import sweep_lag_sec
from requests_app.services.retention import LAG_ALLOWED, retention_lags
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


def _retention() -> list[Part]:
    """Report rows that should have been removed long ago, with the last error."""
    late = {name: lag for name, lag in retention_lags(now=timezone.now()).items() if lag > LAG_ALLOWED}
    errors = dict(RetentionRecord.objects.filter(pk__in=late).values_list("name", "message")) if late else {}
    words = [
        f"{name} have been past their time for {lag.days} days: "
        + (errors.get(name) or "run manage.py retention")
        for name, lag in late.items()
    ]
    return [Part("retention", works=not late, detail="; ".join(words))]


register_local(_sweep)
register_local(_retention)
