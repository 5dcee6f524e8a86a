"""Parts of one request: timeline, versions, progress, explanation, failures and input ledger."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Annotated, Any, ClassVar

from django.db.models import QuerySet
from django.utils import timezone
from rest_framework.request import Request as HttpRequest

from dags_app.selectors import ledger_of
from requests_app.api.serializers import CurrentVersion, TimelineRow
from requests_app.models import Request, TimelineEntry
from requests_app.selectors.diagnosis import diagnose
from requests_app.selectors.progress import ProgressDetail, detail_of
from requests_app.selectors.requests import request_by_name, timeline_of
from requests_app.selectors.why import Why, why
from wms2_project.access.roles import Role
from wms2_project.api.reads import reads
from wms2_project.api.views import ListView


class TimelineView(ListView):
    """Status changes, edits and actions, oldest first."""

    operation_id = "requests_timeline"
    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}
    queryset = TimelineEntry.objects.none()
    serializer_class = TimelineRow
    orders: ClassVar[dict[str, tuple[str, ...]]] = {"at": ("at", "id")}
    order: ClassVar[str] = "at"

    def get_queryset(self) -> QuerySet[TimelineEntry]:
        if "name" not in self.kwargs:  # called by the schema generator
            return self.queryset
        return timeline_of(request_by_name(self.kwargs["name"], bare=True))


@dataclass(frozen=True, slots=True)
class EarlierVersion:
    """A version that was replaced."""

    request_name: str
    processing_version: int
    status: str
    superseded_by: str
    failure_reason: str


@dataclass(frozen=True, slots=True)
class Versions:
    """The history of a request across restarts, newest first."""

    current: Annotated[Request, CurrentVersion]
    versions: list[EarlierVersion]


@reads("requests/<request_name:name>/versions")
def requests_versions(request: HttpRequest, name: str) -> Versions:
    """Return the newest version and those it replaced, newest first."""
    rows = [request_by_name(name)]
    while newer := Request.objects.filter(previous_version=rows[0]).first():
        rows.insert(0, newer)
    while older := rows[-1].previous_version:
        rows.append(older)
    return Versions(rows[0], [_earlier(row, newer) for newer, row in pairwise(rows)])


def _earlier(row: Request, newer: Request) -> EarlierVersion:
    last = row.transitions.order_by("-id").first()
    return EarlierVersion(
        request_name=row.request_name,
        processing_version=row.processing_version,
        status=row.status,
        superseded_by=newer.request_name,
        failure_reason=last.reason if last else "",
    )


@reads("requests/<request_name:name>/progress")
def requests_progress(request: HttpRequest, name: str) -> ProgressDetail:
    """Return finished events, nodes, rounds and groups, the pace and the estimated end."""
    return detail_of(request_by_name(name, bare=True))


@reads("requests/<request_name:name>/why")
def requests_why(request: HttpRequest, name: str) -> Why:
    """Return every gate of the present status with verdict, evidence, start time and remedy."""
    return why(request_by_name(name), now=timezone.now())


@reads("requests/<request_name:name>/errors")
def requests_errors(request: HttpRequest, name: str) -> dict[str, Any]:
    """Return failures by category, site and exit code, and clusters with suggestions."""
    row = request_by_name(name)
    found = asdict(diagnose(row, now=timezone.now()))
    return {"request_name": row.request_name, "status": row.status, **found}


@reads("requests/<request_name:name>/ledger")
def requests_ledger(request: HttpRequest, name: str) -> dict[str, Any]:
    """Return the input by state with run and lumi ranges, or the generated event ranges by round."""
    return ledger_of(workflow=request_by_name(name).workflow)
