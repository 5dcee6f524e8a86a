"""B6: claim due requests, batch by batch, against a minimal SQL statement with the same effect."""

from __future__ import annotations

from datetime import timedelta
from statistics import median
from typing import Any

import psycopg
from django.conf import settings

from benchmarks.database import databases
from benchmarks.harness import Measured, Pairs, alternate, stopped
from benchmarks.rows import EPOCH, add_requests, first_request
from benchmarks.run import Run
from requests_app.models import Request
from requests_app.states import SWEPT, RequestStatus
from wms2_project.leases import claim_due

DUE = 10_000
OTHERS = 100_000  # finished requests that are not due, so that claims must search the table
BARE = """
      WITH due AS MATERIALIZED (
           SELECT id FROM requests_app_request
            WHERE next_check_at <= now() AND status = ANY(%(statuses)s) AND owner = ''
            ORDER BY next_check_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
    UPDATE requests_app_request AS t SET owner = %(owner)s, heartbeat_at = now()
      FROM due
     WHERE t.id = due.id
 RETURNING t.id"""


def due_requests(run: Run, suffix: str, *, count: int, others: int = 0) -> psycopg.Connection[Any]:
    """Create a database with this number of due requests, and others. Return a connection to it."""
    made = databases(run)
    name = made.copy(suffix)
    made.use(name)
    server = made.connect(name)
    # Vacuum outside the measurement: autovacuum could change plans at any moment.
    server.execute("ALTER TABLE requests_app_request SET (autovacuum_enabled = false)")
    add_requests(server, first_request(), count=count + others)
    server.execute(
        "UPDATE requests_app_request SET status = %s WHERE created_at > %s AND created_at <= %s",
        [RequestStatus.ACTIVE, EPOCH, EPOCH + timedelta(seconds=count)],
    )
    make_due(server)
    server.execute("VACUUM ANALYZE requests_app_request")
    return server


def make_due(server: psycopg.Connection[Any]) -> None:
    """Make the claimed requests due again and vacuum the table."""
    server.execute(
        "UPDATE requests_app_request SET owner = '', heartbeat_at = NULL, worker_deaths = 0, "
        "next_check_at = created_at WHERE status = %s",
        [RequestStatus.ACTIVE],
    )
    server.execute("VACUUM requests_app_request")


def claim_batches(run: Run) -> Measured:
    """B6: claim alternately from the same table until nothing is due; then make all due and repeat."""
    due, batch, statuses = run.size(DUE, 2000), settings.SWEEP_BATCH, sorted(SWEPT)
    taken: list[Pairs] = []
    with due_requests(run, "claims", count=due, others=run.size(OTHERS, 2000)) as server:
        values = {"owner": "bare", "statuses": statuses, "limit": batch}

        def ours() -> None:
            assert len(claim_due(Request, statuses=statuses, limit=batch)) == batch

        def bare() -> None:
            assert len(server.execute(BARE, values).fetchall()) == batch

        for _ in range(run.repeat):
            taken.append(alternate(stopped(ours), stopped(bare), repeat=due // batch // 2))
            assert not claim_due(Request, statuses=statuses, limit=1), "requests were left over"
            make_due(server)
    pairs = Pairs(
        candidate=tuple(seconds for part in taken for seconds in part.candidate),
        reference=tuple(seconds for part in taken for seconds in part.reference),
    )
    rate = batch / median(pairs.candidate)
    note = f"{due} due of {due + run.size(OTHERS, 2000)}, {batch} at a time: {rate:,.0f}/s"
    return Measured(pairs.rate_percent, pairs.as_samples(), note=note, spread=pairs.spread_percent)
