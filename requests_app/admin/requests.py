"""Console pages of requests."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from requests_app.models import Request
from requests_app.operations import REQUEST_OPERATIONS
from requests_app.selectors.progress import progress_of_many
from requests_app.selectors.requests import open_requests
from requests_app.states import STATUSES, RequestStatus
from wms2_project.changes import Topic
from wms2_project.console import (
    ChangeList,
    ValueFilter,
    age_of,
    clipped,
    coloured,
    display,
    progress_bar,
    row_at,
)
from wms2_project.grammar import Name, matches
from wms2_project.operations.console import OperationAdmin

S = RequestStatus
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
COLOURS: dict[str, str] = {status: one.colour for status, one in STATUSES.items()}


class OpenCampaign(ValueFilter):
    """Filter by campaigns with open requests. Older campaigns are found by search."""

    title = parameter_name = "campaign"

    def values(self) -> Iterable[str]:
        named = open_requests().exclude(campaign="")
        return named.order_by().values_list("campaign", flat=True).distinct()[:200]


class RequestList(ChangeList):  # type: ignore[misc]
    """Request list that reads the progress of a page in a fixed number of queries."""

    result_list: Any

    def get_results(self, request: HttpRequest) -> None:
        """Read the page and attach the progress of its requests."""
        super().get_results(request)
        self.result_list = list(self.result_list)
        progress = progress_of_many(self.result_list)
        for row in self.result_list:
            row.progress = progress[row.pk]


@admin.register(Request)
class RequestAdmin(OperationAdmin):
    """Requests: list, page and operations."""

    topics = (Topic.FLEET,)
    list_before_template = "console/requests/strip.html"
    list_display = (
        "shown_name",
        "shown_status",
        "shown_progress",
        "shown_priority",
        "in_status_for",
        "status_summary",
    )
    list_filter = ("status", OpenCampaign, "urgent")
    search_fields = ("request_name", "campaign")
    search_help_text = "Part of a request's name or campaign"
    ordering = ("-created_at", "-id")
    fieldsets = ((None, {"fields": ()}),)  # the page has a template of its own
    operations = REQUEST_OPERATIONS

    def get_queryset(self, request: HttpRequest) -> QuerySet[Request]:
        """Return the rows without the documents, which the list does not show."""
        rows: QuerySet[Request] = super().get_queryset(request)
        return rows.defer("request_data", "hold_evidence")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[RequestList]:
        return RequestList

    @display(description="request", ordering="request_name", header=True)
    def shown_name(self, row: Request) -> list[str]:
        """Return the name, and below it campaign and requestor."""
        parts = (row.campaign, row.requestor, "urgent" if row.urgent else "")
        return [row.request_name, " · ".join(part for part in parts if part)]

    shown_status = coloured(COLOURS)

    @display(description="priority", ordering="priority")
    def shown_priority(self, row: Request) -> str:
        return f"{row.priority:,}"

    @display(description="progress")
    def shown_progress(self, row: Any) -> SafeString:
        """Return a bar of processed events."""
        done = row.progress
        return progress_bar(done.fraction, label=f"{done.events_done:,} of {done.events_total:,} events")

    @display(description="time in status", ordering="-status_since")
    def in_status_for(self, row: Request) -> str:
        return age_of(row.status_since, now=timezone.now())

    @display(description="waiting for / last error")
    def status_summary(self, row: Request) -> SafeString:
        """Return the wait reason, or the last error of a stopped or retrying request."""
        stopped = row.status in (S.HELD, S.FAILED) or row.attempt
        return clipped(row.last_error if stopped else row.wait_reason)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Render the page of the request. A URL with its name redirects there."""
        if not _UUID.fullmatch(object_id):
            name = object_id if matches(Name.REQUEST, object_id) else ""
            named = get_object_or_404(Request.objects.only("pk"), request_name=name)
            return HttpResponseRedirect(reverse("admin:requests_app_request_change", args=[named.pk]))
        row = row_at(Request.objects.all(), object_id)
        context = {"title": row.request_name, "document": row.request_data} | (extra_context or {})
        answer: HttpResponse = super().change_view(request, object_id, form_url, context)
        return answer

    def target_rows(self, request: HttpRequest) -> QuerySet[Request]:
        """Return the rows with their workflows, which most operations read."""
        return Request.objects.select_related("workflow")
