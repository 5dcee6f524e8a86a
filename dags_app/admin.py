"""The console's pages about execution: schedds, workflows, rounds, DAGs, groups, input files."""

from __future__ import annotations

from typing import Any

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
from dags_app.services.quarantine import state_of
from dags_app.states import DAGStatus, FileState, GroupStatus, QuarantineState, ScheddStatus
from wms2_project.access.roles import may_steer_site, sites_of
from wms2_project.console import (
    ReadOnlyAdmin,
    ReadOnlyTable,
    clipped,
    display,
    link,
    progress_bar,
    request_link,
    row_at,
    size_of,
)
from wms2_project.operations.console import OperationAdmin

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
    """Schedds: which take DAGs, which answer."""

    list_display = ("name", "shown_status", "reason", "drain_deadline", "answered_at", "silent_since")
    fields = ("name", "status", "reason", "drain_deadline", "answered_at", "silent_since", "dags")
    ordering = ("name",)
    operations = SCHEDD_OPERATIONS

    @display(description="DAGs")
    def dags(self, row: Schedd) -> SafeString:
        """What runs there, and what did."""
        return link("its DAGs", "admin:dags_app_dag_changelist", query=f"schedd_name={row.name}")

    @display(description="status", ordering="status", label=SCHEDD_COLOURS)
    def shown_status(self, row: Schedd) -> tuple[str, str]:
        """The status in its colour."""
        return row.status, row.status


@admin.register(Workflow)
class WorkflowAdmin(ReadOnlyAdmin):
    """How each request is executed."""

    list_display = ("request_name", "input_dataset", "splitting_algo", "memory_mb", "adaptive", "created_at")
    exclude = ("version", "next_first_event", "next_first_lumi")
    list_filter = ("splitting_algo", "adaptive")
    search_fields = ("request_name", "input_dataset")
    ordering = ("request_name",)


@admin.register(Round)
class RoundAdmin(ReadOnlyAdmin):
    """Planned slices of work."""

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
        """What it is cut into."""
        return link("its groups", "admin:dags_app_mergegroup_changelist", query=f"round={row.pk}")


class EventTable(ReadOnlyTable):
    """What happened to a DAG."""

    model = DAGEvent
    fields = ("at", "event_type", "from_status", "to_status", "nodes_done", "nodes_failed", "detail")
    readonly_fields = fields
    ordering = ("-id",)


class OfSchedd(admin.SimpleListFilter):
    """The schedds there are rows of, not those of every DAG there was."""

    title = "schedd"
    parameter_name = "schedd_name"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Schedds to choose from."""
        chosen = self.value()
        names = {*Schedd.objects.values_list("name", flat=True)} | ({chosen} if chosen else set())
        return [(name, name) for name in sorted(names)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """The DAGs of the schedd chosen."""
        return queryset.filter(schedd_name=self.value()) if self.value() else queryset


@admin.register(DAG)
class DAGAdmin(OperationAdmin):
    """Submissions to DAGMan."""

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
    search_help_text = "Part of a request's name, or of a DAG's token"
    list_select_related = ("workflow", "round")
    ordering = ("-created_at", "-id")
    inlines = (EventTable,)
    operations = DAG_OPERATIONS

    @display(description="DAG", ordering="round__number")
    def shown_dag(self, row: DAG) -> str:
        """Which of its workflow's."""
        return f"{row.round}, {row.kind}".replace(" ", "\N{NO-BREAK SPACE}")

    @display(description="groups")
    def groups(self, row: DAG) -> SafeString:
        """What it runs."""
        return link(
            "those of its round", "admin:dags_app_mergegroup_changelist", query=f"round={row.round_id}"
        )

    @display(description="status", ordering="status", label=DAG_COLOURS)
    def shown_status(self, row: DAG) -> tuple[str, str]:
        """The status in its colour."""
        return row.status, row.status

    @display(description="schedd")
    def shown_schedd(self, row: DAG) -> str:
        """Where it runs and as which cluster."""
        if not row.schedd_name:
            return "–"
        shown = link(row.schedd_name, "admin:dags_app_schedd_change", row.schedd_name)
        return format_html("{} {}", shown, row.dagman_cluster_id or "")

    @display(description="nodes done")
    def shown_progress(self, row: DAG) -> SafeString:
        """A bar of nodes done."""
        fraction = row.nodes_done / row.total_nodes if row.total_nodes else 0.0
        return progress_bar(fraction, label=f"{row.nodes_done} of {row.total_nodes} nodes")


@admin.register(MergeGroup)
class MergeGroupAdmin(ReadOnlyAdmin):
    """Merge groups: the unit WMS2 watches and credits."""

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
    search_help_text = "Part of a request's name or of a site's"
    list_select_related = ("round__workflow",)
    ordering = ("-id",)

    @display(description="request")
    def of_request(self, row: MergeGroup) -> SafeString:
        """Whose group it is."""
        return request_link(row.round.workflow.request_name)

    @display(description="site")
    def shown_site(self, row: MergeGroup) -> str:
        """Where it landed."""
        return link(row.site, "admin:sites_app_site_change", row.site) if row.site else "–"

    @display(description="outputs")
    def outputs(self, row: MergeGroup) -> SafeString:
        """The files it made."""
        return link("its files", "admin:outputs_app_outputfile_changelist", query=f"group={row.pk}")

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

    list_display = ("lfn", "of_request", "shown_state", "attempts", "events", "size", "excluded_reason")
    fields = (
        "lfn", "of_request", "state", "excluded_reason", "attempts", "round", "events", "size",
        "adler32", "block_name",
    )  # fmt: skip
    list_filter = ("state",)
    search_fields = ("workflow__request_name", "lfn")
    search_help_text = "Part of a request's name or of a file's"
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


@admin.register(QuarantinedReplica)
class QuarantinedReplicaAdmin(OperationAdmin):
    """Copies of files proved bad: which requests avoid, with the proof."""

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
        """Whether requests avoid the copy."""
        state = state_of(row, now=timezone.now())
        return state.value, state.value.replace("_", " ")

    @display(description="proof")
    def shown_proof(self, row: QuarantinedReplica) -> SafeString:
        """What the job found."""
        return clipped(row.proof)


@admin.register(SecondaryDataset)
class SecondaryDatasetAdmin(ReadOnlyAdmin):
    """Datasets that jobs read besides their input, as DBS and Rucio had them."""

    list_display = ("name", "files", "resolved_at", "located_at")
    fields = ("name", "files", "places", "missing", "resolved_at", "located_at")
    search_fields = ("name",)
    ordering = ("name",)
