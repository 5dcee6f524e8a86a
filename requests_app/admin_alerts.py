"""The console's page about alerts."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from requests_app.admin_list import OpenKind
from requests_app.alerts import acknowledge_alert
from requests_app.models import Alert
from requests_app.states import AlertState
from wms2_project.api.roles import actor_of
from wms2_project.console import ActionVariant, ReadOnlyAdmin, action, age_of, display, request_link, row_at


@admin.register(Alert)
class AlertAdmin(ReadOnlyAdmin):
    """What a person on shift should know."""

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
    actions_detail: ClassVar[list[str]] = ["acknowledge"]

    @action(description="Acknowledge", icon="done", permissions=["operate"], variant=ActionVariant.PRIMARY)
    def acknowledge(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Note who has taken the alert on."""

        def apply(alert: Alert, answers: dict[str, Any]) -> str:
            acknowledge_alert(alert_id=alert.pk, actor=actor_of(request), reason=answers["reason"])
            return "The alert is acknowledged."

        back = reverse("admin:requests_app_alert_changelist")
        alert = row_at(Alert, object_id)
        return self.ask(request, title="Acknowledge", targets=[alert], apply=apply, back=back)

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        """Offer the button while there is something to acknowledge."""
        state = row_at(Alert, object_id).state
        return self.buttons(request, object_id, {"acknowledge": state is AlertState.OPEN})

    @display(description="alert", ordering="kind")
    def shown_kind(self, row: Alert) -> str:
        """What kind of trouble."""
        return row.kind.replace("_", " ")

    @display(description="about", ordering="request__request_name")
    def of_request(self, row: Alert) -> SafeString | str:
        """The request or the site."""
        return request_link(row.subject) if row.request is not None else row.site

    @display(description="for", ordering="-created_at")
    def since(self, row: Alert) -> str:
        """How long it has been open, or was."""
        return age_of(row.created_at, now=row.closed_at or timezone.now())
