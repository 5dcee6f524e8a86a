"""Console page of quotas: limits and usage of requestors and groups."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from requests_app.models import Quota
from requests_app.services.quotas import DEFAULT, LIMITS, QuotaState, change_quota, default_of, states_of
from requests_app.states import QuotaScope
from wms2_project.access.roles import actor_of, operates
from wms2_project.console import (
    ActionVariant,
    ChangeList,
    ReadOnlyAdmin,
    ReasonForm,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
    action,
    display,
    row_at,
)
from wms2_project.fields import choices

EFFECT = "New limits apply at once. Leave a limit empty to use the default (*)."


class NumbersForm(ReasonForm):
    """The limits of one quota."""

    field_order = (*LIMITS, "reason")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, limit in LIMITS.items():
            self.fields[name] = forms.IntegerField(
                required=False, min_value=0, max_value=limit.most, widget=UnfoldAdminIntegerFieldWidget,
                label=limit.unit.capitalize().replace("Gb", "GB"), help_text=limit.help,
            )  # fmt: skip
        self.order_fields(self.field_order)


class QuotaForm(NumbersForm):
    """The limits and their owner."""

    scope = forms.ChoiceField(choices=choices(QuotaScope), widget=UnfoldAdminSelectWidget, label="Quota type")
    name = forms.CharField(
        max_length=100, widget=UnfoldAdminTextInputWidget, label="Name",
        help_text="Name of an account or group. Use * for the default quota.",
    )  # fmt: skip
    field_order = ("scope", "name", *NumbersForm.field_order)


class QuotaList(ChangeList):  # type: ignore[misc]
    """Quota list that reads the usage of all rows at once."""

    result_list: Any

    def get_results(self, request: HttpRequest) -> None:
        """Read the page and attach limits and usage."""
        super().get_results(request)
        self.result_list = list(self.result_list)
        _add_states(self.result_list)


@admin.register(Quota)
class QuotaAdmin(ReadOnlyAdmin):
    """Quotas set by operators. The default is named *."""

    list_display = ("name", "scope", *(f"shown_{name}" for name in LIMITS), "updated_by", "updated_at")
    list_filter = ("scope",)
    search_fields = ("name",)
    ordering = ("scope", "name")
    fields = ("scope", "name", *(f"shown_{name}" for name in LIMITS), "updated_by", "updated_at")
    actions_list: ClassVar[list[str]] = ["add_quota"]
    actions_detail: ClassVar[list[str]] = ["edit"]

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

    @display(description="open requests")
    def shown_open_requests(self, row: Quota) -> str:
        return _used(row, "open_requests")

    @display(description="submissions per hour")
    def shown_submissions_per_hour(self, row: Quota) -> str:
        return _used(row, "submissions_per_hour")

    @display(description="queued jobs")
    def shown_queued_jobs(self, row: Quota) -> str:
        return _used(row, "queued_jobs")

    @display(description="storage (GB)")
    def shown_storage_gb(self, row: Quota) -> str:
        return _used(row, "storage_gb")

    @action(description="Set a quota", icon="add", permissions=["operate"], variant=ActionVariant.PRIMARY)
    def add_quota(self, request: HttpRequest) -> HttpResponse:
        """Create the quota of a requestor or group."""

        def apply(_: str, form: forms.Form) -> str:
            answers = form.cleaned_data
            return _change(request, answers.pop("scope"), answers.pop("name"), answers)

        back = reverse("admin:requests_app_quota_changelist")
        return self.ask(
            request, title="Set a quota", effect=EFFECT, targets=["the quota"], apply=apply,
            form_class=QuotaForm, back=back,
        )  # fmt: skip

    @action(description="Change limits", icon="tune", permissions=["operate"], variant=ActionVariant.PRIMARY)
    def edit(self, request: HttpRequest, object_id: str) -> HttpResponse:

        def apply(row: Quota, form: forms.Form) -> str:
            return _change(request, row.scope, row.name, form.cleaned_data)

        row = row_at(Quota, object_id)
        return self.ask(
            request, title="Change limits", effect=EFFECT, targets=[row], apply=apply, form_class=NumbersForm,
            initial={name: getattr(row, name) for name in LIMITS},
            back=reverse("admin:requests_app_quota_change", args=[row.pk]),
        )  # fmt: skip


def _change(request: HttpRequest, scope: str, name: str, answers: dict[str, Any]) -> str:
    reason = answers.pop("reason")
    row = change_quota(scope=scope, name=name, changes=answers, actor=actor_of(request), reason=reason)
    return f"The quota of {row} is changed."


def _add_states(rows: list[Any]) -> None:
    shares = [(QuotaScope(row.scope), row.name) for row in rows]
    for row, state in zip(rows, states_of(shares, now=timezone.now()), strict=True):
        row.state = state


def _used(row: Any, what: str) -> str:
    """Return usage and limit."""
    if not hasattr(row, "state"):
        _add_states([row])
    state: QuotaState = row.state
    limit = f"{state.limits[what]:,}" + ("" if what in state.own or row.name == DEFAULT else " (default)")
    return f"{state.usage[what]:,} of {limit}" if state.usage else limit
