"""The console's pages about outputs: datasets, blocks, files and the rules that protect them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from outputs_app.models import OutputBlock, OutputDataset, OutputFile, RucioRule
from outputs_app.states import BlockStatus, DatasetStatus
from wms2_project.console import (
    ReadOnlyAdmin,
    ReadOnlyTable,
    age_of,
    clipped,
    display,
    link,
    request_link,
    size_of,
)
from wms2_project.tables import check_complete
from wms2_project.words import counted

BLOCK_COLOURS: dict[str, str] = {
    BlockStatus.PENDING: "info", BlockStatus.CHECKED: "info", BlockStatus.DBS_REGISTERED: "info",
    BlockStatus.SOURCE_PROTECTED: "primary",
    BlockStatus.TRANSFERS_REQUESTED: "primary", BlockStatus.TRANSFERRING: "primary",
    BlockStatus.TRANSFERRED: "primary", BlockStatus.SOURCE_RELEASED: "primary",
    BlockStatus.ANNOUNCED: "success", BlockStatus.INVALIDATED: "warning",
    BlockStatus.INVALIDATING: "warning", BlockStatus.FAILED: "danger",
}  # fmt: skip
check_complete("BLOCK_COLOURS", BLOCK_COLOURS, BlockStatus)
DATASET_COLOURS: dict[str, str] = {
    DatasetStatus.ACTIVE: "success", DatasetStatus.SUPERSEDED: "warning", DatasetStatus.INVALIDATED: "danger",
}  # fmt: skip


@admin.register(OutputDataset)
class OutputDatasetAdmin(ReadOnlyAdmin):
    """What the workflows produce."""

    list_display = ("dataset_name", "of_request", "shown_status", "created_at")
    fields = (
        "dataset_name", "of_request", "status", "blocks", "announced_at", "invalidated_at",
        "invalidation_reason", "created_at",
    )  # fmt: skip
    list_filter = ("status",)
    search_fields = ("dataset_name", "workflow__request_name")
    list_select_related = ("workflow",)
    ordering = ("-created_at", "-id")

    @display(description="status", ordering="status", label=DATASET_COLOURS)
    def shown_status(self, row: OutputDataset) -> tuple[str, str]:
        """The status in its colour."""
        return row.status, row.status

    @display(description="blocks")
    def blocks(self, row: OutputDataset) -> SafeString:
        """What it consists of."""
        return link("its blocks", "admin:outputs_app_outputblock_changelist", query=f"dataset={row.pk}")


class RuleTable(ReadOnlyTable):
    """The rules that keep a block."""

    model = RucioRule
    fields = (
        "kind",
        "rse_expression",
        "copies",
        "rule_id",
        "state",
        "state_since",
        "error",
        "created_at",
        "deleted_at",
    )
    readonly_fields = fields
    ordering = ("id",)


@admin.register(OutputBlock)
class OutputBlockAdmin(ReadOnlyAdmin):
    """Blocks on their way from the merge to their users."""

    list_display = (
        "block_name", "site", "shown_status", "in_status_for", "file_count", "attempt", "shown_error",
        "created_at",
    )  # fmt: skip
    fields = (
        "block_name", "of_request", "dataset", "status", "in_status_for", "last_error", "failing_since",
        "shown_site", "files", "closed_at", "dbs_registered_at", "last_transfer_check",
        "next_check_at", "announced_at", "invalidated_at", "invalidation_reason",
    )  # fmt: skip
    list_filter = ("status",)
    search_fields = ("block_name", "dataset__workflow__request_name", "site")
    search_help_text = "Part of the name of a block, request or site"
    ordering = ("-created_at", "-id")
    inlines = (RuleTable,)

    def get_queryset(self, request: HttpRequest) -> QuerySet[OutputBlock]:
        """With the number of files, counted for the rows shown only."""
        files = (
            OutputFile.objects.filter(block=OuterRef("pk")).order_by().values("block").annotate(n=Count("pk"))
        )
        rows: QuerySet[OutputBlock] = super().get_queryset(request)
        return rows.select_related("dataset__workflow").annotate(
            n_files=Coalesce(Subquery(files.values("n")), 0)
        )

    @display(description="request")
    def of_request(self, row: OutputBlock) -> SafeString:
        """Whose output it is."""
        return request_link(row.dataset.workflow.request_name)

    @display(description="site")
    def shown_site(self, row: OutputBlock) -> SafeString:
        """Where it was made."""
        return format_html("{}, storage {}", link(row.site, "admin:sites_app_site_change", row.site), row.rse)

    @display(description="files")
    def files(self, row: Any) -> SafeString:
        """What it holds."""
        told = counted(row.n_files, "file")
        return link(told, "admin:outputs_app_outputfile_changelist", query=f"block={row.pk}")

    @display(description="last error")
    def shown_error(self, row: OutputBlock) -> SafeString:
        """What went wrong last."""
        return clipped(row.last_error)

    @display(description="status", ordering="status", label=BLOCK_COLOURS)
    def shown_status(self, row: OutputBlock) -> tuple[str, str]:
        """The status in its colour."""
        return row.status, row.status.replace("_", " ")

    @display(description="since", ordering="-status_since")
    def in_status_for(self, row: OutputBlock) -> str:
        """How long in this status."""
        return age_of(row.status_since, now=timezone.now())

    @display(description="files")
    def file_count(self, row: Any) -> int:
        """How many files it holds."""
        return int(row.n_files)


@admin.register(OutputFile)
class OutputFileAdmin(ReadOnlyAdmin):
    """Merged files."""

    list_display = ("lfn", "block", "events", "size", "adler32", "checked_at", "shown_problem", "created_at")
    fields = (
        "lfn", "block", "group", "events", "size", "adler32", "created_at", "checked_at", "checked_content",
        "check_problem", "parents",
    )  # fmt: skip
    search_fields = ("lfn", "block__block_name")
    list_select_related = ("block",)
    ordering = ("-id",)

    @display(description="size", ordering="size_bytes")
    def size(self, row: OutputFile) -> str:
        """How large it is."""
        return size_of(row.size_bytes)

    @display(description="problem")
    def shown_problem(self, row: OutputFile) -> SafeString:
        """How it differs from what its job reported."""
        return clipped(row.check_problem)


@admin.register(RucioRule)
class RucioRuleAdmin(ReadOnlyAdmin):
    """Rules: the row is the intent, the rule id proves the effect."""

    list_display = ("__str__", "block", "rule_id", "state", "error", "created_at", "deleted_at")
    list_filter = ("kind", "state")
    search_fields = ("block__block_name", "rule_id", "rse_expression")
    list_select_related = ("block",)
    ordering = ("-id",)
