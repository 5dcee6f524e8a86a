"""B12: one request, from its import to a DAG of 10k nodes in the queue of a real schedd. B13: a hundred.

The only allowed site has no machines, so that no job runs. The DAG is removed at once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import count
from statistics import median

from django.conf import settings

from benchmarks.database import databases
from benchmarks.harness import Measured, percentile, repeated, timed
from benchmarks.run import NotRun, Run
from dags_app.adapters import schedd
from dags_app.models import DAG, Workflow
from dags_app.services.control import remove_dag
from requests_app.lifecycle.advance import advance
from requests_app.models import Request
from requests_app.services.importing import import_request
from requests_app.states import RequestStatus
from sites_app.models import Site

NODES = 10_000
REQUESTS = 100
NODES_AROUND_JOBS = 3  # in each group: landing, merge, cleanup
NOWHERE = "T3_XX_Nowhere"
EVENTS_PER_JOB = 1000
GONE_WITHIN_SEC = 60.0
STEPS = 10  # limit of steps, far more than the statuses between import and submission
_numbers = count(1)


def queue_one(run: Run) -> Measured:
    """B12: queue the DAG of one request."""
    jobs = jobs_for(run.size(NODES, 110))
    _open(run, "dag")
    made: list[DAG] = []
    taken = repeated(
        timed(lambda: made.append(queue_request(jobs=jobs)), after=lambda: remove_all(made)),
        repeat=run.repeat,
    )
    note = f"{jobs} jobs in groups of {settings.JOBS_PER_GROUP}; without the waits between sweeps"
    spread = percentile(taken, 25), percentile(taken, 75)
    return Measured(median(taken), {"seconds": taken}, note=note, spread=spread)


def queue_hundred(run: Run) -> Measured:
    """B13: queue the DAGs of a hundred requests."""
    jobs, requests = jobs_for(run.size(NODES, 110)), run.size(REQUESTS, 2)
    _open(run, "dags")
    made: list[DAG] = []

    def all_of_them() -> None:
        for _ in range(requests):
            made.append(queue_request(jobs=jobs, groups_at_once=1))

    taken = (timed(all_of_them, after=lambda: remove_all(made))(),)
    return Measured(
        taken[0], {"seconds": taken}, note=f"{requests} requests of {jobs} jobs, one after another"
    )


def jobs_for(nodes: int) -> int:
    """Return the number of jobs of a DAG with this number of nodes."""
    per_group = int(settings.JOBS_PER_GROUP)
    return nodes * per_group // (per_group + NODES_AROUND_JOBS)


def _open(run: Run, suffix: str) -> None:
    if not os.environ.get("CONDOR_CONFIG"):
        raise NotRun("CONDOR_CONFIG is not set: run ./wms2 bench")
    if not schedd().ping():
        raise NotRun("the schedd does not answer")
    made = databases(run)
    made.use(made.copy(suffix))
    Site.objects.create(name=NOWHERE, storage_elements=[NOWHERE])


def queue_request(*, jobs: int, groups_at_once: int | None = None) -> DAG:
    """Import a request and take every step until its DAG is queued."""
    request, _ = import_request(document=document(jobs=jobs), actor="system:benchmark")
    if groups_at_once is not None:  # a thousand idle DAGMans would distort the measurement
        throttles = {"MergeGroup": groups_at_once}
        Workflow.objects.filter(pk=request.workflow_id).update(category_throttles=throttles)
    for _ in range(STEPS):
        advance(request.pk)
        request.refresh_from_db()
        if request.status not in (RequestStatus.SUBMITTED, RequestStatus.QUEUED, RequestStatus.PLANNING):
            break
    assert request.status == RequestStatus.ACTIVE, f"{request.status}: {_why(request)}"
    dag = DAG.objects.get(workflow=request.workflow)
    assert dag.dagman_cluster_id
    return dag


def _why(request: Request) -> str:
    last = request.transitions.order_by("-id").first()
    return request.last_error or request.wait_reason or (last.reason if last else "")


def document(*, jobs: int) -> dict[str, object]:
    """Return an urgent Monte Carlo request of so many jobs, without a pilot."""
    number = next(_numbers)
    return {
        "request_name": f"benchmark_{os.getpid()}_{number}",
        "requestor": "benchmark",
        "urgent": True,
        "primary_dataset": "Nothing",
        "total_events": jobs * EVENTS_PER_JOB,
        "output_datasets": [f"/Nothing/Bench-P{os.getpid()}B{number}-v1/GEN-SIM"],
        "acquisition_era": "Bench",
        "processing_string": f"B{number}",
        "processing_version": 1,
        "splitting_algo": "EventBased",
        "splitting_params": {"events_per_job": EVENTS_PER_JOB, "events_per_lumi": 100},
        "site_whitelist": [NOWHERE],
        "memory_mb": 2000,
    }


def remove_all(dags: list[DAG]) -> None:
    """Remove the DAGs and wait until the queue has none of them."""
    tokens = [dag.token for dag in dags]
    while dags:
        remove_dag(dag=dags.pop(), reason="the benchmark is over")
    _wait(lambda: not schedd().query_dags(tokens), message="removed DAGs are still in the queue")


def _wait(done: Callable[[], bool], *, message: str) -> None:
    end = time.monotonic() + GONE_WITHIN_SEC
    while not done():
        assert time.monotonic() < end, message
        time.sleep(0.2)
