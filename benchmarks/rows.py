"""Millions of requests, made in PostgreSQL by copying one that the models made.

The ids of request n follow from n, and it is one second younger than request n - 1.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import psycopg

from benchmarks.database import multiply
from dags_app.models import InputFile, MergeGroup, Round, Workflow
from dags_app.states import FileState, GroupStatus
from outputs_app.models import OutputBlock, OutputDataset, OutputFile
from requests_app.models import Request
from requests_app.states import RequestStatus

EPOCH = datetime(2020, 1, 1, tzinfo=UTC)
DATASET = "/Muons/Run2031A-v1/RAW"
OUTPUT = "/Muons/Run2031A-First-v1/AOD"
FILES, GROUPS = 20, 4  # of a request that is shown
DOCUMENT: dict[str, Any] = {
    "request_name": "benchmark_0",
    "input_dataset": DATASET,
    "output_datasets": [OUTPUT],
    "splitting_params": {"files_per_job": 3, "run_whitelist": [380_001, 380_002]},
    "comments": "as long as such documents are " * 30,
}


def first_request(**changes: Any) -> Request:
    """Create request number 0, which all others are copied from."""
    workflow = Workflow.objects.create(
        request_name="benchmark_0",
        input_dataset=DATASET,
        output_datasets=[OUTPUT],
        splitting_algo="FileBased",
        splitting_params=DOCUMENT["splitting_params"],
    )
    values: dict[str, Any] = {
        "request_name": workflow.request_name,
        "workflow": workflow,
        "request_data": DOCUMENT,
        "requestor": "ana",
        "campaign": "Muons2031",
        "status": RequestStatus.COMPLETED,
        "status_since": EPOCH,
        "rank": 100_000.0,
    }
    return Request.objects.create(**(values | changes))


def add_requests(server: psycopg.Connection[Any], first: Request, *, count: int) -> None:
    """Insert requests 1 to `count`, each with its workflow."""
    numbers = f"generate_series(1, {count}) AS n"
    name = {"request_name": "'benchmark_' || n"}
    born = {"created_at": f"timestamptz '{EPOCH.isoformat()}' + n * interval '1 second'"}
    number = {"number": "nextval('dags_app_workflow_number')"}
    multiply(server, first.workflow, over=numbers, changes=name | born | number | {"id": _id("w")})
    multiply(server, first, over=numbers, changes=name | born | {"id": _id("q"), "workflow_id": _id("w")})


def add_work(server: psycopg.Connection[Any], *, first: int, last: int) -> None:
    """Insert round, groups, files and an output block for each of the requests first to last."""
    number = f"generate_series({first}, {last}) AS n"
    round_, group, file, dataset, block, output = work_rows()
    own = {"id": _id("r"), "workflow_id": _id("w")}
    multiply(server, round_, over=number, changes=own)
    multiply(
        server,
        group,
        over=f"{number}, generate_series(0, {GROUPS - 1}) AS k",
        changes={"round_id": _id("r"), "index": "k"},
    )
    multiply(
        server,
        file,
        over=f"{number}, generate_series(1, {FILES}) AS k",
        changes={"workflow_id": _id("w"), "round_id": _id("r"), "lfn": "t.lfn || n || '/' || k || '.root'"},
    )
    multiply(server, dataset, over=number, changes={"id": _id("d"), "workflow_id": _id("w")})
    multiply(
        server,
        block,
        over=number,
        changes={"id": _id("b"), "dataset_id": _id("d"), "block_name": "t.block_name || n"},
    )
    multiply(
        server,
        output,
        over=f"{number}, generate_series(1, {GROUPS}) AS k",
        changes={"block_id": _id("b"), "lfn": "t.lfn || n || '/' || k || '.root'"},
    )
    server.execute(
        "UPDATE requests_app_request SET status = %s, wait_reason = '3 of 4 groups done' "
        "WHERE created_at BETWEEN %s::timestamptz + %s * interval '1 second' "
        "AND %s::timestamptz + %s * interval '1 second'",
        [RequestStatus.ACTIVE, EPOCH, first, EPOCH, last],
    )


def _id(kind: str) -> str:
    return f"md5('{kind}' || n)::uuid"


def work_rows() -> tuple[Round, MergeGroup, InputFile, OutputDataset, OutputBlock, OutputFile]:
    """Return the rows of request number 0, created at the first call."""
    workflow = Workflow.objects.get(request_name="benchmark_0")
    round_, _ = Round.objects.get_or_create(workflow=workflow, number=0, defaults={"jobs": 32})
    group, _ = MergeGroup.objects.get_or_create(
        round=round_,
        index=0,
        defaults={"jobs": 8, "input_events": 1000, "status": GroupStatus.COLLECTED, "events_read": 1000},
    )
    assigned = {"state": FileState.ASSIGNED, "round": round_, "first_group": 0, "last_group": 0}
    file, _ = InputFile.objects.get_or_create(
        workflow=workflow, lfn="/store/data/", defaults={"size_bytes": 10**9, "events": 200} | assigned
    )
    dataset, _ = OutputDataset.objects.get_or_create(workflow=workflow, dataset_name=OUTPUT)
    block, _ = OutputBlock.objects.get_or_create(
        dataset=dataset, block_name=f"{OUTPUT}#", defaults={"site": "T2_CH_CERN", "rse": "T2_CH_CERN"}
    )
    output, _ = OutputFile.objects.get_or_create(
        block=block,
        group=group,
        lfn="/store/data/out/",
        defaults={"size_bytes": 4 * 10**9, "events": 500, "adler32": "0123abcd"},
    )
    return round_, group, file, dataset, block, output
