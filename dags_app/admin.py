"""The console's pages about execution: workflows, rounds, DAGs, groups, input files. All to look at."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from dags_app.models import DAG, DAGEvent, InputFile, MergeGroup, Round, Workflow
from dags_app.states import DAGStatus, FileState, GroupStatus
from wms2_project.console import ReadOnlyAdmin, ReadOnlyTable, clipped, display, progress_bar, size_of

DAG_COLOURS: dict[str, str] = {
    DAGStatus.READY: "info", DAGStatus.SUBMITTED: "info", DAGStatus.RUNNING: "primary",
    DAGStatus.HALTED: "warning", DAGStatus.COMPLETED: "success", DAGStatus.PARTIAL: "warning",
    DAGStatus.FAILED: "danger",
}  # fmt: skip
GROUP_COLOURS: dict[str, str] = {
    GroupStatus.DONE: "primary", GroupStatus.COLLECTED: "success", GroupStatus.FAILED: "danger",
}  # fmt: skip
FILE_COLOURS: dict[str, str] = {
    FileState.ASSIGNED: "primary", FileState.PROCESSED: "success", FileState.ATTEMPTED: "warning",
    FileState.EXCLUDED: "danger",
}  # fmt: skip


@admin.register(Workflow)
class WorkflowAdmin(ReadOnlyAdmin):
    """How each request is executed."""

    list_display = ("request_name", "input_dataset", "splitting_algo", "memory_mb", "adaptive", "created_at")
    list_filter = ("splitting_algo", "adaptive")
    search_fields = ("request_name", "input_dataset")
    ordering = ("request_name",)


@admin.register(Round)
class RoundAdmin(ReadOnlyAdmin):
    """Planned slices of work."""

    list_display = (
        "workflow",
        "number",
        "kind",
        "status",
        "jobs",
        "input_events",
        "created_at",
        "resolved_at",
    )
    list_filter = ("kind", "status")
    search_fields = ("workflow__request_name",)
    list_select_related = ("workflow",)
    ordering = ("-created_at", "-id")


class EventTable(ReadOnlyTable):
    """What happened to a DAG."""

    model = DAGEvent
    fields = ("at", "event_type", "from_status", "to_status", "nodes_done", "nodes_failed", "detail")
    readonly_fields = fields
    ordering = ("-id",)


@admin.register(DAG)
class DAGAdmin(ReadOnlyAdmin):
    """Submissions to DAGMan."""

    list_display = (
        "workflow", "round_number", "kind", "shown_status", "shown_progress", "nodes_failed", "nodes_held",
        "shown_schedd", "created_at",
    )  # fmt: skip
    list_filter = ("status", "kind")
    search_fields = ("workflow__request_name", "token")
    list_select_related = ("workflow", "round")
    ordering = ("-created_at", "-id")
    inlines = (EventTable,)

    @display(description="round")
    def round_number(self, row: DAG) -> int:
        """Which round it runs."""
        return row.round.number

    @display(description="status", ordering="status", label=DAG_COLOURS)
    def shown_status(self, row: DAG) -> tuple[str, str]:
        """The status in its colour."""
        return row.status, row.status

    @display(description="schedd")
    def shown_schedd(self, row: DAG) -> SafeString:
        """Where it runs and as which cluster."""
        return clipped(f"{row.schedd_name} {row.dagman_cluster_id or ''}")

    @display(description="nodes done")
    def shown_progress(self, row: DAG) -> SafeString:
        """A bar of nodes done."""
        fraction = row.nodes_done / row.total_nodes if row.total_nodes else 0.0
        return progress_bar(fraction, label=f"{row.nodes_done} of {row.total_nodes} nodes")


@admin.register(MergeGroup)
class MergeGroupAdmin(ReadOnlyAdmin):
    """Merge groups: the unit WMS2 watches and credits."""

    list_display = (
        "name", "workflow", "round_number", "shown_status", "site", "jobs", "events_written", "shown_error",
        "finished_at",
    )  # fmt: skip
    list_filter = ("status",)
    search_fields = ("round__workflow__request_name", "site")
    list_select_related = ("round__workflow",)
    ordering = ("-id",)

    @display(description="request")
    def workflow(self, row: MergeGroup) -> str:
        """Whose group it is."""
        return row.round.workflow.request_name

    @display(description="round")
    def round_number(self, row: MergeGroup) -> int:
        """Which round it belongs to."""
        return row.round.number

    @display(description="last error")
    def shown_error(self, row: MergeGroup) -> SafeString:
        """What went wrong last."""
        return clipped(row.last_error)

    @display(description="status", ordering="status", label=GROUP_COLOURS)
    def shown_status(self, row: MergeGroup) -> tuple[str, str]:
        """The status in its colour."""
        return row.status, row.status


@admin.register(InputFile)
class InputFileAdmin(ReadOnlyAdmin):
    """The ledger: every input file and what became of it."""

    list_display = ("lfn", "workflow", "shown_state", "attempts", "events", "size", "excluded_reason")
    list_filter = ("state",)
    search_fields = ("workflow__request_name", "lfn")
    list_select_related = ("workflow",)
    ordering = ("-id",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[InputFile]:
        """Without the lumi lists, which a list does not show."""
        rows: QuerySet[InputFile] = super().get_queryset(request)
        return rows.defer("lumis")

    @display(description="state", ordering="state", label=FILE_COLOURS)
    def shown_state(self, row: InputFile) -> tuple[str, str]:
        """The state in its colour."""
        return row.state, row.state

    @display(description="size", ordering="size_bytes")
    def size(self, row: InputFile) -> str:
        """How large it is."""
        return size_of(row.size_bytes)
