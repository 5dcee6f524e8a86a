"""The gates about other people's data: may the request write into its datasets, may they be announced?"""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from outputs_app.claims import BLOCKED, HELD
from outputs_app.models import OutputDataset
from outputs_app.selectors import awaited_writers
from outputs_app.states import DatasetStatus
from requests_app.lifecycle.gate import Gate, Verdict, passed
from requests_app.lifecycle.look import Look
from requests_app.models import Request
from requests_app.selectors import open_requests
from requests_app.services.owning import CURE

OWNERSHIP, ANNOUNCEMENT = "ownership", "announcement"


def ownership(look: Look) -> Gate:
    """May the request write into its datasets? Only a person opens it where DBS has what is not ours."""
    claims = look.workflow.claims.filter(HELD).order_by("dataset_name")
    refused = list(claims.filter(BLOCKED))
    if refused:
        return Gate(
            OWNERSHIP,
            Verdict.BLOCK,
            refused[0].conflict,
            {"datasets": {claim.dataset_name: claim.conflict for claim in refused}},
            since=refused[0].checked_at,
            remedy=f"{CURE}. Of this request: allow sharing and release it, or abort it",
            by_hand=True,
        )
    unknown = list(claims.filter(checked_at__isnull=True).values_list("dataset_name", flat=True))
    if unknown:
        return Gate(
            OWNERSHIP,
            Verdict.BLOCK,
            f"DBS was not asked yet whether {unknown[0]} exists",
            {"datasets": unknown},
            since=look.request.status_since,
            remedy="It is asked by itself as soon as DBS answers",
        )
    return passed(OWNERSHIP, "its datasets are its own to write into, or shared by permission")


def announcement(look: Look) -> Gate:
    """Do datasets of a completed request wait for others that write into them?"""
    waiting = {
        dataset.dataset_name: writers
        for dataset in OutputDataset.objects.filter(
            workflow=look.workflow, status=DatasetStatus.ACTIVE, announced_at__isnull=True
        )
        if (writers := awaited_writers(dataset=dataset, unfinished=unfinished_workflows()))
    }
    if not waiting:
        return passed(ANNOUNCEMENT, "no dataset waits for another request")
    name, writers = next(iter(waiting.items()))
    return Gate(
        ANNOUNCEMENT,
        Verdict.BLOCK,
        f"{name} is announced when {', '.join(writers)} has ended: it writes into it too",
        {"datasets": waiting},
        since=look.request.status_since,
        remedy="Wait: the last writer to end announces the dataset",
    )


def unfinished_workflows() -> QuerySet[Request, Any]:
    """The workflows whose requests have not ended."""
    return open_requests().values("workflow")
