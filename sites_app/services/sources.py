"""Services from which sites are read on schedule, and their failures in a row."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from django.db.models import F

from sites_app.models import SiteSource
from wms2_project.errors import Wms2Error

CRIC, COLLECTOR, RUCIO = "cric", "collector", "rucio"
FAILURES_ALLOWED = 2


@contextmanager
def reading(source: str, *, now: datetime) -> Iterator[None]:
    """Record whether the block succeeds; errors are raised again."""
    SiteSource.objects.get_or_create(name=source)
    row = SiteSource.objects.filter(name=source)
    try:
        yield
    except Wms2Error as error:
        row.update(failures=F("failures") + 1, error=str(error)[:1000])
        raise
    row.update(answered_at=now, failures=0, error="")


def failing_sources() -> dict[str, str]:
    """Return the sources that failed more often in a row than allowed, with the last error."""
    rows = SiteSource.objects.filter(failures__gt=FAILURES_ALLOWED)
    return {row.name: f"{row.failures} failures {_since(row)}: {row.error}" for row in rows}


def _since(row: SiteSource) -> str:
    return f"since {row.answered_at:%F %R} UTC" if row.answered_at else "and no success yet"
