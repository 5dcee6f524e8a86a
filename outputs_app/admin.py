"""Console pages of outputs: datasets, blocks, files and Rucio rules."""

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
from outputs_app.pipeline import MOVING, PIPELINE, Tier
from outputs_app.states import BlockStatus, DatasetStatus
from wms2_project.changes import Topic
from wms2_project.console import (
    ReadOnlyAdmin,
    ReadOnlyTable,
    age_of,
    clipped,
    coloured,
    display,
    link,
    request_link,
    size_of,
)
from wms2_project.words import counted

BLOCK_COLOURS: dict[str, str] = {
    **{status: "info" if PIPELINE[status].tier is Tier.PROTECT else "primary" for status in MOVING},
    BlockStatus.ANNOUNCED: "success", BlockStatus.INVALIDATED: "warning", BlockStatus.INVALIDATING: "warning",
    BlockStatus.FAILED: "danger",
}  # fmt: skip
DATASET_COLOURS: dict[str, str] = {
    DatasetStatus.ACTIVE: "success", DatasetStatus.SUPERSEDED: "warning", DatasetStatus.INVALIDATED: "danger",
    DatasetStatus.REMOVED: "info", DatasetStatus.RELEASED: "info",
}  # fmt: skip


@admin.register(OutputDataset)
class OutputDatasetAdmin(ReadOnlyAdmin):
    """Output datasets."""

    topics = (Topic.OUTPUTS,)
    list_display = ("dataset_name", "of_request", "shown_status", "created_at")
    fields = (
        "dataset_name", "of_request", "status", "blocks", "announced_at", "invalidated_at",
        "invalidation_reason", "created_at",
    )  # fmt: skip
    list_filter = ("status",)
    search_fields = ("dataset_name", "workflow__request_name")
    list_select_related = ("workflow",)
    ordering = ("-created_at", "-id")

    shown_status = coloured(DATASET_COLOURS)

    @display(description="blocks")
    def blocks(self, row: OutputDataset) -> SafeString:
        return link("its blocks", "admin:outputs_app_outputblock_changelist", query=f"dataset={row.pk}")


class RuleTable(ReadOnlyTable):
    """Rules of a block."""

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
    """Output blocks and their steps in the pipeline."""

    topics = (Topic.OUTPUTS,)
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
        """Return the rows with the number of their files."""
        files = (
            OutputFile.objects.filter(block=OuterRef("pk")).order_by().values("block").annotate(n=Count("pk"))
        )
        rows: QuerySet[OutputBlock] = super().get_queryset(request)
        return rows.select_related("dataset__workflow").annotate(
            n_files=Coalesce(Subquery(files.values("n")), 0)
        )

    @display(description="request")
    def of_request(self, row: OutputBlock) -> SafeString:
        return request_link(row.dataset.workflow.request_name)

    @display(description="site")
    def shown_site(self, row: OutputBlock) -> SafeString:
        return format_html("{}, storage {}", link(row.site, "admin:sites_app_site_change", row.site), row.rse)

    @display(description="files")
    def files(self, row: Any) -> SafeString:
        label = counted(row.n_files, "file")
        return link(label, "admin:outputs_app_outputfile_changelist", query=f"block={row.pk}")

    @display(description="last error")
    def shown_error(self, row: OutputBlock) -> SafeString:
        return clipped(row.last_error)

    shown_status = coloured(BLOCK_COLOURS)

    @display(description="since", ordering="-status_since")
    def in_status_for(self, row: OutputBlock) -> str:
        return age_of(row.status_since, now=timezone.now())

    @display(description="files")
    def file_count(self, row: Any) -> int:
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
        return size_of(row.size_bytes)

    @display(description="problem")
    def shown_problem(self, row: OutputFile) -> SafeString:
        """Return the difference from the report of its job."""
        return clipped(row.check_problem)


@admin.register(RucioRule)
class RucioRuleAdmin(ReadOnlyAdmin):
    """Rucio rules. A row is written before the rule is made; then it has the rule id."""

    topics = (Topic.OUTPUTS,)
    list_display = ("__str__", "block", "rule_id", "state", "error", "created_at", "deleted_at")
    list_filter = ("kind", "state")
    search_fields = ("block__block_name", "rule_id", "rse_expression")
    list_select_related = ("block",)
    ordering = ("-id",)
