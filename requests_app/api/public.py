"""Public view of a request, addressed by its unguessable id, without internal details."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated
from uuid import UUID

from rest_framework import serializers
from rest_framework.request import Request as HttpRequest

from outputs_app.selectors import datasets_of
from requests_app.models import Request
from requests_app.selectors.progress import progress_of
from requests_app.states import STATUSES, TERMINAL, RequestStatus
from wms2_project.access.roles import Role
from wms2_project.api.reads import reads
from wms2_project.errors import NotFound

PUBLIC_STATUSES = list(dict.fromkeys(one.public for one in STATUSES.values()))
_ERRORS = {
    RequestStatus.FAILED: "The request could not be completed.",
    RequestStatus.ABORTED: "The request was cancelled.",
}


@dataclass(frozen=True, slots=True)
class PublicDataset:
    """An announced dataset."""

    dataset_name: str
    files: int
    events: int


@dataclass(frozen=True, slots=True)
class PublicRequest:
    """Public status of a request."""

    request_id: UUID
    status: Annotated[str, serializers.ChoiceField, {"choices": PUBLIC_STATUSES}]
    submitted_at: datetime
    completed_at: datetime | None
    progress_percent: float
    result: Annotated[list[PublicDataset], "Output datasets, once all are announced."]
    error: str | None


@reads(
    "public/requests/<uuid:request_id>",
    role=Role.ANONYMOUS,
    authentication_classes=(),  # the id grants access; callers are not authenticated
)
def public_request(request: HttpRequest, request_id: UUID) -> PublicRequest:
    """Return status and progress of the request, without name, people, sites and errors."""
    row = Request.objects.select_related("workflow").filter(pk=request_id).first()
    if row is None:
        raise NotFound("There is no request with this id")
    status = RequestStatus(row.status)
    made = datasets_of(workflow=row.workflow) if status is RequestStatus.COMPLETED else []
    return PublicRequest(
        request_id=row.pk,
        status=STATUSES[status].public,
        submitted_at=row.created_at,
        completed_at=row.status_since if status in TERMINAL else None,
        progress_percent=round(100 * progress_of(row).fraction, 1),
        result=[PublicDataset(one.dataset_name, one.files, one.events) for one in made if one.in_dbs],
        error=_ERRORS.get(status),
    )
