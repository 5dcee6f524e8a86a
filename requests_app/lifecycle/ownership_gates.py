"""Gates of dataset ownership: permission to write output datasets, and their announcement."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from outputs_app.models import OutputDataset
from outputs_app.selectors import awaited_writers
from outputs_app.states import DatasetStatus
from requests_app.lifecycle.gate_result import Gate, Verdict, passed
from requests_app.lifecycle.snapshot import Snapshot
from requests_app.models import Request
from requests_app.selectors.requests import open_requests
from requests_app.services.owning import CURE

OWNERSHIP, ANNOUNCEMENT = "ownership", "announcement"


def ownership(snapshot: Snapshot) -> Gate:
    """Block while an output dataset is claimed by another request, exists in DBS, or was not checked."""
    refused = [claim for claim in snapshot.claims if claim.is_refused]
    if refused:
        return Gate(
            OWNERSHIP,
            Verdict.BLOCK,
            refused[0].conflict,
            {"datasets": {claim.dataset_name: claim.conflict for claim in refused}},
            since=refused[0].checked_at,
            remedy=f"{CURE}. For this request: allow sharing and release it, or abort it",
            needs_operator=True,
        )
    unknown = [claim.dataset_name for claim in snapshot.claims if claim.checked_at is None]
    if unknown:
        return Gate(
            OWNERSHIP,
            Verdict.BLOCK,
            f"{unknown[0]} has not been checked in DBS yet",
            {"datasets": unknown},
            since=snapshot.request.status_since,
            remedy="Wait: checked automatically when DBS answers",
        )
    return passed(OWNERSHIP, "the request owns its output datasets or may share them")


def announcement(snapshot: Snapshot) -> Gate:
    """Block while other open requests write into datasets of a completed request."""
    waiting = {
        dataset.dataset_name: writers
        for dataset in OutputDataset.objects.filter(
            workflow=snapshot.workflow, status=DatasetStatus.ACTIVE, announced_at__isnull=True
        )
        if (writers := awaited_writers(dataset=dataset, unfinished=unfinished_workflows()))
    }
    if not waiting:
        return passed(ANNOUNCEMENT, "no dataset waits for another request")
    name, writers = next(iter(waiting.items()))
    return Gate(
        ANNOUNCEMENT,
        Verdict.BLOCK,
        f"{name} is announced when {', '.join(writers)} ended: other writers of the dataset",
        {"datasets": waiting},
        since=snapshot.request.status_since,
        remedy="Wait: the dataset is announced when its last writer ends",
    )


def unfinished_workflows() -> QuerySet[Request, Any]:
    """Return the workflows of open requests."""
    return open_requests().values("workflow")
