"""B29: a trivial request on an idle pool, from its submission to announced outputs, against its DAG alone.

The time of the DAG alone is from its submission to the end of its DAGMan, in the same run.
"""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from statistics import median

from benchmarks.harness import Measured, percentile
from benchmarks.recovery import LOOK_SEC, Stack, wait_for
from benchmarks.run import Run
from benchmarks.submission import document

REPEAT = 3
DAG = """
    SELECT d.submit_dir, d.submitted_at FROM dags_app_dag d JOIN dags_app_workflow w ON w.id = d.workflow_id
     WHERE w.request_name = %s"""


def announce_one(run: Run) -> Measured:
    """B29: run a request to its announcement, against the run time of its DAG."""
    stack = Stack(run)
    taken = [_run_one(stack) for _ in range(run.size(REPEAT, 1))]
    ratios = [whole / dag for whole, dag in taken]
    note = f"{median(whole for whole, _ in taken):.1f} s, its DAG {median(dag for _, dag in taken):.1f} s"
    spread = percentile(ratios, 25), percentile(ratios, 75)
    samples = {"request": [whole for whole, _ in taken], "DAG": [dag for _, dag in taken]}
    return Measured(median(ratios), samples, note=f"{note}; the lab's intervals", spread=spread)


def _run_one(stack: Stack) -> tuple[float, float]:
    """Return the seconds of the request and of its DAG."""
    began = time.monotonic()
    name = stack.post("requests", document(jobs=1) | {"site_whitelist": []})["request_name"]
    wait_for(lambda: _is_completed(stack, name), message=f"{name} did not complete", pause=LOOK_SEC)
    whole = time.monotonic() - began
    row = stack.rows.execute(DAG, [name]).fetchone()
    assert row is not None
    submitted: datetime = row[1]
    ended = (Path(row[0]) / "workflow.dag.metrics").stat().st_mtime
    return whole, ended - submitted.timestamp()


def _is_completed(stack: Stack, name: str) -> bool:
    status, _ = stack.request(name)
    assert status not in ("held", "failed", "aborted"), f"{name} is {status}"
    return status == "completed"
