"""Console pages of sites and bans."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.safestring import SafeString

from sites_app.models import Site, SiteBan
from sites_app.operations import OPERATIONS
from sites_app.states import SiteStatus
from wms2_project.access.roles import may_steer_site, sites_of
from wms2_project.changes import Topic
from wms2_project.console import ReadOnlyAdmin, ReadOnlyTable, coloured, display, link, request_link
from wms2_project.operations.console import OperationAdmin

COLOURS: dict[str, str] = {
    SiteStatus.ENABLED: "success", SiteStatus.DRAINING: "warning", SiteStatus.MAINTENANCE: "warning",
    SiteStatus.DISABLED: "danger",
}  # fmt: skip


class BanTable(ReadOnlyTable):
    """The site's bans, newest first."""

    model = SiteBan
    fields = ("for_whom", "shown_state", "reason", "created_by", "created_at", "expires_at", "removed_by")
    readonly_fields = fields
    ordering = ("-created_at", "-id")

    @display(description="request")
    def for_whom(self, row: SiteBan) -> SafeString | str:
        """Return the banned request, or all requests."""
        return request_link(row.workflow.request_name) if row.workflow else "all"

    @display(description="state")
    def shown_state(self, row: SiteBan) -> str:
        return state_of(row)


def state_of(ban: SiteBan) -> str:
    if ban.removed_at:
        return "lifted"
    return "in force" if ban.expires_at > timezone.now() else "over"


@admin.register(Site)
class SiteAdmin(OperationAdmin):
    """Sites and their operations."""

    topics = (Topic.SITES, Topic.AUDIT)
    operations = OPERATIONS

    list_display = (
        "name", "shown_status", "drain_until", "cric_state", "running_slots", "total_slots", "bans_in_force",
        "synced_at",
    )  # fmt: skip
    fields = (
        "name", "status", "drain_until", "status_by", "status_reason", "cric_state", "work",
        "total_slots", "running_slots", "pending_slots", "slots_measured_at", "storage_elements",
        "storage_prefixes", "thresholds", "config_data", "synced_at",
    )  # fmt: skip
    inlines = (BanTable,)
    list_filter = ("status", "cric_state")
    search_fields = ("name",)
    ordering = ("name",)

    def has_operate_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Return whether the user may operate the site: operators every site, site admins their own."""
        if obj is None:
            return super().has_operate_permission(request) or bool(sites_of(request.user))
        name = obj.name if isinstance(obj, Site) else unquote(str(obj))  # unfold gives the quoted key
        return may_steer_site(request.user, name)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Site]:
        """Return the sites with the number of their bans in force."""
        in_force = Q(bans__removed_at__isnull=True, bans__expires_at__gt=timezone.now())
        rows: QuerySet[Site] = super().get_queryset(request)
        return rows.annotate(n_bans=Count("bans", filter=in_force))

    @display(description="bans", ordering="n_bans")
    def bans_in_force(self, row: Any) -> str:
        return str(row.n_bans or "–")

    @display(description="groups here")
    def work(self, row: Site) -> SafeString:
        """Link to the groups at the site."""
        return link("its groups", "admin:dags_app_mergegroup_changelist", query=f"q={row.name}")

    shown_status = coloured(COLOURS)


@admin.register(SiteBan)
class SiteBanAdmin(ReadOnlyAdmin):
    """Bans, in force and past."""

    when_empty = "Ban a site on its page, or for one request when it is released."
    topics = (Topic.AUDIT,)
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
        return state_of(row)
