"""B5: one monitoring sweep over 300 DAGs of 10k nodes.

The answer of the schedd is simulated; files and tables are real.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import psycopg
from django.utils import timezone

from benchmarks.dagfiles import NODES_AROUND_JOBS, scratch, status_text
from benchmarks.database import databases, multiply
from benchmarks.harness import Measured, alternate, percentile, timed
from benchmarks.rows import add_requests, first_request
from benchmarks.run import Run
from condor.fake import FakeSchedd
from condor.types import JobStatus
from dags_app.models import DAG, MergeGroup, Round
from dags_app.services import monitoring
from dags_app.states import DAGStatus

DAGS = 300
NODES = 10_000
JOBS_PER_GROUP = 8
CHANGED_PERCENT = 1


def running(tokens: Iterable[str]) -> FakeSchedd:
    """Return a schedd in which every DAG is running."""
    queue = FakeSchedd()
    for token in tokens:
        queue.add_dag(token, JobStatus=int(JobStatus.RUNNING))
    return queue


class Watched:
    """DAG directories with status files, in which one more group is done at each `advance`."""

    def __init__(self, root: Path, *, dags: int, groups: int) -> None:
        self._files = [root / str(number) / "workflow.dag.status" for number in range(1, dags + 1)]
        self._groups = groups
        self._done = groups // 2  # half of the groups are done
        for file in self._files:
            file.parent.mkdir()

    def advance(self, *, dags: int) -> None:
        """Finish one more group in this number of DAGs."""
        self._done += 1
        text = status_text(self._groups, done=self._done)
        for file in self._files[:dags]:
            file.write_text(text)

    def read(self) -> None:
        """Read all status files without parsing them."""
        for file in self._files:
            file.read_bytes()


def watch_all(run: Run) -> Measured:
    """B5: all status files have changed; for the moonshot one in a hundred has."""
    dags, groups = run.size(DAGS, 20), run.size(NODES, 220) // (JOBS_PER_GROUP + NODES_AROUND_JOBS)
    made = databases(run)
    name = made.copy("watching")
    made.use(name)
    root = scratch()
    with made.connect(name) as server:
        tokens = _add_dags(server, root, dags=dags, groups=groups)
        watched = Watched(root, dags=dags, groups=groups)
        with patch.object(monitoring, "schedd", return_value=running(tokens)):

            def look(expected: int) -> Callable[[], None]:
                def work() -> None:
                    assert len(monitoring.observe_dags(now=timezone.now()).news) == expected

                return work

            few = max(1, dags * CHANGED_PERCENT // 100)
            all_changed = timed(look(dags), before=lambda: watched.advance(dags=dags))
            few_changed = timed(look(few), before=lambda: watched.advance(dags=few))
            all_changed()
            changed = alternate(all_changed, timed(watched.read), repeat=run.repeat)
            unchanged = alternate(few_changed, timed(watched.read), repeat=run.repeat)
    samples = changed.as_samples() | {"99 % unchanged": unchanged.candidate}
    hoped = median(unchanged.candidate)
    note = f"{changed.ratio:.0f}× reading the files; {hoped:.2f} s when 99 % are unchanged"
    taken = changed.candidate
    spread = percentile(taken, 25), percentile(taken, 75)
    return Measured(median(taken), samples, note=note, hoped=hoped, spread=spread)


def _add_dags(server: psycopg.Connection[Any], root: Path, *, dags: int, groups: int) -> list[str]:
    """Insert the rows of these DAGs and their groups. Return the tokens of the DAGs."""
    first = first_request()
    round_ = Round.objects.create(workflow=first.workflow, number=0, jobs=groups * JOBS_PER_GROUP)
    dag = DAG.objects.create(
        workflow=first.workflow,
        round=round_,
        status=DAGStatus.COMPLETED,
        submit_dir="",
        token="wms2-bench",  # noqa: S106 — by this name the queue knows it
        submitted_at=timezone.now(),
    )
    group = MergeGroup.objects.create(round=round_, index=0, jobs=JOBS_PER_GROUP, input_events=1000)
    add_requests(server, first, count=dags)
    number, of_n = f"generate_series(1, {dags}) AS n", "md5('{}' || n)::uuid".format
    multiply(server, round_, over=number, changes={"id": of_n("r"), "workflow_id": of_n("w")})
    multiply(
        server,
        dag,
        over=number,
        changes={
            "id": of_n("g"),
            "workflow_id": of_n("w"),
            "round_id": of_n("r"),
            "status": f"'{DAGStatus.RUNNING}'",
            "token": "'wms2-bench-' || n",
            "submit_dir": f"'{root}/' || n",
        },
    )
    every_group = f"{number}, generate_series(0, {groups - 1}) AS k"
    multiply(server, group, over=every_group, changes={"round_id": of_n("r"), "index": "k"})
    server.execute("VACUUM ANALYZE")
    return [f"wms2-bench-{n}" for n in range(1, dags + 1)]
