"""The console's pages about requests. Lists and one page per request; every button calls one service."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from requests_app import services
from requests_app.admin_page import page_of
from requests_app.admission import change_limits, limits
from requests_app.models import AdmissionConfig, Alert, Request
from requests_app.selectors import progress_of_many
from requests_app.states import TERMINAL, RequestStatus, may_move
from wms2_project.api.roles import actor_of
from wms2_project.console import (
    ActionVariant,
    ChangeList,
    ReadOnlyAdmin,
    ReasonForm,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
    action,
    age_of,
    clipped,
    display,
    progress_bar,
)

S = RequestStatus
admin.site.index_template = "console/overview.html"
admin.site.index_title = "Overview"
COLOURS: dict[str, str] = {
    S.SUBMITTED: "info", S.QUEUED: "info", S.PILOT_RUNNING: "primary", S.PLANNING: "primary",
    S.ACTIVE: "primary", S.PARTIAL: "warning", S.STOPPING: "warning", S.RESUBMITTING: "warning",
    S.HELD: "danger", S.COMPLETED: "success", S.FAILED: "danger",
}  # fmt: skip


class StopForm(ReasonForm):
    """Stop, and what then."""

    hold = forms.BooleanField(
        required=False, widget=UnfoldBooleanWidget, label="Stay held afterwards instead of resuming"
    )
    field_order = ("reason", "hold")


class PriorityForm(ReasonForm):
    """The new priority."""

    priority = forms.IntegerField(min_value=0, max_value=1_000_000, widget=UnfoldAdminIntegerFieldWidget)
    field_order = ("priority", "reason")


class OpenCampaign(admin.SimpleListFilter):
    """Campaigns with unfinished requests; older ones are found by search."""

    title = "campaign"
    parameter_name = "campaign"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Campaigns to choose from."""
        unfinished = Request.objects.exclude(status__in=sorted(TERMINAL)).exclude(campaign="")
        names = set(unfinished.order_by().values_list("campaign", flat=True).distinct()[:200])
        chosen = self.value()
        return [(name, name) for name in sorted(names | ({chosen} if chosen else set()))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """The rows of the campaign chosen."""
        return queryset.filter(campaign=self.value()) if self.value() else queryset


class RequestList(ChangeList):  # type: ignore[misc]
    """A page of requests with the progress of all of them, in a fixed number of queries."""

    result_list: Any

    def get_results(self, request: HttpRequest) -> None:
        """The rows of the page."""
        super().get_results(request)
        self.result_list = list(self.result_list)
        progress = progress_of_many(self.result_list)
        for row in self.result_list:
            row.progress = progress[row.pk]


@admin.register(Request)
class RequestAdmin(ReadOnlyAdmin):
    """Requests: list, page, and what an operator can do with them."""

    list_display = ("shown_name", "shown_status", "shown_progress", "priority", "in_status_for", "what_is_up")
    list_filter = ("status", OpenCampaign, "urgent")
    search_fields = ("request_name", "campaign")
    search_help_text = "Part of a request's name or campaign"
    ordering = ("-created_at", "-id")
    fieldsets = ((None, {"fields": ()}),)  # the page has a template of its own
    actions = ("release_selected", "abort_selected")
    actions_detail: ClassVar[list[str]] = ["release", "stop", "change_priority", "abort"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Request]:
        """Without the documents, which a list does not show."""
        rows: QuerySet[Request] = super().get_queryset(request)
        return rows.defer("request_data", "overrides", "hold_evidence")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[RequestList]:
        """The list that knows progress."""
        return RequestList

    @display(description="request", ordering="request_name", header=True)
    def shown_name(self, row: Request) -> list[str]:
        """The name; below it, for whom."""
        return [row.request_name, " · ".join(part for part in (row.campaign, row.requestor) if part)]

    @display(description="status", ordering="status", label=COLOURS)
    def shown_status(self, row: Request) -> tuple[str, str]:
        """The status in its colour."""
        return row.status, row.status.replace("_", " ")

    @display(description="progress")
    def shown_progress(self, row: Any) -> SafeString:
        """A bar of events done."""
        done = row.progress
        return progress_bar(done.fraction, label=f"{done.events_done} of {done.events_total} events")

    @display(description="since", ordering="-status_since")
    def in_status_for(self, row: Request) -> str:
        """How long in this status."""
        return age_of(row.status_since, now=timezone.now())

    @display(description="waits for / last error")
    def what_is_up(self, row: Request) -> SafeString:
        """One line on why it does not move."""
        return clipped(row.last_error if row.status == S.HELD or row.attempt else row.wait_reason)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """The request's page."""
        row = get_object_or_404(Request.objects.select_related("workflow", "previous_version"), pk=object_id)
        context = {"title": row.request_name, "page": page_of(row, colours=COLOURS)}
        answer: HttpResponse = super().change_view(
            request, object_id, form_url, context | (extra_context or {})
        )
        return answer

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        """The buttons that the request's status has a use for."""
        row = Request.objects.only("status").get(pk=object_id)
        status = S(row.status)
        useful = {
            "release": status is S.HELD,
            "stop": may_move(status, S.STOPPING),
            "abort": may_move(status, S.ABORTED),
            "change_priority": status not in TERMINAL,
        }
        buttons: list[Any] = super().get_actions_detail(request, object_id)
        return [button for button in buttons if useful[button.action_name.split("_", 3)[-1]]]

    @action(description="Release", icon="play_arrow", permissions=["operate"], variant=ActionVariant.PRIMARY)
    def release(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Let a held request go on."""
        return self._ask_for(request, object_id, title="Release", apply=self._released(request))

    @action(description="Stop", icon="pause", permissions=["operate"])
    def stop(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Stop cleanly."""

        def apply(row: Request, answers: dict[str, Any]) -> str:
            services.stop_request(request=row, actor=actor_of(request), **answers)
            return f"{row} stops; what is done is kept."

        return self._ask_for(request, object_id, title="Stop", apply=apply, form_class=StopForm)

    @action(description="Priority", icon="low_priority", permissions=["operate"])
    def change_priority(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Change the priority."""

        def apply(row: Request, answers: dict[str, Any]) -> str:
            services.change_request(
                request=row,
                actor=actor_of(request),
                reason=answers["reason"],
                changes={"priority": answers["priority"]},
            )
            return f"{row} has priority {answers['priority']} now."

        return self._ask_for(
            request,
            object_id,
            title="Change priority",
            apply=apply,
            form_class=PriorityForm,
            initial=("priority",),
        )

    @action(description="Abort", icon="cancel", permissions=["operate"], variant=ActionVariant.DANGER)
    def abort(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Cancel for good."""
        return self._ask_for(request, object_id, title="Abort", apply=self._aborted(request))

    @action(description="Release the selected requests", permissions=["operate"])
    def release_selected(self, request: HttpRequest, rows: QuerySet[Request]) -> HttpResponse:
        """Release each; the others go on if one is refused."""
        return self._ask_for_all(request, rows, "Release", self._released(request), "release_selected")

    @action(description="Abort the selected requests", permissions=["operate"])
    def abort_selected(self, request: HttpRequest, rows: QuerySet[Request]) -> HttpResponse:
        """Abort each; the others go on if one is refused."""
        return self._ask_for_all(request, rows, "Abort", self._aborted(request), "abort_selected")

    def _released(self, request: HttpRequest) -> Any:
        def apply(row: Request, answers: dict[str, Any]) -> str:
            services.release_request(request=row, actor=actor_of(request), **answers)
            return f"{row} is released and waits for admission."

        return apply

    def _aborted(self, request: HttpRequest) -> Any:
        def apply(row: Request, answers: dict[str, Any]) -> str:
            services.abort_request(request=row, actor=actor_of(request), **answers)
            return f"{row} is aborted."

        return apply

    def _ask_for(
        self, request: HttpRequest, object_id: str, *, title: str, apply: Any,
        form_class: type[forms.Form] = ReasonForm, initial: tuple[str, ...] = (),
    ) -> HttpResponse:  # fmt: skip
        row = get_object_or_404(Request.objects.select_related("workflow"), pk=object_id)
        return self.ask(
            request,
            title=title,
            targets=[row],
            apply=apply,
            form_class=form_class,
            initial={name: getattr(row, name) for name in initial},
            back=reverse("admin:requests_app_request_change", args=[row.pk]),
        )

    def _ask_for_all(
        self, request: HttpRequest, rows: QuerySet[Request], title: str, apply: Any, name: str
    ) -> HttpResponse:
        back = reverse("admin:requests_app_request_changelist")
        return self.ask(
            request,
            title=title,
            targets=rows.select_related("workflow"),
            apply=apply,
            back=back,
            bulk_action=name,
        )


@admin.register(Alert)
class AlertAdmin(ReadOnlyAdmin):
    """What a person on shift should know."""

    list_display = ("request", "kind", "message", "count", "created_at", "last_seen_at", "closed_at")
    list_filter = ("kind", ("closed_at", admin.EmptyFieldListFilter))
    search_fields = ("request__request_name", "message")
    list_select_related = ("request",)
    ordering = ("-id",)


class LimitsForm(ReasonForm):
    """The limits of admission."""

    max_active_dags = forms.IntegerField(min_value=0, max_value=100_000, widget=UnfoldAdminIntegerFieldWidget)
    paused = forms.BooleanField(required=False, widget=UnfoldBooleanWidget, label="Pause admission")
    ageing_weight = forms.FloatField(widget=UnfoldAdminTextInputWidget, label="Weight of age (α)")
    retries_weight = forms.FloatField(widget=UnfoldAdminTextInputWidget, label="Weight of retries (β)")
    rank_weight = forms.FloatField(widget=UnfoldAdminTextInputWidget, label="Weight of priority (γ)")
    storage_critical_fraction = forms.FloatField(
        min_value=0.01, max_value=1, widget=UnfoldAdminTextInputWidget, label="Close above this storage use"
    )
    version = forms.IntegerField(widget=forms.HiddenInput)
    field_order = (
        "max_active_dags", "paused", "ageing_weight", "retries_weight", "rank_weight",
        "storage_critical_fraction", "reason",
    )  # fmt: skip


@admin.register(AdmissionConfig)
class AdmissionConfigAdmin(ReadOnlyAdmin):
    """The one row of limits; its list is its page."""

    actions_detail: ClassVar[list[str]] = ["edit"]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """There is one row: show it."""
        return HttpResponseRedirect(reverse("admin:requests_app_admissionconfig_change", args=[limits().pk]))

    @action(description="Change limits", icon="tune", permissions=["operate"], variant=ActionVariant.PRIMARY)
    def edit(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Change limits at once, for everybody."""
        config = limits()

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
