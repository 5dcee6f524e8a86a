"""The console's page about the limits of admission."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from requests_app.admin_forms import LimitsForm
from requests_app.admission import change_limits, limits
from requests_app.models import AdmissionConfig
from wms2_project.api.roles import actor_of
from wms2_project.console import ActionVariant, ReadOnlyAdmin, action, display, row_at


@admin.register(AdmissionConfig)
class AdmissionConfigAdmin(ReadOnlyAdmin):
    """The one row of limits; its list is its page."""

    fields = (
        "shown_state", "pause_reason", "max_active_dags", "storage_critical_fraction", "updated_by",
        "updated_at",
    )  # fmt: skip
    actions_detail: ClassVar[list[str]] = ["edit"]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """There is one row: show it."""
        return HttpResponseRedirect(reverse("admin:requests_app_admissionconfig_change", args=[limits().pk]))

    @display(description="admission", label={"open": "success", "paused": "warning"})
    def shown_state(self, row: AdmissionConfig) -> str:
        """Does anybody get in?"""
        return "paused" if row.paused else "open"

    @action(description="Change limits", icon="tune", permissions=["operate"], variant=ActionVariant.PRIMARY)
    def edit(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Change limits at once, for everybody."""
        config = row_at(AdmissionConfig, object_id)

        def apply(row: AdmissionConfig, answers: dict[str, Any]) -> str:
            reason, version = answers.pop("reason"), answers.pop("version")
            change_limits(changes=answers, actor=actor_of(request), reason=reason, expected_version=version)
            return "The new limits hold from now on."

        return self.ask(
            request,
            title="Change limits",
            targets=[config],
            apply=apply,
            form_class=LimitsForm,
            initial={name: getattr(config, name) for name in LimitsForm.base_fields if name != "reason"},
            back=reverse("admin:requests_app_admissionconfig_change", args=[config.pk]),
        )
