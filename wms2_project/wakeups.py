"""Wake-ups of requests that wait at a gate: lower layers write them, requests_app reads them.

There is one row per event, in the transaction of the event: the sweep could remove a shared row before that
transaction commits.
"""

from __future__ import annotations

from django.db import connection

from wms2_project.models import GateNews

DATA, SITES, STORAGE, SCHEDDS, SPACE = "data", "sites", "storage", "schedds", "space"
PILEUP = "pileup"  # news for it are those for `data`
CREDENTIAL = "credential"


def wake_waiting(*gates: str) -> None:
    """Make the next sweep evaluate these gates again for all requests that wait there."""
    GateNews.objects.bulk_create(GateNews(gate=gate) for gate in gates)


def take_news() -> set[str]:
    """Remove all wake-ups and return their gates."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM wms2_project_gatenews RETURNING gate")
        return {gate for (gate,) in cursor.fetchall()}
