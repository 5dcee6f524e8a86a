"""`./wms2 bench years`: fill a scaled database year by year, apply the retention, and measure.

All times lie in the past, because the database refuses to delete young rows by its own clock. Each year is
filled with requests and all rows that production creates; then the retention runs as Beat runs it, and the
tables are vacuumed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import django
import psycopg

from benchmarks.places import is_empty, submit_root, take_places
from benchmarks.run import Run

FILES, GROUPS, STATUSES, EVENTS = 100, 5, 9, 6  # of one request
PER_DAY = 2000  # requests a day of the installation that sizes are extrapolated to
LARGEST = 12  # tables shown
SIZES = """
SELECT relname, pg_total_relation_size(oid) FROM pg_class
 WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY 2 DESC"""


def main(arguments: Sequence[str]) -> int:
    """Print one line per year, then sizes by table and their extrapolation to the full rate.

    Return the exit code.
    """
    parser = argparse.ArgumentParser(prog="bench years", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--per-day", type=int, default=20, help="requests a day (20: 1 in 100)")
    parser.add_argument("--years", type=int, default=10, help="years (10)")
    parser.add_argument("--json", type=argparse.FileType("w"), help="write the numbers to this file")
    given = parser.parse_args(arguments)
    places = take_places(os.environ)
    run = Run(places=places, redis_was_empty=is_empty(places.redis))
    with ExitStack() as stack:
        stack.enter_context(submit_root(os.environ))
        stack.callback(run.close)
        django.setup()
        years = _grow(run, per_day=given.per_day, years=given.years)
    if given.json:
        json.dump({"per_day": given.per_day, "years": years}, given.json, indent=1)
    _print_extrapolation(years, given.per_day)
    return 0


def _grow(run: Run, *, per_day: int, years: int) -> list[dict[str, Any]]:
    from benchmarks.database import databases
    from benchmarks.population import hurry
    from benchmarks.rows import first_request
    from requests_app.services.retention import apply_retention

    made = databases(run)
    made.use(made.copy("years"))
    begins = datetime.now(UTC) - timedelta(days=365 * years + 40)
    first_request()
    found: list[dict[str, Any]] = []
    with made.connect("wms2_bench_years") as server:
        hurry(server)
        for year in range(1, years + 1):
            began = time.monotonic()
            first = (year - 1) * per_day * 365 + 1
            _add_year(server, first=first, last=first + per_day * 365 - 1, begins=begins, per_day=per_day)
            _add_audit(begins + timedelta(days=365 * (year - 1)), count=per_day * 365)
            server.execute("ANALYZE")
            filled = time.monotonic()
            now = begins + timedelta(days=365 * year)
            removed = {one.name: one.rows for one in apply_retention(now=now, seconds=10**6, rest=0.0)}
            retained = time.monotonic()
            server.execute("VACUUM ANALYZE")
            measured: dict[str, Any] = {
                "year": year,
                "requests": per_day * 365 * year,
                "fill_sec": round(filled - began, 1),
                "retention_sec": round(retained - filled, 1),
                "vacuum_sec": round(time.monotonic() - retained, 1),
                "removed": removed,
                "lists": _list_costs(server),
                "tables_mb": {name: round(size / 1e6, 1) for name, size in server.execute(SIZES.encode())},
            }
            measured["total_mb"] = round(sum(measured["tables_mb"].values()), 1)
            print({key: value for key, value in measured.items() if key != "tables_mb"}, flush=True)
            found.append(measured)
    return found


def _add_year(
    server: psycopg.Connection[Any], *, first: int, last: int, begins: datetime, per_day: int
) -> None:
    """Insert completed requests with rounds, groups, files, outputs, status changes and DAG events."""
    from benchmarks.database import multiply
    from benchmarks.rows import work_rows
    from dags_app.models import DAG, DAGEvent, Workflow
    from requests_app.models import Request, StatusTransition

    request = Request.objects.get(request_name="benchmark_0")
    workflow = Workflow.objects.get(request_name="benchmark_0")
    round_, group, file, dataset, block, output = work_rows()
    dag, _ = DAG.objects.get_or_create(
        workflow=workflow, round=round_, submit_dir="/srv/dags/0", status="completed",
        defaults={"token": "benchmark", "submitted_at": begins, "completed_at": begins, "total_nodes": 50},
    )  # fmt: skip
    event = DAGEvent.objects.filter(dag=dag).first() or DAGEvent.objects.create(
        dag=dag, event_type="observed", to_status="running", detail={"nodes": {"done": 10, "idle": 40}}
    )
    change = StatusTransition.objects.filter(request=request).first() or StatusTransition.objects.create(
        request=request, to_status="active", reason="3 of 4 groups are done", actor="system:x", at=begins
    )
    at = f"timestamptz '{begins.isoformat()}' + n * interval '{86400 / per_day} seconds'"
    number = f"generate_series({first}, {last}) AS n"
    name = {"request_name": "'benchmark_' || n"}
    ids = {kind: f"md5('{kind}' || n)::uuid" for kind in "wqrdbg"}
    born = {"created_at": at}
    over_ = {"status": "'resolved'", "sweep_at": "NULL"}
    done = {"state": "'processed'", "round_id": ids["r"], "first_group": "k / 20", "last_group": "k / 20"}
    for row, over, changes in (
        (workflow, 0, name | born | {"id": ids["w"], "number": "nextval('dags_app_workflow_number')"}),
        (request, 0, name | born | {"id": ids["q"], "workflow_id": ids["w"], "status_since": at}),
        (round_, 0, born | over_ | {"id": ids["r"], "workflow_id": ids["w"]}),
        (dag, 0, born | {"id": ids["g"], "workflow_id": ids["w"], "round_id": ids["r"], "token": "'b' || n"}),
        (change, STATUSES, {"request_id": ids["q"], "at": at}),
        (event, EVENTS, {"dag_id": ids["g"], "at": at}),
        (group, GROUPS, {"round_id": ids["r"], "index": "k", "dag_id": ids["g"], "finished_at": at}),
        (file, FILES, done | {"workflow_id": ids["w"], "lfn": "t.lfn || n || '/' || k || '.root'",
                              "lumis": "jsonb_build_array(jsonb_build_array(1, k * 10, k * 10 + 9))"}),
        (dataset, 0, {"id": ids["d"], "workflow_id": ids["w"]}),
        (block, 0, {"id": ids["b"], "dataset_id": ids["d"], "block_name": "t.block_name || n"}),
        (output, GROUPS, {"block_id": ids["b"], "lfn": "t.lfn || n || '/' || k || '.root'"}),
    ):  # fmt: skip
        series = f"{number}, generate_series(1, {over}) AS k" if over else number
        multiply(server, row, over=series, changes=changes)


def _add_audit(begins: datetime, *, count: int) -> None:
    """Insert one sealed audit row per request."""
    from wms2_project.access import audit
    from wms2_project.models import AuditEvent

    rows = []
    for number in range(count):
        at = begins + timedelta(days=365) * (number / count)
        row = AuditEvent(
            at=at, actor="user:ana", action="submit", target=f"benchmark_{number}", reason="a benchmark",
            detail={"priority": [100_000, 200_000]},
        )  # fmt: skip
        row.mark = audit.mark_of(row)
        rows.append(row)
    AuditEvent.objects.bulk_create(rows, batch_size=2000)
    while audit.seal_pending():
        pass


def _list_costs(server: psycopg.Connection[Any]) -> dict[str, dict[str, float]]:
    """Return milliseconds and database pages of lists of requests.

    Pages do not depend on the load of the machine.
    """
    from requests_app.models import Request

    newest = Request.objects.order_by("-created_at", "-id").select_related("workflow")
    lists = {
        "newest": newest,
        "completed": newest.filter(status="completed"),
        "of a requestor": newest.filter(requestor="ana"),
    }
    return {name: _cost(server, str(rows[:50].query)) for name, rows in lists.items()}


def _cost(server: psycopg.Connection[Any], statement: str) -> dict[str, float]:
    """Run EXPLAIN on the statement, after quoting the constants, which Django prints without quotes."""
    text = re.sub(r"= (\w+)(?=\)? ORDER)", r"= '\1'", statement)
    row = server.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {text}".encode()).fetchone()
    assert row is not None
    plan = row[0][0]
    pages = plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]
    return {"ms": plan["Execution Time"], "pages": pages}


def _print_extrapolation(years: list[dict[str, Any]], per_day: int) -> None:
    """Print sizes at the full rate: growing tables by the growth of the last year, the others by the rate."""
    last, before = years[-1], years[-2] if len(years) > 1 else years[-1]
    factor = PER_DAY / per_day
    print(f"{'table':40} {'MB':>9} {'MB a year':>10} {'GB at ' + str(PER_DAY) + ' a day':>20}")
    for name, size in list(last["tables_mb"].items())[:LARGEST]:
        grows = size - before["tables_mb"].get(name, 0.0)
        print(f"{name:40} {size:9.1f} {grows:10.1f} {size * factor / 1000:20.1f}")
    print(f"{'all':40} {last['total_mb']:9.1f} {last['total_mb'] - before['total_mb']:10.1f}"
          f" {last['total_mb'] * factor / 1000:20.1f}", file=sys.stdout)  # fmt: skip
