"""Console page of announcements and dead letters."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from chains_app.models import Announcement
from chains_app.operations import ANNOUNCEMENT_OPERATIONS
from chains_app.states import ANNOUNCEMENTS
from wms2_project.console import address_of, coloured, display
from wms2_project.operations.console import OperationAdmin

MAX_SHOWN = 40  # characters of a uid
COLOURS: dict[str, str] = {status: one.colour for status, one in ANNOUNCEMENTS.items()}


@admin.register(Announcement)
class AnnouncementAdmin(OperationAdmin):
    """Announced datasets with their status and the chains they started."""

    when_empty = "They come from the sources of the intake and from the REST interface."
    list_display = ("shown_name", "shown_status", "reason", "shown_chains", "actor", "received_at")
    fields = (
        "uid", "status", "reason", "dataset_name", "template_name", "parameters", "priority",
        "correlation_id", "callback_url", "shown_chains", "actor", "received_at", "decided_at", "body",
    )  # fmt: skip
    list_filter = ("status",)
    search_fields = ("dataset_name", "uid", "template_name")
    search_help_text = "Part of a dataset's name, a uid or a template"
    ordering = ("-received_at", "-id")
    operations = tuple(one for one in ANNOUNCEMENT_OPERATIONS if one.in_console)
    shown_status = coloured(COLOURS)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Announcement]:
        """Return the rows with their chains."""
        rows: QuerySet[Announcement] = super().get_queryset(request)
        return rows.prefetch_related("chains")

    @display(description="dataset", header=True)
    def shown_name(self, row: Announcement) -> list[str]:
        """Return the dataset or template with the uid, shortened if long, below it."""
        name = row.dataset_name or row.template_name or "message that cannot be read"
        return [name, row.uid if len(row.uid) <= MAX_SHOWN else f"{row.uid[: MAX_SHOWN - 1]}…"]

    @display(description="chains")
    def shown_chains(self, row: Announcement) -> SafeString | str:
        """Return links to the chains it started."""
        links = [(address_of("admin:chains_app_chain_change", one.pk), one.pk) for one in row.chains.all()]
        return format_html_join(" ", '<a href="{}">{}</a>', links) or "–"
