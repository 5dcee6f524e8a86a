"""Console pages of execution: schedds, workflows, rounds, DAGs, groups, input files."""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dags_app.models import (
    DAG,
    DAGEvent,
    InputFile,
    MergeGroup,
    QuarantinedReplica,
    Round,
    Schedd,
    SecondaryDataset,
    Workflow,
)
from dags_app.operations import DAG_OPERATIONS, QUARANTINE_OPERATIONS, SCHEDD_OPERATIONS
from dags_app.pull import admin as pull_admin
from dags_app.services.quarantine import state_of
from dags_app.states import DAGStatus, FileState, GroupStatus, QuarantineState, ScheddStatus
from wms2_project.access.roles import may_steer_site, sites_of
from wms2_project.changes import Topic
from wms2_project.console import (
    ReadOnlyAdmin,
    ReadOnlyTable,
    ValueFilter,
    clipped,
    coloured,
    display,
    link,
    progress_bar,
    request_link,
    row_at,
    size_of,
)
from wms2_project.operations.console import OperationAdmin

__all__ = ["pull_admin"]  # registers its pages
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
SCHEDD_COLOURS: dict[str, str] = {
    ScheddStatus.ENABLED: "success", ScheddStatus.DRAINING: "warning", ScheddStatus.FENCED: "danger",
}  # fmt: skip


@admin.register(Schedd)
class ScheddAdmin(OperationAdmin):
    """Schedds and their operations."""

    topics = (Topic.AUDIT, Topic.FLEET)
    list_display = ("name", "shown_status", "reason", "drain_deadline", "answered_at", "silent_since")
    fields = ("name", "status", "reason", "drain_deadline", "answered_at", "silent_since", "dags")
    ordering = ("name",)
    operations = SCHEDD_OPERATIONS

    @display(description="DAGs")
    def dags(self, row: Schedd) -> SafeString:
        return link("its DAGs", "admin:dags_app_dag_changelist", query=f"schedd_name={row.name}")

    shown_status = coloured(SCHEDD_COLOURS)


@admin.register(Workflow)
class WorkflowAdmin(ReadOnlyAdmin):
    """Parameters of requests for their execution."""

    list_display = ("request_name", "input_dataset", "splitting_algo", "memory_mb", "adaptive", "created_at")
    exclude = ("version", "next_first_event", "next_first_lumi")
    list_filter = ("splitting_algo", "adaptive")
    search_fields = ("request_name", "input_dataset")
    ordering = ("request_name",)


@admin.register(Round)
class RoundAdmin(ReadOnlyAdmin):
    """Rounds."""

    list_display = (
        "__str__", "of_request", "kind", "status", "jobs", "input_events", "created_at", "resolved_at",
    )  # fmt: skip
    fields = (
        "of_request", "number", "kind", "status", "groups", "jobs", "input_events", "planned_files",
        "first_event", "last_event", "created_at", "resolved_at", "estimate",
    )  # fmt: skip
    list_filter = ("kind", "status")
    search_fields = ("workflow__request_name",)
    list_select_related = ("workflow",)
    ordering = ("-created_at", "-id")

    @display(description="groups")
    def groups(self, row: Round) -> SafeString:
        return link("its groups", "admin:dags_app_mergegroup_changelist", query=f"round={row.pk}")


class EventTable(ReadOnlyTable):
    """Events of a DAG."""

    model = DAGEvent
    fields = ("at", "event_type", "from_status", "to_status", "nodes_done", "nodes_failed", "detail")
    readonly_fields = fields
    ordering = ("-id",)


class OfSchedd(ValueFilter):
    """Filter by known schedds. Others are found by search."""

    title = "schedd"
    parameter_name = "schedd_name"

    def values(self) -> Iterable[str]:
        return Schedd.objects.values_list("name", flat=True)


@admin.register(DAG)
class DAGAdmin(OperationAdmin):
    """DAGs and their operations."""

    topics = (Topic.FLEET,)
    list_display = (
        "shown_dag", "of_request", "shown_status", "shown_progress", "nodes_failed", "nodes_held",
        "created_at",
    )  # fmt: skip
    fields = (
        "of_request", "round", "kind", "status", "shown_progress", "nodes_running", "nodes_idle",
        "nodes_failed", "nodes_held", "groups", "shown_schedd", "exit_code", "parent", "stop_requested_at",
        "stop_reason", "submitted_at", "observed_at", "completed_at", "token", "submit_dir",
    )  # fmt: skip
    list_filter = ("status", "kind", OfSchedd)
    search_fields = ("workflow__request_name", "token")
    search_help_text = "Part of the name of a request or of a DAG's token"
    list_select_related = ("workflow", "round")
    ordering = ("-created_at", "-id")
    inlines = (EventTable,)
    operations = DAG_OPERATIONS

    @display(description="DAG", ordering="round__number")
    def shown_dag(self, row: DAG) -> str:
        """Return round and kind."""
        return f"{row.round}, {row.kind}".replace(" ", "\N{NO-BREAK SPACE}")

    @display(description="groups")
    def groups(self, row: DAG) -> SafeString:
        return link(
            "those of its round", "admin:dags_app_mergegroup_changelist", query=f"round={row.round_id}"
        )

    shown_status = coloured(DAG_COLOURS)

    @display(description="schedd")
    def shown_schedd(self, row: DAG) -> str:
        """Return schedd and cluster."""
        if not row.schedd_name:
            return "–"
        shown = link(row.schedd_name, "admin:dags_app_schedd_change", row.schedd_name)
        return format_html("{} {}", shown, row.dagman_cluster_id or "")

    @display(description="nodes done")
    def shown_progress(self, row: DAG) -> SafeString:
        """Return a bar of finished nodes."""
        fraction = row.nodes_done / row.total_nodes if row.total_nodes else 0.0
        return progress_bar(fraction, label=f"{row.nodes_done} of {row.total_nodes} nodes")


@admin.register(MergeGroup)
class MergeGroupAdmin(ReadOnlyAdmin):
    """Merge groups."""

    topics = (Topic.FLEET,)
    list_display = (
        "name", "of_request", "round_number", "shown_status", "site", "jobs", "events_written", "shown_error",
        "finished_at",
    )  # fmt: skip
    fields = (
        "of_request", "round", "dag", "status", "last_error", "shown_site", "jobs", "outputs",
        "input_events", "events_read", "events_written", "finished_at", "metrics",
    )  # fmt: skip
    list_filter = ("status",)
    search_fields = ("round__workflow__request_name", "site")
    search_help_text = "Part of the name of a request or site"
    list_select_related = ("round__workflow",)
    ordering = ("-id",)

    @display(description="request")
    def of_request(self, row: MergeGroup) -> SafeString:
        return request_link(row.round.workflow.request_name)

    @display(description="site")
    def shown_site(self, row: MergeGroup) -> str:
        return link(row.site, "admin:sites_app_site_change", row.site) if row.site else "–"

    @display(description="outputs")
    def outputs(self, row: MergeGroup) -> SafeString:
        return link("its files", "admin:outputs_app_outputfile_changelist", query=f"group={row.pk}")

    @display(description="round")
    def round_number(self, row: MergeGroup) -> int:
        return row.round.number

    @display(description="last error")
    def shown_error(self, row: MergeGroup) -> SafeString:
        return clipped(row.last_error)

    shown_status = coloured(GROUP_COLOURS)


@admin.register(InputFile)
class InputFileAdmin(ReadOnlyAdmin):
    """The input ledger: every input file and its state."""

    list_display = ("lfn", "of_request", "shown_state", "attempts", "events", "size", "excluded_reason")
    fields = (
        "lfn", "of_request", "state", "excluded_reason", "attempts", "round", "events", "size",
        "adler32", "block_name",
    )  # fmt: skip
    list_filter = ("state",)
    search_fields = ("workflow__request_name", "lfn")
    search_help_text = "Part of the name of a request or file"
    list_select_related = ("workflow",)
    ordering = ("-id",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[InputFile]:
        """Return the rows without their lumi lists, which the list does not show."""
        rows: QuerySet[InputFile] = super().get_queryset(request)
        return rows.defer("lumis")

    shown_state = coloured(FILE_COLOURS, column="state")

    @display(description="size", ordering="size_bytes")
    def size(self, row: InputFile) -> str:
        return size_of(row.size_bytes)


@admin.register(QuarantinedReplica)
class QuarantinedReplicaAdmin(OperationAdmin):
    """Copies of files proved bad: which requests avoid, with the proof."""

    when_empty = "A copy that jobs proved to be bad is avoided by all requests until it is lifted here."
    list_display = (
        "lfn", "site", "shown_state", "exit_code", "shown_proof", "of_request", "declared_as", "created_at",
        "expires_at",
    )  # fmt: skip
    fields = (
        "lfn", "site", "storages", "shown_state", "exit_code", "proof", "of_request", "dag", "node",
        "created_at", "proved_at", "expires_at", "ended_at", "ended_by", "end_reason", "declared_as",
        "declared_at", "declare_error",
    )  # fmt: skip
    search_fields = ("lfn", "site", "workflow__request_name")
    list_select_related = ("workflow",)
    ordering = ("-created_at", "-id")
    operations = QUARANTINE_OPERATIONS

    def has_operate_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Return whether the user may lift it: operators every one, site admins those of their site."""
        if obj is None:
            return super().has_operate_permission(request) or bool(sites_of(request.user))
        row = obj if isinstance(obj, QuarantinedReplica) else row_at(QuarantinedReplica, str(obj))
        return may_steer_site(request.user, row.site)

    @display(description="state", label={QuarantineState.IN_FORCE: "warning"})
    def shown_state(self, row: QuarantinedReplica) -> tuple[str, str]:
        """Return whether requests avoid the copy."""
        state = state_of(row, now=timezone.now())
        return state.value, state.value.replace("_", " ")

    @display(description="proof")
    def shown_proof(self, row: QuarantinedReplica) -> SafeString:
        """Return the proof reported by the job."""
        return clipped(row.proof)


@admin.register(SecondaryDataset)
class SecondaryDatasetAdmin(ReadOnlyAdmin):
    """Datasets that jobs read besides their input, as DBS and Rucio had them."""

    list_display = ("name", "files", "resolved_at", "located_at")
    fields = ("name", "files", "places", "missing", "resolved_at", "located_at")
    search_fields = ("name",)
    ordering = ("name",)
