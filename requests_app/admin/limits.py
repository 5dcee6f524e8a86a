"""Console pages of limits: admission, and the quotas of requestors and groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone

from requests_app.admission import limits
from requests_app.models import AdmissionConfig, Quota
from requests_app.operations import ADMISSION_OPERATIONS, QUOTA_OPERATIONS
from requests_app.services.quotas import DEFAULT, LIMITS, QuotaState, default_of, states_of
from requests_app.states import QuotaScope
from wms2_project.access.roles import operates
from wms2_project.console import ChangeList, display
from wms2_project.operations.console import OperationAdmin


@admin.register(AdmissionConfig)
class AdmissionConfigAdmin(OperationAdmin):
    """Admission limits: one row, shown as a page."""

    fields = (
        "shown_state", "pause_reason", "max_active_dags", "storage_critical_fraction", "storage_policy",
        "priority_weight", "ageing_weight", "retry_weight", "updated_by", "updated_at",
    )  # fmt: skip
    operations = ADMISSION_OPERATIONS

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Redirect to the page of the only row."""
        return HttpResponseRedirect(reverse("admin:requests_app_admissionconfig_change", args=[limits().pk]))

    @display(description="admission", label={"open": "success", "paused": "warning"})
    def shown_state(self, row: AdmissionConfig) -> str:
        return "paused" if row.paused else "open"


def _column(what: str) -> Callable[[Any], str]:
    """Return a column with usage and limit."""

    @display(description=what.replace("_gb", " (GB)").replace("_", " "))
    def used(row: Any) -> str:
        if not hasattr(row, "state"):
            _add_states([row])
        state: QuotaState = row.state
        default = "" if what in state.own or row.name == DEFAULT else " (default)"
        limit = f"{state.limits[what]:,}{default}"
        return f"{state.usage[what]:,} of {limit}" if state.usage else limit

    return used


def _add_states(rows: list[Any]) -> None:
    shares = [(QuotaScope(row.scope), row.name) for row in rows]
    for row, state in zip(rows, states_of(shares, now=timezone.now()), strict=True):
        row.state = state


class QuotaList(ChangeList):  # type: ignore[misc]
    """Quota list that reads the usage of all rows at once."""

    result_list: Any

    def get_results(self, request: HttpRequest) -> None:
        """Read the page and attach limits and usage."""
        super().get_results(request)
        self.result_list = list(self.result_list)
        _add_states(self.result_list)


@admin.register(Quota)
class QuotaAdmin(OperationAdmin):
    """Quotas set by operators. The default is named *."""

    list_display = ("name", "scope", *map(_column, LIMITS), "updated_by", "updated_at")
    list_filter = ("scope",)
    search_fields = ("name",)
    ordering = ("scope", "name")
    fields = ("scope", "name", *map(_column, LIMITS), "updated_by", "updated_at")
    operations = QUOTA_OPERATIONS

    def has_view_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Return whether the user is an operator. Requestors read their own quota over REST."""
        return operates(request.user)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Quota]:
        """Return the quotas; create the default rows on first use."""
        for scope in QuotaScope:
            default_of(scope)
        rows: QuerySet[Quota] = super().get_queryset(request)
        return rows

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[QuotaList]:
        return QuotaList
