"""B6: claim due requests, batch by batch, against the barest SQL that does as much."""

from __future__ import annotations

from typing import Any

import psycopg
from django.conf import settings

from benchmarks.database import databases
from benchmarks.harness import Measured, Run, alternate, timed
from benchmarks.rows import add_requests, first_request
from requests_app.models import Request
from requests_app.states import SWEPT, RequestStatus
from wms2_project.leases import claim_due

DUE = 10_000
BARE = """
    UPDATE requests_app_request SET owner = %(owner)s, heartbeat_at = now()
     WHERE id IN (SELECT id FROM requests_app_request
                   WHERE next_check_at <= now() AND status = ANY(%(statuses)s) AND owner = ''
                   ORDER BY next_check_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
 RETURNING id"""


def due_requests(run: Run, suffix: str, *, count: int) -> psycopg.Connection[Any]:
    """A database of its own with so many requests that are due; a connection to it."""
    made = databases(run)
    name = made.copy(suffix)
    made.use(name)
    server = made.connect(name)
    first = first_request(status=RequestStatus.ACTIVE, owner="nobody", next_check_at="2100-01-01T00:00Z")
    add_requests(server, first, count=count)
    make_due(server)
    server.execute("ANALYZE")
    return server


def make_due(server: psycopg.Connection[Any]) -> None:
    """All but the first are due again, and PostgreSQL has swept up what the last claims left."""
    server.execute(
        "UPDATE requests_app_request SET owner = '', heartbeat_at = NULL, worker_deaths = 0, "
        "next_check_at = created_at WHERE request_name <> 'benchmark_0'"
    )
    server.execute("VACUUM requests_app_request")


def claim_batches(run: Run) -> Measured:
    """B6."""
    due, batch, statuses = run.size(DUE, 600), settings.SWEEP_BATCH, sorted(SWEPT)
    with due_requests(run, "claims", count=due) as server:

        def ours() -> None:
            claimed = 0
            while found := claim_due(Request, statuses=statuses, limit=batch):
                claimed += len(found)
            assert claimed == due, f"{claimed} of {due} due requests were claimed"

        def bare() -> None:
            claimed = 0
            values = {"owner": "bare", "statuses": statuses, "limit": batch}
            while found := server.execute(BARE, values).fetchall():
                claimed += len(found)
            assert claimed == due, f"{claimed} of {due} due requests were claimed"

        pairs = alternate(
            timed(ours, before=lambda: make_due(server)),
            timed(bare, before=lambda: make_due(server)),
            repeat=run.repeat,
        )
    rate = due / sorted(pairs.candidate)[len(pairs.candidate) // 2]
    note = f"{due} due, {batch} at a time: {rate:,.0f}/s"
    return Measured(value=pairs.rate_percent, samples=pairs.as_samples(), note=note)
