"""News for what waits at a gate: lower layers write them, the layer that owns the waiting rows reads them.

One row per event, in the transaction of what happened: a row that was there already could be taken before
that transaction commits.
"""

from __future__ import annotations

from django.db import connection

from wms2_project.models import GateNews

DATA, SITES, STORAGE, SCHEDDS, SPACE = "data", "sites", "storage", "schedds", "space"
PILEUP = "pileup"  # news for it are those for `data`
CREDENTIAL = "credential"


def wake_waiting(*gates: str) -> None:
    """Make the next sweep ask these gates again, for everything that waits there."""
    GateNews.objects.bulk_create(GateNews(gate=gate) for gate in gates)


def take_news() -> set[str]:
    """Remove the news and return the gates they are about."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM wms2_project_gatenews RETURNING gate")
        return {gate for (gate,) in cursor.fetchall()}
