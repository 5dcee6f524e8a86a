"""Serializers of requests."""

from __future__ import annotations

from functools import cache
from typing import Any
from uuid import UUID

from django.urls import reverse
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from dags_app.api.serializers import RoundBody
from requests_app.models import AdmissionConfig, Alert, Callback, Request, TimelineEntry
from requests_app.selectors.progress import Progress
from requests_app.selectors.requests import workflow_status
from requests_app.states import AlertState, RequestStatus
from wms2_project.api.bodies import body_of
from wms2_project.fields import choices


class WorkflowRef(serializers.Serializer[Any]):
    """The workflow of the request, and its status."""

    id = serializers.UUIDField()
    status = serializers.CharField()


class Links(serializers.Serializer[Any]):
    """Links to related resources."""

    self = serializers.CharField()
    timeline = serializers.CharField()
    progress = serializers.CharField()
    why = serializers.CharField()
    versions = serializers.CharField()
    workflow = serializers.CharField()
    public = serializers.CharField()


@cache
def _path(view: str) -> str:
    return reverse(view)


@cache
def _public() -> str:
    return reverse("public-request", args=[UUID(int=0)]).removesuffix(str(UUID(int=0)))


def links_of(request: Request) -> dict[str, str]:
    """Return paths of related resources."""
    return links_to(request.request_name, request.workflow_id, request.pk)


def links_to(name: str, workflow_id: UUID, request_id: UUID) -> dict[str, str]:
    """Return paths of resources related to the request."""
    own = f"{_path('request-list')}/{name}"
    return {
        "self": own,
        "timeline": f"{own}/timeline",
        "progress": f"{own}/progress",
        "why": f"{own}/why",
        "versions": f"{own}/versions",
        "workflow": f"{_path('workflow-list')}/{workflow_id}",
        "public": f"{_public()}{request_id}",
    }


def workflow_ref(request: Request) -> dict[str, Any]:
    """Return id and derived status of the workflow."""
    return {"id": request.workflow_id, "status": workflow_status(RequestStatus(request.status))}


class ImportBody(serializers.ModelSerializer[Request]):
    """Result of an import."""

    request_id = serializers.UUIDField(source="id", read_only=True)
    workflow = serializers.SerializerMethodField()
    links = serializers.SerializerMethodField()

    class Meta:
        model = Request
        fields: tuple[str, ...] = ("request_id", "request_name", "status", "workflow", "links")
        read_only_fields = fields

    @extend_schema_field(WorkflowRef)
    def get_workflow(self, request: Request) -> dict[str, Any]:
        return workflow_ref(request)

    @extend_schema_field(Links)
    def get_links(self, request: Request) -> dict[str, str]:
        """Links to related resources."""
        return links_of(request)


class RequestRow(ImportBody):
    """One request in a list."""

    input_dataset = serializers.CharField(source="workflow.input_dataset", allow_null=True, read_only=True)
    progress = body_of(Progress)()

    class Meta(ImportBody.Meta):
        fields: tuple[str, ...] = (
            "request_id", "request_name", "status", "status_since", "wait_reason", "last_error", "attempt",
            "priority", "rank", "urgent", "campaign", "requestor", "group", "submitted_by", "input_dataset",
            "processing_version", "correlation_id", "version", "created_at", "updated_at", "workflow",
            "progress", "links",
        )  # fmt: skip
        read_only_fields = fields


class AlertBody(serializers.ModelSerializer[Alert]):
    """An open alert of the request."""

    class Meta:
        model = Alert
        fields: tuple[str, ...] = (
            "id", "kind", "message", "count", "created_at", "last_seen_at", "acknowledged_at",
            "acknowledged_by", "acknowledge_reason",
        )  # fmt: skip
        read_only_fields = fields


class AlertRow(AlertBody):
    """One alert in a list."""

    request_name = serializers.CharField(
        source="request.request_name", default=None, allow_null=True, read_only=True
    )
    site = serializers.CharField(
        read_only=True, help_text="Subject of the alert, if it is not about a request."
    )
    state = serializers.ChoiceField(choices=choices(AlertState), read_only=True)

    class Meta(AlertBody.Meta):
        fields = (*AlertBody.Meta.fields, "request_name", "site", "state", "closed_at")
        read_only_fields = fields


class CallbackBody(serializers.ModelSerializer[Callback]):
    """Delivery of a callback."""

    class Meta:
        model = Callback
        fields: tuple[str, ...] = ("event", "status", "attempt", "last_error", "created_at", "delivered_at")
        read_only_fields = fields


class RequestDetail(RequestRow):
    """All details of one request."""

    input_datasets = serializers.ListField(
        child=serializers.CharField(),
        source="workflow.input_datasets",
        help_text="All datasets it processes.",
    )
    status_why = serializers.CharField(help_text="What this status means.")
    queue_position = serializers.IntegerField(
        allow_null=True, help_text="Queue position, 1 being next; null if not queued."
    )
    previous_version = serializers.CharField(
        source="previous_version.request_name", default=None, allow_null=True, read_only=True
    )
    rounds = RoundBody(many=True, help_text="The newest rounds, newest first.")
    alerts = AlertBody(many=True, help_text="Open alerts.")
    callback_url = serializers.CharField(read_only=True, help_text="Empty without a callback.")
    callbacks = CallbackBody(many=True, read_only=True)
    overrides = serializers.DictField(
        help_text="Operator decisions. They take precedence over the document and measurements."
    )

    class Meta(RequestRow.Meta):
        fields = (
            *RequestRow.Meta.fields, "input_datasets", "status_why", "queue_position", "hold_evidence",
            "hold_after_stop", "overrides", "last_error_at", "next_check_at", "owner", "source",
            "wms_backend", "requestor_dn", "cleanup_policy", "previous_version", "callback_url", "callbacks",
            "rounds", "alerts", "request_data",
        )  # fmt: skip
        read_only_fields = fields


class TimelineRow(serializers.ModelSerializer[TimelineEntry]):
    """A status change, or an action on the request or one of its DAGs."""

    kind = serializers.CharField(read_only=True, help_text="`status`, or the action, such as `change`.")
    from_status = serializers.CharField(read_only=True, help_text="Empty in the first row and in actions.")
    to_status = serializers.CharField(read_only=True, help_text="Empty in actions.")
    detail = serializers.DictField(read_only=True, help_text="What an action changed.")

    class Meta:
        model = TimelineEntry
        fields: tuple[str, ...] = (
            "kind", "from_status", "to_status", "reason", "actor", "call_id", "at", "detail",
        )  # fmt: skip
        read_only_fields = fields


class ActionBody(serializers.Serializer[Any]):
    """Result of an action."""

    request_name = serializers.CharField()
    status = serializers.CharField()
    previous_status = serializers.CharField()
    reason = serializers.CharField()
    stop_reason = serializers.CharField(required=False)
    message = serializers.CharField()
    version = serializers.IntegerField()
    preview = serializers.DictField(required=False, help_text="Effect of the action, for a dry run.")


class CurrentVersion(serializers.ModelSerializer[Request]):
    """The version in use."""

    class Meta:
        model = Request
        fields: tuple[str, ...] = ("request_name", "processing_version", "status", "cleanup_policy")
        read_only_fields = fields


class RestartBody(serializers.Serializer[Any]):
    """The ended version and its replacement."""

    previous = CurrentVersion()
    current = CurrentVersion()
    output_datasets = serializers.ListField(child=serializers.CharField())


class LimitsBody(serializers.ModelSerializer[AdmissionConfig]):
    """The limits in force."""

    class Meta:
        model = AdmissionConfig
        fields = (
            "max_active_dags", "paused", "pause_reason", "storage_critical_fraction", "storage_policy",
            "priority_weight", "ageing_weight", "retry_weight", "updated_by", "updated_at", "version",
        )  # fmt: skip
        read_only_fields = fields
