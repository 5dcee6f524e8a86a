"""The history of a request: its timeline and its versions."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from requests_app.api.serializers import TimelineRow, VersionsBody
from requests_app.models import Request, TimelineEntry
from requests_app.selectors.requests import request_by_name, timeline_of
from wms2_project.access.roles import Role
from wms2_project.api.views import ApiView, ListView


@extend_schema_view(
    get=extend_schema(
        operation_id="requests_timeline", description="Status changes, edits and actions, oldest first."
    )
)
class TimelineView(ListView):
    """Timeline of a request."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}
    queryset = TimelineEntry.objects.none()
    serializer_class = TimelineRow
    orders: ClassVar[dict[str, tuple[str, ...]]] = {"at": ("at", "id")}
    order: ClassVar[str] = "at"

    def get_queryset(self) -> QuerySet[TimelineEntry]:
        if "name" not in self.kwargs:  # called by the schema generator
            return self.queryset
        return timeline_of(request_by_name(self.kwargs["name"], bare=True))


class VersionsView(ApiView):
    """Versions of a request across restarts."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @extend_schema(operation_id="requests_versions", responses=VersionsBody)
    def get(self, request: HttpRequest, name: str) -> Response:
        """Return the newest version and those it replaced, newest first."""
        versions = _versions(request_by_name(name))
        earlier = [
            {
                "request_name": row.request_name,
                "processing_version": row.processing_version,
                "status": row.status,
                "superseded_by": newer.request_name,
                "failure_reason": _last_reason(row),
            }
            for newer, row in pairwise(versions)
        ]
        return Response(VersionsBody({"current": versions[0], "versions": earlier}).data)


def _versions(row: Request) -> list[Request]:
    """Return all versions, newest first."""
    versions = [row]
    while newer := Request.objects.filter(previous_version=versions[0]).first():
        versions.insert(0, newer)
    while older := versions[-1].previous_version:
        versions.append(older)
    return versions


def _last_reason(row: Request) -> str:
    last = row.transitions.order_by("-id").first()
    return last.reason if last else ""
