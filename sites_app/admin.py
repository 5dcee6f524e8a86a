"""The console's pages about sites: what CRIC says, what operators decided, which bans are in force."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from dags_app.models import Workflow
from sites_app.bans import ban_site, lift_bans
from sites_app.configuring import change_site
from sites_app.models import Site, SiteBan
from sites_app.services import drain_site, enable_site
from sites_app.states import SiteStatus
from wms2_project.api.roles import actor_of, may_steer_site, operates, sites_of
from wms2_project.console import (
    ActionVariant,
    ReadOnlyAdmin,
    ReadOnlyTable,
    ReasonForm,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminTextInputWidget,
    action,
    address_of,
    display,
    link,
    request_link,
    row_at,
)
from wms2_project.errors import InvalidInput
from wms2_project.grammar import Name, check

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


class SiteForm(ReasonForm):
    """What an operator sets for a site."""

    memory_mb_per_core = forms.IntegerField(
        required=False, min_value=1, max_value=1_000_000, widget=UnfoldAdminIntegerFieldWidget,
        label="Memory per core (MB)", help_text="Leave empty if it is unknown.",
    )  # fmt: skip
    storage_elements = forms.CharField(
        required=False, widget=UnfoldAdminTextInputWidget, label="Storages",
        help_text="Storage names separated by spaces. Leave empty to follow CRIC.",
    )  # fmt: skip
    storage_used_fraction = forms.FloatField(
        required=False, min_value=0, max_value=1, widget=UnfoldAdminTextInputWidget,
        label="Storage in use (fraction)", help_text="Leave empty to go by what Rucio says.",
    )  # fmt: skip
    notes = forms.CharField(required=False, max_length=2000, widget=UnfoldAdminTextInputWidget)
    field_order = ("memory_mb_per_core", "storage_elements", "storage_used_fraction", "notes", "reason")

    def clean_storage_elements(self) -> list[str] | None:
        """The names; which of them is none."""
        try:
            return [check(Name.RSE, word) for word in self.cleaned_data["storage_elements"].split()] or None
        except InvalidInput as error:
            raise forms.ValidationError(error.message) from error

    def clean_notes(self) -> str | None:
        """Nothing instead of an empty text."""
        return self.cleaned_data["notes"] or None


class LiftForm(ReasonForm):
    """Whose ban."""

    workflow = forms.CharField(
        required=False,
        label="Request",
        widget=UnfoldAdminTextInputWidget,
        help_text="The name of one request. Empty: all.",
    )

    def clean_workflow(self) -> Workflow | None:
        """The request's workflow."""
        name = self.cleaned_data["workflow"]
        found = Workflow.objects.filter(request_name=name).first() if name else None
        if name and found is None:
            raise forms.ValidationError(f"There is no request {name}.")
        return found


class BanForm(LiftForm, DrainForm):
    """For whom, and until when."""


class BanTable(ReadOnlyTable):
    """The site's bans, newest first."""

    model = SiteBan
    fields = ("for_whom", "shown_state", "reason", "created_by", "created_at", "expires_at", "removed_by")
    readonly_fields = fields
    ordering = ("-created_at", "-id")

    @display(description="request")
    def for_whom(self, row: SiteBan) -> SafeString | str:
        """Whose jobs it keeps away."""
        return request_link(row.workflow.request_name) if row.workflow else "all"

    @display(description="state")
    def shown_state(self, row: SiteBan) -> str:
        """Does it still hold?"""
        return state_of(row)


def _who(request: HttpRequest) -> dict[str, Any]:
    """Return the actor, and whether it is an operator, as the services take them."""
    return {"actor": actor_of(request), "by_operator": operates(request.user)}


def state_of(ban: SiteBan) -> str:
    """Does the ban still hold?"""
    if ban.removed_at:
        return "lifted"
    return "in force" if ban.expires_at > timezone.now() else "over"


@admin.register(Site)
class SiteAdmin(ReadOnlyAdmin):
    """Sites, and the switches an operator has."""

    list_display = ("name", "shown_status", "drain_until", "bans_in_force", "synced_at")
    fields = (
        "name", "status", "drain_until", "work", "storage_elements", "storage_path", "thresholds",
        "config_data", "synced_at",
    )  # fmt: skip
    inlines = (BanTable,)
    list_filter = ("status",)
    search_fields = ("name",)
    ordering = ("name",)
    actions = ("drain_selected", "enable_selected")
    actions_detail: ClassVar[list[str]] = ["drain", "enable", "ban", "lift", "configure"]

    def has_operate_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Operators steer every site, a site's admins their own."""
        if obj is None:
            return super().has_operate_permission(request) or bool(sites_of(request.user))
        return may_steer_site(request.user, str(obj))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Site]:
        """With the number of bans in force."""
        in_force = Q(bans__removed_at__isnull=True, bans__expires_at__gt=timezone.now())
        rows: QuerySet[Site] = super().get_queryset(request)
        return rows.annotate(n_bans=Count("bans", filter=in_force))

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        """The buttons that change something."""
        site: Any = row_at(self.get_queryset(request), object_id)
        enabled = site.status == SiteStatus.ENABLED
        return self.buttons(
            request, object_id, {"drain": enabled, "enable": not enabled, "lift": bool(site.n_bans)}
        )

    @display(description="bans", ordering="n_bans")
    def bans_in_force(self, row: Any) -> str:
        """How many keep work away."""
        return str(row.n_bans or "–")

    @display(description="groups here")
    def work(self, row: Site) -> SafeString:
        """What landed there."""
        return link("its groups", "admin:dags_app_mergegroup_changelist", query=f"q={row.name}")

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

    @action(description="Ban", icon="do_not_disturb_on", permissions=["operate"])
    def ban(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """No new work here for some days, for one request or for all."""

        def apply(site: Site, answers: dict[str, Any]) -> str:
            ban_site(site=site, now=timezone.now(), **_who(request), **answers)
            return f"{site} is avoided from now on."

        return self._ask_for(request, object_id, "Ban", apply, BanForm)

    @action(description="Lift bans", icon="undo", permissions=["operate"])
    def lift(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Bans end now."""

        def apply(site: Site, answers: dict[str, Any]) -> str:
            lifted = lift_bans(site=site, now=timezone.now(), **_who(request), **answers)
            return f"{lifted} bans of {site} are lifted."

        return self._ask_for(request, object_id, "Lift bans", apply, LiftForm)

    @action(description="Configure", icon="tune", permissions=["operate"])
    def configure(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Set memory, storages and notes."""

        def apply(site: Site, answers: dict[str, Any]) -> str:
            reason, known = answers["reason"], site.thresholds | site.config_data
            changes = {
                name: value
                for name, value in answers.items()
                if name != "reason" and value != known.get(name)
            }
            change_site(site=site, changes=changes, reason=reason, **_who(request))
            return f"{site} is changed."

        site = row_at(Site, object_id)
        known = site.thresholds | site.config_data
        initial = known | {"storage_elements": " ".join(known.get("storage_elements", []))}
        return self._ask_for(request, object_id, "Configure", apply, SiteForm, initial)

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
            drain_site(site=site, **_who(request), **answers)
            return f"{site} takes no new work."

        return apply

    def _enabled(self, request: HttpRequest) -> Any:
        def apply(site: Site, answers: dict[str, Any]) -> str:
            enable_site(site=site, **_who(request), **answers)
            return f"{site} takes work again."

        return apply

    def _ask_for(
        self, request: HttpRequest, object_id: str, title: str, apply: Any, form_class: type[forms.Form],
        initial: dict[str, Any] | None = None,
    ) -> HttpResponse:  # fmt: skip
        site = row_at(Site, object_id)
        back = address_of("admin:sites_app_site_change", site.pk)
        return self.ask(
            request,
            title=title,
            targets=[site],
            apply=apply,
            form_class=form_class,
            back=back,
            initial=initial,
        )

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

    list_display = ("site", "of_request", "shown_state", "reason", "created_by", "created_at", "expires_at")
    fields = (
        "site", "of_request", "shown_state", "reason", "created_by", "created_at", "expires_at", "removed_at",
        "removed_by", "failure_data",
    )  # fmt: skip
    search_fields = ("site__name", "workflow__request_name", "reason")
    list_select_related = ("site", "workflow")
    ordering = ("-created_at", "-id")

    @display(description="state", label={"in force": "warning"})
    def shown_state(self, row: SiteBan) -> str:
        """Does it still hold?"""
        return state_of(row)
