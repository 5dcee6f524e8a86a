"""How requests look from outside. The caller's context carries `progress`, computed for a whole page."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from typing import Any

from django.urls import reverse
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from dags_app.api.serializers import RoundBody
from dags_app.selectors import rounds_of
from requests_app.models import Alert, Request, StatusTransition
from requests_app.selectors import Progress, position_in_queue, workflow_status
from requests_app.states import WHY, RequestStatus


class ProgressBody(serializers.Serializer[Progress]):
    """How much of what was asked for is done."""

    fraction = serializers.FloatField(min_value=0, max_value=1)
    events_total = serializers.IntegerField()
    events_done = serializers.IntegerField()
    events_written = serializers.IntegerField()
    groups_total = serializers.IntegerField()
    groups_done = serializers.IntegerField()
    jobs_total = serializers.IntegerField()
    files = serializers.IntegerField()
    blocks = serializers.IntegerField()
    blocks_announced = serializers.IntegerField()
    estimated_completion = serializers.DateTimeField(allow_null=True)


def told_progress(progress: Progress) -> dict[str, Any]:
    """The same as ProgressBody renders; a serializer per row would be half the time of a page."""
    ends = progress.estimated_completion
    return asdict(progress) | {
        "estimated_completion": ends.isoformat().replace("+00:00", "Z") if ends else None
    }


class WorkflowRef(serializers.Serializer[Any]):
    """Which workflow executes the request, and how it stands."""

    id = serializers.UUIDField()
    status = serializers.CharField()


class Links(serializers.Serializer[Any]):
    """Where to read on."""

    self = serializers.CharField()
    timeline = serializers.CharField()
    progress = serializers.CharField()
    versions = serializers.CharField()
    workflow = serializers.CharField()


@cache
def _path(view: str) -> str:
    return reverse(view)


def links_of(request: Request) -> dict[str, str]:
    """Paths of what belongs to the request."""
    own = f"{_path('request-list')}/{request.request_name}"
    return {
        "self": own,
        "timeline": f"{own}/timeline",
        "progress": f"{own}/progress",
        "versions": f"{own}/versions",
        "workflow": f"{_path('workflow-list')}/{request.workflow_id}",
    }


def workflow_ref(request: Request) -> dict[str, Any]:
    """The workflow's id and the status that follows from the request's."""
    return {"id": request.workflow_id, "status": workflow_status(RequestStatus(request.status))}


class ImportBody(serializers.ModelSerializer[Request]):
    """What an import answers."""

    workflow = serializers.SerializerMethodField()
    links = serializers.SerializerMethodField()

    class Meta:
        model = Request
        fields: tuple[str, ...] = ("request_name", "status", "workflow", "links")
        read_only_fields = fields

    @extend_schema_field(WorkflowRef)
    def get_workflow(self, request: Request) -> dict[str, Any]:
        """The workflow that executes the request."""
        return workflow_ref(request)

    @extend_schema_field(Links)
    def get_links(self, request: Request) -> dict[str, str]:
        """Where to read on."""
        return links_of(request)


class RequestRow(ImportBody):
    """One request in a list."""

    input_dataset = serializers.CharField(source="workflow.input_dataset", allow_null=True, read_only=True)
    progress = serializers.SerializerMethodField()

    class Meta(ImportBody.Meta):
        fields: tuple[str, ...] = (
            "request_name", "status", "status_since", "wait_reason", "last_error", "attempt", "priority",
            "rank", "urgent", "campaign", "requestor", "group", "submitted_by", "input_dataset",
            "processing_version", "correlation_id", "version", "created_at", "updated_at", "workflow",
            "progress", "links",
        )  # fmt: skip
        read_only_fields = fields

    @extend_schema_field(ProgressBody)
    def get_progress(self, request: Request) -> Any:
        """How much is done."""
        return told_progress(self.context["progress"][request.pk])


class SparseRow(RequestRow):
    """One request in a list whose caller named the members wanted."""

    class Meta(RequestRow.Meta):
        fields = (*RequestRow.Meta.fields, "request_data")
        read_only_fields = fields

    def get_fields(self) -> dict[str, Any]:
        """Only what was asked for."""
        return {name: field for name, field in super().get_fields().items() if name in self.context["fields"]}


class AlertBody(serializers.ModelSerializer[Alert]):
    """Something a person on shift should know about the request."""

    class Meta:
        model = Alert
        fields: tuple[str, ...] = ("kind", "message", "count", "created_at", "last_seen_at")
        read_only_fields = fields


class RequestDetail(RequestRow):
    """Everything about one request."""

    status_why = serializers.SerializerMethodField(help_text="What this status means.")
    queue_position = serializers.SerializerMethodField(help_text="1 is next; null when not queued.")
    previous_version = serializers.CharField(
        source="previous_version.request_name", default=None, allow_null=True, read_only=True
    )
    rounds = serializers.SerializerMethodField(help_text="The newest rounds, newest first.")
    alerts = serializers.SerializerMethodField(help_text="Open alerts.")

    class Meta(RequestRow.Meta):
        fields = (
            *RequestRow.Meta.fields, "status_why", "queue_position", "hold_evidence", "hold_after_stop",
            "overrides", "last_error_at", "next_check_at", "owner", "source", "wms_backend", "requestor_dn",
            "cleanup_policy", "previous_version", "callback_url", "rounds", "alerts", "request_data",
        )  # fmt: skip
        read_only_fields = fields

    def get_status_why(self, request: Request) -> str:
        """What this status means."""
        return WHY[RequestStatus(request.status)]

    def get_queue_position(self, request: Request) -> int | None:
        """1 is next; null when not queued."""
        return position_in_queue(request)

    @extend_schema_field(RoundBody(many=True))
    def get_rounds(self, request: Request) -> Any:
        """The newest rounds, newest first."""
        return RoundBody(rounds_of(workflow=request.workflow), many=True).data

    @extend_schema_field(AlertBody(many=True))
    def get_alerts(self, request: Request) -> Any:
        """Open alerts."""
        return AlertBody(request.alerts.filter(closed_at__isnull=True).order_by("id"), many=True).data


class TransitionRow(serializers.ModelSerializer[StatusTransition]):
    """One status change."""

    class Meta:
        model = StatusTransition
        fields: tuple[str, ...] = ("from_status", "to_status", "reason", "actor", "at")
        read_only_fields = fields


class ActionBody(serializers.Serializer[Any]):
    """What an action did."""

    request_name = serializers.CharField()
    status = serializers.CharField()
    previous_status = serializers.CharField()
    reason = serializers.CharField()
    stop_reason = serializers.CharField(required=False)
    message = serializers.CharField()
    version = serializers.IntegerField()


class CurrentVersion(serializers.ModelSerializer[Request]):
    """The version in use."""

    class Meta:
        model = Request
        fields: tuple[str, ...] = ("request_name", "processing_version", "status", "cleanup_policy")
        read_only_fields = fields


class EarlierVersion(serializers.Serializer[Any]):
    """A version that was replaced."""

    request_name = serializers.CharField()
    processing_version = serializers.IntegerField()
    status = serializers.CharField()
    superseded_by = serializers.CharField()
    failure_reason = serializers.CharField()


class VersionsBody(serializers.Serializer[Any]):
    """The history of a request across restarts, newest first."""

    current = CurrentVersion()
    versions = EarlierVersion(many=True)
