"""Console list of chains. The page of a chain is a fragment of the console (`console/chain`)."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from chains_app.models import Chain
from chains_app.operations import CHAIN_OPERATIONS
from chains_app.states import CHAINS, STEP_DONE, DatasetRole
from wms2_project.console import age_of, clipped, coloured, display
from wms2_project.operations.console import OperationAdmin

COLOURS: dict[str, str] = {status: one.colour for status, one in CHAINS.items()}


@admin.register(Chain)
class ChainAdmin(OperationAdmin):
    """Chains: list, page and operations."""

    when_empty = "An announced dataset starts a chain of each active template that matches it."
    list_display = ("shown_name", "shown_status", "shown_progress", "in_status_for", "waits_for")
    list_filter = ("status",)
    search_fields = ("announcement__dataset_name", "template__name")
    search_help_text = "Part of a dataset's or template's name"
    ordering = ("-created_at", "-id")
    fieldsets = ((None, {"fields": ()}),)  # the page has a template of its own
    operations = CHAIN_OPERATIONS
    shown_status = coloured(COLOURS)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Chain]:
        """Return the rows with the related rows that the list shows."""
        rows: QuerySet[Chain] = super().get_queryset(request)
        final = Q(datasets__role=DatasetRole.FINAL)
        done = final & Q(datasets__producer__status__in=sorted(STEP_DONE))
        counted = rows.annotate(finals=Count("datasets", filter=final), done=Count("datasets", filter=done))
        return counted.select_related("template", "announcement")

    @display(description="chain", header=True)
    def shown_name(self, row: Chain) -> list[str]:
        """Return number and template with the dataset below them."""
        return [f"{row.pk} · {row.template}", row.announcement.dataset_name or "started by name"]

    @display(description="finals")
    def shown_progress(self, row: Any) -> str:
        return f"{row.done} of {row.finals}"

    @display(description="time in status", ordering="-status_since")
    def in_status_for(self, row: Chain) -> str:
        return age_of(row.status_since, now=timezone.now())

    @display(description="waits for")
    def waits_for(self, row: Chain) -> Any:
        return clipped(row.wait_reason)
