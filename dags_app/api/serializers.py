"""Serializers of rounds, DAGs, their events, and schedds."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from dags_app.models import DAG, DAGEvent, QuarantinedReplica, Schedd
from dags_app.selectors import group_counts, group_totals
from dags_app.services.quarantine import state_of
from dags_app.states import LIVE_DAG, QuarantineState
from wms2_project.api.views import ReasonInput

_COUNTS = {"type": "object", "additionalProperties": {"type": "integer"}}


class DAGRow(serializers.ModelSerializer[DAG]):
    """A DAG."""

    request_name = serializers.CharField(source="workflow.request_name", read_only=True)
    round = serializers.IntegerField(source="round.number", read_only=True)
    workflow = serializers.UUIDField(source="workflow_id", read_only=True)
    parent = serializers.UUIDField(source="parent_id", read_only=True, allow_null=True)  # type: ignore[assignment]
    node_counts = serializers.DictField(child=serializers.IntegerField(), read_only=True)

    class Meta:
        model = DAG
        fields: tuple[str, ...] = (
            "id", "workflow", "request_name", "round", "kind", "parent", "status", "schedd_name",
            "dagman_cluster_id", "total_nodes", "total_edges", "node_counts", "nodes_idle", "nodes_running",
            "nodes_done", "nodes_failed", "nodes_held", "observed_at", "created_at", "submitted_at",
            "completed_at",
        )  # fmt: skip
        read_only_fields = fields


class EventRow(serializers.ModelSerializer[DAGEvent]):
    """One event of a DAG."""

    class Meta:
        model = DAGEvent
        fields: tuple[str, ...] = (
            "event_type", "from_status", "to_status", "nodes_done", "nodes_failed", "nodes_running", "detail",
            "at",
        )  # fmt: skip
        read_only_fields = fields


class DAGDetail(DAGRow):
    """A DAG with its files, the groups of its round, and its latest events."""

    directory_removed_at = serializers.DateTimeField(
        source="round.directory_removed_at", read_only=True, allow_null=True, help_text="By policy."
    )
    groups = serializers.SerializerMethodField(help_text="Groups of the round by status.")
    group_totals = serializers.SerializerMethodField(help_text="Sums over the groups of the round.")
    events = serializers.SerializerMethodField(help_text="The latest events, newest first.")

    class Meta(DAGRow.Meta):
        fields = (
            *DAGRow.Meta.fields, "token", "submit_dir", "directory_removed_at", "dag_file_path",
            "rescue_dag_path", "exit_code", "stop_requested_at", "stop_reason", "version", "groups",
            "group_totals", "events",
        )  # fmt: skip
        read_only_fields = fields

    @extend_schema_field(_COUNTS)
    def get_groups(self, dag: DAG) -> dict[str, int]:
        return group_counts([dag.round_id])[dag.round_id]

    @extend_schema_field(_COUNTS)
    def get_group_totals(self, dag: DAG) -> dict[str, int]:
        return group_totals(dag.round_id)

    @extend_schema_field(EventRow(many=True))
    def get_events(self, dag: DAG) -> Any:
        return EventRow(dag.events.order_by("-id")[:50], many=True).data


class RoundBody(serializers.Serializer[Any]):
    """A round of a workflow."""

    id = serializers.UUIDField()
    number = serializers.IntegerField()
    kind = serializers.CharField()
    status = serializers.CharField()
    jobs = serializers.IntegerField()
    input_events = serializers.IntegerField()
    estimate = serializers.DictField()
    groups = serializers.DictField(child=serializers.IntegerField())
    dags = DAGRow(many=True)
    created_at = serializers.DateTimeField()
    resolved_at = serializers.DateTimeField(allow_null=True)


class ScheddRow(serializers.ModelSerializer[Schedd]):
    """A schedd."""

    live_dags = serializers.SerializerMethodField(help_text="DAGs in its queue or to be submitted there.")

    class Meta:
        model = Schedd
        fields: tuple[str, ...] = (
            "name", "status", "reason", "drain_deadline", "answered_at", "silent_since", "live_dags",
            "dagmans_allowed", "dagmans_running", "counted_at", "version",
        )  # fmt: skip
        read_only_fields = fields

    def get_live_dags(self, row: Schedd) -> int:
        return DAG.objects.filter(schedd_name=row.name, status__in=sorted(LIVE_DAG)).count()


class QuarantineRow(serializers.ModelSerializer[QuarantinedReplica]):
    """A copy of a file that was proved bad."""

    request_name = serializers.CharField(
        source="workflow.request_name", read_only=True, help_text="Whose job found it bad last."
    )
    state = serializers.SerializerMethodField(help_text="Whether requests avoid the copy.")

    class Meta:
        model = QuarantinedReplica
        fields: tuple[str, ...] = (
            "id", "lfn", "site", "storages", "state", "exit_code", "proof", "request_name", "dag", "node",
            "created_at", "proved_at", "expires_at", "ended_at", "ended_by", "end_reason", "declared_as",
            "declared_at", "declare_error",
        )  # fmt: skip
        read_only_fields = fields

    @extend_schema_field({"type": "string", "enum": [state.value for state in QuarantineState]})
    def get_state(self, row: QuarantinedReplica) -> str:
        """Return whether requests avoid the copy."""
        return state_of(row, now=timezone.now()).value


class ScheddDrainInput(ReasonInput):
    """Stop sending DAGs to a schedd."""

    deadline_minutes = serializers.FloatField(
        required=False, allow_null=True, default=None, min_value=0, max_value=100_000,
        help_text="Minutes until DAGs that still run there are stopped cleanly and resume elsewhere."
        " Absent: they run to their end.",
    )  # fmt: skip
