"""The console's pages about sites: what CRIC says, what operators decided, which bans are in force."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone

from sites_app.models import Site, SiteBan
from sites_app.services import drain_site, enable_site
from sites_app.states import SiteStatus
from wms2_project.api.roles import actor_of
from wms2_project.console import (
    ActionVariant,
    ReadOnlyAdmin,
    ReasonForm,
    UnfoldAdminTextInputWidget,
    action,
    display,
)

COLOURS: dict[str, str] = {
    SiteStatus.ENABLED: "success", SiteStatus.DRAINING: "warning", SiteStatus.MAINTENANCE: "warning",
    SiteStatus.DISABLED: "danger",
}  # fmt: skip


class DrainForm(ReasonForm):
    """Until when."""

    until = forms.DateTimeField(
        required=False,
        widget=UnfoldAdminTextInputWidget(attrs={"placeholder": "YYYY-MM-DD HH:MM"}),
        help_text="UTC. Empty: until somebody enables the site.",
    )
    field_order = ("until", "reason")

    def clean_until(self) -> Any:
        """A drain that is over before it begins is a slip."""
        until = self.cleaned_data["until"]
        if until is not None and until <= timezone.now():
            raise forms.ValidationError("This is in the past.")
        return until


@admin.register(Site)
class SiteAdmin(ReadOnlyAdmin):
    """Sites, and the switches an operator has."""

    list_display = (
        "name", "shown_status", "drain_until", "storage_elements", "running_slots", "pending_slots",
        "total_slots", "synced_at",
    )  # fmt: skip
    list_filter = ("status",)
    search_fields = ("name",)
    ordering = ("name",)
    actions = ("drain_selected", "enable_selected")
    actions_detail: ClassVar[list[str]] = ["drain", "enable"]

    @display(description="status", ordering="status", label=COLOURS)
    def shown_status(self, row: Site) -> tuple[str, str]:
        """The status in its colour."""
        return row.status, row.status

    @action(description="Drain", icon="block", permissions=["operate"], variant=ActionVariant.WARNING)
    def drain(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """No new work here."""
        return self._ask_for(request, object_id, "Drain", self._drained(request), DrainForm)

    @action(description="Enable", icon="check", permissions=["operate"], variant=ActionVariant.PRIMARY)
    def enable(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Work may land here again."""
        return self._ask_for(request, object_id, "Enable", self._enabled(request), ReasonForm)

    @action(description="Drain the selected sites", permissions=["operate"])
    def drain_selected(self, request: HttpRequest, rows: QuerySet[Site]) -> HttpResponse:
        """Drain each."""
        return self._ask_for_all(request, rows, "Drain", self._drained(request), DrainForm, "drain_selected")

    @action(description="Enable the selected sites", permissions=["operate"])
    def enable_selected(self, request: HttpRequest, rows: QuerySet[Site]) -> HttpResponse:
        """Enable each."""
        return self._ask_for_all(
            request, rows, "Enable", self._enabled(request), ReasonForm, "enable_selected"
        )

    def _drained(self, request: HttpRequest) -> Any:
        def apply(site: Site, answers: dict[str, Any]) -> str:
            drain_site(site=site, actor=actor_of(request), **answers)
            return f"{site} takes no new work."

        return apply

    def _enabled(self, request: HttpRequest) -> Any:
        def apply(site: Site, answers: dict[str, Any]) -> str:
            enable_site(site=site, actor=actor_of(request), **answers)
            return f"{site} takes work again."

        return apply

    def _ask_for(
        self, request: HttpRequest, object_id: str, title: str, apply: Any, form_class: type[forms.Form]
    ) -> HttpResponse:
        site = get_object_or_404(Site, pk=object_id)
        back = reverse("admin:sites_app_site_change", args=[site.pk])
        return self.ask(request, title=title, targets=[site], apply=apply, form_class=form_class, back=back)

    def _ask_for_all(
        self, request: HttpRequest, rows: QuerySet[Site], title: str, apply: Any,
        form_class: type[forms.Form], name: str,
    ) -> HttpResponse:  # fmt: skip
        back = reverse("admin:sites_app_site_changelist")
        return self.ask(
            request,
            title=title,
            targets=rows,
            apply=apply,
            form_class=form_class,
            back=back,
            bulk_action=name,
        )


@admin.register(SiteBan)
class SiteBanAdmin(ReadOnlyAdmin):
    """Bans, in force and past."""

    list_display = ("site", "workflow", "reason", "created_by", "created_at", "expires_at", "removed_at")
    list_filter = (("removed_at", admin.EmptyFieldListFilter),)
    search_fields = ("site__name", "workflow__request_name", "reason")
    list_select_related = ("site", "workflow")
    ordering = ("-created_at", "-id")
