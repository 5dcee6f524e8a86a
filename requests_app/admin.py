"""The console's pages about requests. Lists and one page per request; every button calls one service."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from dags_app.services.production import newest_dag
from requests_app.admin_admission import AdmissionConfigAdmin
from requests_app.admin_alerts import AlertAdmin
from requests_app.admin_forms import (
    EFFECTS,
    PriorityForm,
    ReleaseForm,
    ResourcesForm,
    RestartForm,
    ShareForm,
    StopForm,
)
from requests_app.admin_list import OpenCampaign, RequestList
from requests_app.admin_page import page_of, told_decisions
from requests_app.admin_quotas import QuotaAdmin
from requests_app.models import Request
from requests_app.services import (
    drafting,
    editing,
    failing,
    owning,
    releasing,
    rescuing,
    restarting,
    steering,
)
from requests_app.services.deciding import decisions_of
from requests_app.states import TERMINAL, CleanupPolicy, RequestStatus, may_move
from wms2_project.api.roles import actor_of
from wms2_project.console import (
    ActionVariant,
    ReadOnlyAdmin,
    ReasonForm,
    action,
    age_of,
    clipped,
    display,
    progress_bar,
    row_at,
)
from wms2_project.errors import Conflict
from wms2_project.grammar import Name, matches

__all__ = ["AdmissionConfigAdmin", "AlertAdmin", "QuotaAdmin", "RequestAdmin"]
S = RequestStatus
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
admin.site.index_template = "console/overview.html"
admin.site.index_title = "Overview"
COLOURS: dict[str, str] = {
    S.SUBMITTED: "info", S.QUEUED: "info", S.PILOT_RUNNING: "primary", S.PLANNING: "primary",
    S.ACTIVE: "primary", S.PARTIAL: "warning", S.STOPPING: "warning", S.RESUBMITTING: "warning",
    S.HELD: "danger", S.COMPLETED: "success", S.FAILED: "danger",
}  # fmt: skip


@admin.register(Request)
class RequestAdmin(ReadOnlyAdmin):
    """Requests: list, page, and what an operator can do with them."""

    list_display = (
        "shown_name",
        "shown_status",
        "shown_progress",
        "shown_priority",
        "in_status_for",
        "what_is_up",
    )
    list_filter = ("status", OpenCampaign, "urgent")
    search_fields = ("request_name", "campaign")
    search_help_text = "Part of a request's name or campaign"
    ordering = ("-created_at", "-id")
    fieldsets = ((None, {"fields": ()}),)  # the page has a template of its own
    actions = ("release_selected", "abort_selected")
    actions_detail: ClassVar[list[str]] = [
        "submit", "release", "rescue", "stop", "change_priority", "change_resources", "restart", "fail",
        "share", "abort", "invalidate",
    ]  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[Request]:
        """Without the documents, which a list does not show."""
        rows: QuerySet[Request] = super().get_queryset(request)
        return rows.defer("request_data", "hold_evidence")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[RequestList]:
        """The list that knows progress."""
        return RequestList

    @display(description="request", ordering="request_name", header=True)
    def shown_name(self, row: Request) -> list[str]:
        """The name; below it, for whom."""
        told = (row.campaign, row.requestor, "urgent" if row.urgent else "")
        return [row.request_name, " · ".join(part for part in told if part)]

    @display(description="status", ordering="status", label=COLOURS)
    def shown_status(self, row: Request) -> tuple[str, str]:
        """The status in its colour."""
        return row.status, row.status.replace("_", " ")

    @display(description="priority", ordering="priority")
    def shown_priority(self, row: Request) -> str:
        """Readable."""
        return f"{row.priority:,}"

    @display(description="progress")
    def shown_progress(self, row: Any) -> SafeString:
        """A bar of events done."""
        done = row.progress
        return progress_bar(done.fraction, label=f"{done.events_done:,} of {done.events_total:,} events")

    @display(description="since", ordering="-status_since")
    def in_status_for(self, row: Request) -> str:
        """How long in this status."""
        return age_of(row.status_since, now=timezone.now())

    @display(description="waits for / last error")
    def what_is_up(self, row: Request) -> SafeString:
        """One line on why it does not move."""
        stopped = row.status in (S.HELD, S.FAILED) or row.attempt
        return clipped(row.last_error if stopped else row.wait_reason)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """The request's page; its name leads there too."""
        if not _UUID.fullmatch(object_id):
            name = object_id if matches(Name.REQUEST, object_id) else ""
            named = get_object_or_404(Request.objects.only("pk"), request_name=name)
            return HttpResponseRedirect(reverse("admin:requests_app_request_change", args=[named.pk]))
        row = row_at(Request.objects.select_related("workflow", "previous_version"), object_id)
        context = {"title": row.request_name, "page": page_of(row, colours=COLOURS)}
        answer: HttpResponse = super().change_view(
            request, object_id, form_url, context | (extra_context or {})
        )
        return answer

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        """The buttons that the request's status has a use for."""
        row = row_at(Request.objects.select_related("workflow").only("status", "workflow"), object_id)
        status = S(row.status)
        useful = {
            "submit": status is S.NEW,
            "release": status is S.HELD,
            "stop": steering.can_stop(row),
            "abort": may_move(status, S.ABORTED),
            "fail": may_move(status, S.FAILED),
            "invalidate": status in TERMINAL,
            "share": status not in TERMINAL,
            "change_priority": status not in TERMINAL,
            "change_resources": status not in TERMINAL,
            "rescue": status is S.HELD,
            "restart": status is not S.NEW,
        }
        return self.buttons(request, object_id, useful)

    @action(description="Release", icon="play_arrow", permissions=["operate"], variant=ActionVariant.PRIMARY)
    def release(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Let a held request go on."""
        return self._ask_for(
            request, object_id, title="Release", apply=self._released(request), form_class=ReleaseForm,
            values=request.GET.dict(),
        )  # fmt: skip

    @action(description="Submit", icon="send", permissions=["operate"], variant=ActionVariant.PRIMARY)
    def submit(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Submit a draft."""

        def apply(row: Request, answers: dict[str, Any]) -> str:
            drafting.submit_draft(request=row, actor=actor_of(request), **answers)
            return f"{row} is submitted."

        return self._ask_for(request, object_id, title="Submit", apply=apply)

    @action(description="Stop", icon="pause", permissions=["operate"])
    def stop(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Stop cleanly."""

        def apply(row: Request, answers: dict[str, Any]) -> str:
            steering.stop_request(request=row, actor=actor_of(request), **answers)
            return f"{row} stops; what is done is kept."

        return self._ask_for(request, object_id, title="Stop", apply=apply, form_class=StopForm)

    @action(description="Priority", icon="low_priority", permissions=["operate"])
    def change_priority(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Change the priority."""

        def apply(row: Request, answers: dict[str, Any]) -> str:
            editing.change_request(
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

    @action(description="Resources", icon="memory", permissions=["operate"])
    def change_resources(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Change sites, memory and throttles."""

        def apply(row: Request, answers: dict[str, Any]) -> str:
            reason = answers.pop("reason")
            if answers["memory_mb"] == row.workflow.chosen_memory_mb:
                del answers["memory_mb"]
            changes = answers | {name: answers[name].split() for name in editing.SITE_LISTS}
            throttles = editing.parse_throttles(changes.pop("category_throttles").split())
            changes |= {"category_throttles": throttles} if throttles else {}
            actor = actor_of(request)
            effects = editing.preview_change(request=row, changes=changes, actor=actor)
            editing.change_request(request=row, actor=actor, reason=reason, changes=changes)
            reached = "; ".join([*effects.now, *(f"next round: {line}" for line in effects.next_round)])
            return f"{row} is changed. {reached}"

        flow = row_at(Request.objects.select_related("workflow"), object_id).workflow
        initial = {name: " ".join(getattr(flow, name)) for name in editing.SITE_LISTS}
        throttles = " ".join(f"{name}={most}" for name, most in sorted(flow.category_throttles.items()))
        return self._ask_for(
            request,
            object_id,
            title="Change resources",
            apply=apply,
            form_class=ResourcesForm,
            values=initial | {"memory_mb": flow.chosen_memory_mb, "category_throttles": throttles},
        )

    @action(description="Rescue", icon="healing", permissions=["operate"])
    def rescue(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Submit the latest DAG again; what is done stays done."""

        def apply(row: Request, answers: dict[str, Any]) -> str:
            dag = newest_dag(workflow=row.workflow)
            if dag is None:
                raise Conflict(f"{row} has no DAG", cure="Release it instead")
            rescuing.rescue_dag(dag=dag, actor=actor_of(request), **answers)
            return f"{row} waits for admission with a rescue of its DAG."

        return self._ask_for(request, object_id, title="Rescue", apply=apply)

    @action(description="Restart", icon="restart_alt", permissions=["operate"], variant=ActionVariant.WARNING)
    def restart(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """End it and submit its next version."""

        def apply(row: Request, answers: dict[str, Any]) -> str:
            policy = CleanupPolicy(answers.pop("cleanup_policy"))
            made = restarting.restart_request(
                request=row, actor=actor_of(request), cleanup_policy=policy, **answers
            )
            return f"{row} is {row.status}; {made} replaces it."

        row = row_at(Request.objects.select_related("workflow"), object_id)
        carried = told_decisions(decisions_of(row.workflow))
        return self._ask_for(
            request, object_id, title="Restart", apply=apply, form_class=RestartForm,
            effect=f"{EFFECTS['Restart']} It begins with what operators decided: {carried or 'nothing'}.",
        )  # fmt: skip

    @action(description="Fail", icon="dangerous", permissions=["operate"], variant=ActionVariant.DANGER)
    def fail(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Give it up and take its outputs back."""

        def apply(row: Request, answers: dict[str, Any]) -> str:
            failing.fail_request(request=row, actor=actor_of(request), now=timezone.now(), **answers)
            return f"{row} is failed; its outputs are being invalidated."

        return self._ask_for(request, object_id, title="Fail", apply=apply)

    @action(
        description="Invalidate outputs", icon="delete", permissions=["operate"], variant=ActionVariant.DANGER
    )
    def invalidate(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Take the outputs of an ended request back."""

        def apply(row: Request, answers: dict[str, Any]) -> str:
            failing.invalidate_request(request=row, actor=actor_of(request), now=timezone.now(), **answers)
            return f"The outputs of {row} are being invalidated."

        return self._ask_for(request, object_id, title="Invalidate outputs", apply=apply)

    @action(description="Share outputs", icon="group_add", permissions=["operate"])
    def share(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Allow it to write into datasets of others."""

        def apply(row: Request, answers: dict[str, Any]) -> str:
            owning.share_outputs(request=row, actor=actor_of(request), now=timezone.now(), **answers)
            return f"{row} may share its output datasets."

        return self._ask_for(request, object_id, title="Share outputs", apply=apply, form_class=ShareForm)

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
            releasing.release_request(request=row, actor=actor_of(request), now=timezone.now(), **answers)
            return f"{row} is released and waits for admission."

        return apply

    def _aborted(self, request: HttpRequest) -> Any:
        def apply(row: Request, answers: dict[str, Any]) -> str:
            steering.abort_request(request=row, actor=actor_of(request), **answers)
            return f"{row} is aborted."

        return apply

    def _ask_for(
        self, request: HttpRequest, object_id: str, *, title: str, apply: Any,
        form_class: type[forms.Form] = ReasonForm, initial: tuple[str, ...] = (),
        values: dict[str, Any] | None = None, effect: str = "",
    ) -> HttpResponse:  # fmt: skip
        row = row_at(Request.objects.select_related("workflow"), object_id)
        return self.ask(
            request,
            title=title,
            effect=effect or EFFECTS.get(title, ""),
            targets=[row],
            apply=apply,
            form_class=form_class,
            initial={name: getattr(row, name) for name in initial} | (values or {}),
            back=reverse("admin:requests_app_request_change", args=[row.pk]),
        )

    def _ask_for_all(
        self, request: HttpRequest, rows: QuerySet[Request], title: str, apply: Any, name: str
    ) -> HttpResponse:
        back = reverse("admin:requests_app_request_changelist")
        return self.ask(
            request,
            title=title,
            effect=EFFECTS.get(title, ""),
            targets=rows.select_related("workflow"),
            apply=apply,
            back=back,
            bulk_action=name,
        )
