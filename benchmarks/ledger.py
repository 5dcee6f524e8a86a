"""B8: assign 100k files to the groups of a round, as planning does, against COPY and a join."""

from __future__ import annotations

from django.db import connection, transaction

from benchmarks.database import databases, multiply
from benchmarks.harness import Measured, alternate, timed
from benchmarks.rows import first_request
from benchmarks.run import Run
from dags_app.models import InputFile, Round
from dags_app.services.ledger import assign
from dags_app.states import FileState

FILES = 100_000
FILES_PER_GROUP = 40
CHECKS = "SET CONSTRAINTS ALL IMMEDIATE"
JOIN = """
    UPDATE dags_app_inputfile AS f
       SET state = %s, round_id = %s, first_group = s.first_group, last_group = s.last_group,
           attempts = f.attempts + 1
      FROM span AS s
     WHERE f.workflow_id = %s AND f.lfn = s.lfn AND f.state IN ('fresh', 'attempted')"""


def assign_files(run: Run) -> Measured:
    """B8: assign the files; both sides are rolled back."""
    files = run.size(FILES, 2000)
    made = databases(run)
    name = made.copy("ledger")
    made.use(name)
    workflow = first_request().workflow
    round_ = Round.objects.create(workflow=workflow, number=0, jobs=files)
    file = InputFile.objects.create(
        workflow=workflow, lfn="/store/data/", size_bytes=10**9, events=1000, lumis=[[380_000, 1, 20]]
    )
    spans = [
        (f"/store/data/{number:08d}.root", number // FILES_PER_GROUP, number // FILES_PER_GROUP)
        for number in range(1, files + 1)
    ]
    with made.connect(name) as server:
        numbers = f"generate_series(1, {files}) AS n"
        multiply(server, file, over=numbers, changes={"lfn": "t.lfn || lpad(n::text, 8, '0') || '.root'"})
        server.execute("VACUUM ANALYZE dags_app_inputfile")

        # Both are rolled back after their constraint checks, so that the files are fresh again without an
        # update.
        def ours() -> None:
            with transaction.atomic(), connection.cursor() as cursor:
                assert assign(round_=round_, spans=spans) == files
                cursor.execute(CHECKS)
                transaction.set_rollback(True)

        def copy_and_join() -> None:
            with server.transaction(force_rollback=True), server.cursor() as cursor:
                cursor.execute(
                    "CREATE TEMP TABLE span (lfn text, first_group int, last_group int) ON COMMIT DROP"
                )
                with cursor.copy("COPY span FROM STDIN") as copy:
                    for span in spans:
                        copy.write_row(span)
                cursor.execute("ANALYZE span")
                cursor.execute(JOIN, [FileState.ASSIGNED, round_.pk, workflow.pk])
                assert cursor.rowcount == files
                cursor.execute(CHECKS)

        def clean() -> None:
            server.execute("VACUUM dags_app_inputfile")

        pairs = alternate(timed(ours, before=clean), timed(copy_and_join, before=clean), repeat=run.repeat)
    rate = files / sorted(pairs.candidate)[len(pairs.candidate) // 2]
    note = f"{files} files, {rate:,.0f}/s"
    return Measured(pairs.rate_percent, pairs.as_samples(), note=note, spread=pairs.spread_percent)
