"""Console page of alerts."""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib import admin
from django.utils import timezone
from django.utils.safestring import SafeString

from requests_app.models import Alert
from requests_app.operations import ALERT_OPERATIONS
from requests_app.services.alerts import open_alerts
from wms2_project.changes import Topic
from wms2_project.console import ValueFilter, age_of, display, request_link
from wms2_project.operations.console import OperationAdmin


class OpenKind(ValueFilter):
    """Filter by kinds of open alerts. Other kinds are found by search."""

    title = parameter_name = "kind"

    def values(self) -> Iterable[str]:
        return open_alerts()

    def label_of(self, value: str) -> str:
        return value.replace("_", " ")


@admin.register(Alert)
class AlertAdmin(OperationAdmin):
    """Alerts for operators on shift."""

    topics = (Topic.ALERTS,)
    list_display = (
        "shown_kind", "of_request", "message", "count", "since", "last_seen_at", "acknowledged_by",
        "closed_at",
    )  # fmt: skip
    fields = (
        "shown_kind", "of_request", "message", "count", "created_at", "last_seen_at", "acknowledged_by",
        "acknowledged_at", "acknowledge_reason", "closed_at",
    )  # fmt: skip
    list_filter = (OpenKind,)
    search_fields = ("request__request_name", "site", "message", "kind")
    list_select_related = ("request",)
    ordering = ("-closed_at", "-id")  # open ones first
    operations = ALERT_OPERATIONS

    @display(description="alert", ordering="kind")
    def shown_kind(self, row: Alert) -> str:
        return row.kind.replace("_", " ")

    @display(description="about", ordering="request__request_name")
    def of_request(self, row: Alert) -> SafeString | str:
        """Return the request or site the alert is about."""
        return request_link(row.subject) if row.request is not None else row.site

    @display(description="for", ordering="-created_at")
    def since(self, row: Alert) -> str:
        """Return how long the alert has been open, or was open."""
        return age_of(row.created_at, now=row.closed_at or timezone.now())
