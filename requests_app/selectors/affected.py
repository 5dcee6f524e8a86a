"""What an operation on a request would affect, as the console shows it before the confirmation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Sum
from django.db.models.functions import Coalesce

from dags_app.models import DAG
from dags_app.states import LIVE_DAG
from outputs_app.selectors import summary
from requests_app.models import Request
from requests_app.selectors.progress import progress_of

_NODES = {name: Coalesce(Sum(f"nodes_{name}"), 0) for name in ("running", "idle", "held")}


def affected_by(request: Request) -> Mapping[str, Any]:
    """Return the jobs in the queue, the finished work and the outputs of the request."""
    progress = progress_of(request)
    live = DAG.objects.filter(workflow=request.workflow_id, status__in=sorted(LIVE_DAG))
    jobs = live.aggregate(**_NODES)
    outputs = summary(workflow=request.workflow)
    found = {
        "Status": f"{request.status.replace('_', ' ')} since {request.status_since:%F %R} UTC",
        "Jobs in the queue": f"{jobs['running']:,} running, {jobs['idle']:,} idle, {jobs['held']:,} held",
        "Finished groups": f"{progress.groups_done:,} of {progress.groups_total:,}",
        "Processed events": f"{progress.events_done:,} of {progress.events_total:,}",
    }
    if outputs.blocks:
        found["Output datasets"] = ", ".join(request.workflow.output_datasets)
        found["Outputs"] = (
            f"{outputs.files:,} files in {outputs.blocks:,} blocks, {outputs.announced:,} of them announced"
        )
    return found
