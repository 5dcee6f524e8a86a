"""B22 and B24: lend files to runners, against a minimal SQL statement, and with a growing ledger."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from time import monotonic, perf_counter, sleep
from typing import Any
from uuid import uuid4

import psycopg
from django.conf import settings
from django.db import connection
from django.utils import timezone

from benchmarks.database import databases, multiply
from benchmarks.harness import Measured, Pairs, Sample, alternate
from benchmarks.rows import first_request
from benchmarks.run import Run
from dags_app.models import InputFile, MergeGroup, PlaceSet, Round, Runner, Workflow
from dags_app.pull.allocation import Asked, lend_files
from dags_app.pull.distances import Source
from dags_app.states import RoundKind
from requests_app.lifecycle.pulling import end_leases

CONNECTIONS = 16
CALLS = 100  # of each connection, in one repetition
PLACES = 20
CALLS_OF_SAMPLE = 40
LEASE_SEC, SWEEP_SEC = 2, 0.5  # of a runner that stops sending heartbeats
BARE = """
    WITH free AS MATERIALIZED (
         SELECT id FROM dags_app_inputfile
          WHERE workflow_id = %(workflow)s AND place_set_id = %(set)s AND state IN ('fresh', 'attempted')
          ORDER BY attempts, id LIMIT 1 FOR UPDATE SKIP LOCKED)
    UPDATE dags_app_inputfile AS f
       SET state = 'assigned', runner_id = %(runner)s, round_id = %(round)s, first_group = 0, last_group = 0,
           attempts = f.attempts + 1
      FROM free WHERE f.id = free.id RETURNING f.id, f.lfn"""


def pull_database(run: Run, suffix: str, *, files: int) -> tuple[str, Workflow]:
    """Create a database with a pull round of files in 20 sets of places; the last set has half of them."""
    made = databases(run)
    name = made.copy(suffix)
    made.use(name)
    workflow = first_request().workflow
    round_ = Round.objects.create(workflow=workflow, number=0, jobs=1, kind=RoundKind.PULL)
    MergeGroup.objects.create(round=round_, index=0, jobs=1)
    sets = [PlaceSet.objects.create(workflow=workflow, storages=[f"T2_XX_{n:02d}"]) for n in range(PLACES)]
    file = InputFile.objects.create(
        workflow=workflow, lfn="/store/data/", size_bytes=10**9, events=1000, lumis=[[380_000, 1, 20]]
    )
    with made.connect(name) as server:
        server.execute("ALTER TABLE dags_app_inputfile SET (autovacuum_enabled = false)")
        changes = {
            "lfn": "t.lfn || n || '.root'",
            "place_set_id": f"{sets[0].pk} + least(mod(n, {2 * PLACES}), {PLACES - 1})",
        }
        multiply(server, file, over=f"generate_series(1, {files}) AS n", changes=changes)
        server.execute("VACUUM ANALYZE dags_app_inputfile")
    InputFile.objects.filter(pk=file.pk).delete()
    return name, workflow


def make_runners(workflow: Workflow, count: int) -> list[Runner]:
    """Create this number of runners in the workflow's round."""
    round_ = workflow.rounds.get()
    group = round_.groups.get()
    first = Runner.objects.count()
    rows = [
        Runner(
            workflow=workflow, round=round_, group=group, node=f"proc_{first + n:06d}", attempt=0,
            instance=uuid4(), htcondor_id=f"{n}.0", site="T2_XX_00", seconds_left=3600,
        )
        for n in range(count)
    ]  # fmt: skip
    return Runner.objects.bulk_create(rows)


def sources_of(workflow: Workflow) -> list[Source]:
    """Return all sets of places; the number of a set is its distance."""
    keys = workflow.place_sets.order_by("pk").values_list("pk", flat=True)
    return [Source(key, number, ("T2_XX_00",)) for number, key in enumerate(keys)]


def lend_to_many(run: Run) -> Measured:
    """B22: 16 connections allocate one file at a time; rate of the allocator against the statement alone."""
    calls = run.size(CALLS, 10)
    name, workflow = pull_database(run, "lending", files=4 * CONNECTIONS * calls * (run.repeat + 1))
    runners, sources = make_runners(workflow, CONNECTIONS), sources_of(workflow)
    taken: list[int] = []
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(run.repeat):
        ours.append(all_at_once(lambda number: _lend(workflow, runners[number], sources, calls, taken)))
        bare.append(
            all_at_once(lambda number: _lend_bare(run, name, workflow, runners[number], calls, taken))
        )
    assert len(taken) == len(set(taken)) == 2 * run.repeat * calls * CONNECTIONS, "a file was lent twice"
    assert workflow.input_files.filter(state="assigned").count() == len(taken), "a file was lost"
    percent = 100 * median(bare) / median(ours)
    rate = CONNECTIONS * calls / median(ours)
    return Measured(percent, {"candidate": ours, "reference": bare}, note=f"{rate:,.0f} files/s")


def all_at_once(work: Callable[[int], None]) -> float:
    """Run the work on all connections at the same time. Return the seconds until the last has ended."""
    barrier = threading.Barrier(CONNECTIONS + 1)

    def one(number: int) -> None:
        try:
            connection.ensure_connection()
            barrier.wait(timeout=60)
            work(number)
        finally:
            connection.close()

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        done = [pool.submit(one, number) for number in range(CONNECTIONS)]
        barrier.wait(timeout=60)
        began = perf_counter()
        for future in done:
            future.result()
        return perf_counter() - began


def _lend(
    workflow: Workflow, runner: Runner, sources: Sequence[Source], calls: int, taken: list[int]
) -> None:
    for _ in range(calls):
        lent = lend_files(Asked(workflow.pk, runner.round_id, runner.pk, uuid4(), 1, sources))
        assert lent
        taken.append(lent[0].id)


def _lend_bare(run: Run, name: str, workflow: Workflow, runner: Runner, calls: int, taken: list[int]) -> None:
    values: dict[str, Any] = {"workflow": workflow.pk, "runner": runner.pk, "round": runner.round_id}
    values["set"] = workflow.place_sets.latest("pk").pk
    server: psycopg.Connection[Any]
    with databases(run).connect(name) as server:
        for _ in range(calls):
            row = server.execute(BARE, values).fetchone()
            assert row
            taken.append(row[0])


def lend_among_many(run: Run) -> Measured:
    """B24: one file among a million, and after 900k are processed, against one among a thousand.

    The value is the larger of the two ratios, each divided by its limit: 1.3 and 1.5.
    """
    large, processed = run.size(1_000_000, 20_000), run.size(900_000, 18_000)
    few, many = pull_database(run, "few", files=5000), pull_database(run, "many", files=large)
    round_id = many[1].rounds.get().pk
    full = _compare(run, few, many)
    with databases(run).connect(many[0]) as server:
        server.execute(
            "UPDATE dags_app_inputfile SET state = 'processed', round_id = %s, first_group = 0,"
            " last_group = 0 WHERE id IN"
            " (SELECT id FROM dags_app_inputfile WHERE state = 'fresh' ORDER BY id LIMIT %s)",
            [round_id, processed],
        )
    late = _compare(run, few, many)
    samples = {"few": full.reference, "many": full.candidate, "few again": late.reference}
    samples["900k processed"] = late.candidate
    note = f"1M {full.ratio:.2f}× (≤ 1.3×), 900k processed {late.ratio:.2f}× (≤ 1.5×)"
    return Measured(max(full.ratio / 1.3, late.ratio / 1.5), samples, note=note)


def _compare(run: Run, few: tuple[str, Workflow], many: tuple[str, Workflow]) -> Pairs:
    """Lend from both databases alternately, some files each time."""
    return alternate(_sample(run, *many), _sample(run, *few), repeat=run.size(15, 3))


def _sample(run: Run, name: str, workflow: Workflow) -> Sample:
    databases(run).use(name)
    (runner,), sources = make_runners(workflow, 1), sources_of(workflow)

    def sample() -> float:
        databases(run).use(name)
        taken = []
        for _ in range(CALLS_OF_SAMPLE):
            began = perf_counter()
            assert lend_files(Asked(workflow.pk, runner.round_id, runner.pk, uuid4(), 1, sources))
            taken.append(perf_counter() - began)
        return median(taken)

    return sample


def lend_again(run: Run) -> Measured:
    """B25: a runner with the only file stops; sweeps from the end of its lease until another gets it."""
    _, workflow = pull_database(run, "silence", files=1)
    sources, kept = sources_of(workflow), settings.RUNNER_LEASE_SEC
    settings.RUNNER_LEASE_SEC = LEASE_SEC
    needed: list[float] = []
    try:
        for _ in range(run.repeat):
            silent, other = make_runners(workflow, 2)
            assert lend_files(Asked(workflow.pk, silent.round_id, silent.pk, uuid4(), 1, sources))
            over = monotonic() + LEASE_SEC
            sweeps = 0
            while not lend_files(Asked(workflow.pk, other.round_id, other.pk, uuid4(), 1, sources)):
                sleep(SWEEP_SEC)
                sweeps += monotonic() >= over
                end_leases(now=timezone.now())
            needed.append(float(sweeps))
            workflow.input_files.update(state="fresh", runner=None, round=None, attempts=0)
    finally:
        settings.RUNNER_LEASE_SEC = kept
    return Measured(max(needed), {"sweeps": needed}, note=f"lease {LEASE_SEC} s, a sweep every {SWEEP_SEC} s")
