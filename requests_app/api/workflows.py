"""Workflows: the execution of requests. The status of a workflow is derived from its request."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request as HttpRequest

from dags_app.api.serializers import DAGRow, RoundBody
from dags_app.models import DAG, Workflow
from dags_app.planning.estimates import estimate_from_pilot
from dags_app.selectors import forecast_of, rounds_of
from dags_app.services.production import newest_dag
from outputs_app.selectors import DatasetSummary, datasets_of
from requests_app.api.requests import InputFilter
from requests_app.models import Request
from requests_app.selectors.progress import progress_of
from requests_app.selectors.requests import workflow_status
from requests_app.states import RequestStatus
from wms2_project.access.roles import Role
from wms2_project.api.reads import reads
from wms2_project.api.views import AnyOfFilter, ListView
from wms2_project.errors import NotFound

_STATUSES = [(one, one) for one in dict.fromkeys(workflow_status(status) for status in RequestStatus)]
_SHOWN = (
    "input_dataset", "further_input_datasets", "secondary_input_datasets", "output_datasets",
    "log_dataset", "splitting_algo", "splitting_params", "adaptive", "allocation", "memory_mb", "cores",
    "time_per_event_sec", "size_per_event_kb",
    "site_whitelist", "site_blacklist", "total_events", "produced_events", "filter_efficiency",
    "cmssw_version", "scram_arch", "global_tag", "acquisition_era", "processing_string",
    "processing_version", "prep_id", "target_merged_size_kb", "jobs_per_group", "category_throttles",
    "input_resolved_at",
)  # fmt: skip


class WorkflowFields(serializers.ModelSerializer[Workflow]):
    """Parameters of a workflow."""

    class Meta:
        model = Workflow
        fields = _SHOWN
        read_only_fields = fields


class WorkflowRow(serializers.ModelSerializer[Request]):
    """One workflow in a list."""

    id = serializers.UUIDField(source="workflow_id", read_only=True)
    status = serializers.SerializerMethodField()
    input_dataset = serializers.CharField(source="workflow.input_dataset", allow_null=True, read_only=True)
    output_datasets = serializers.ListField(
        child=serializers.CharField(), source="workflow.output_datasets", read_only=True
    )
    splitting_algo = serializers.CharField(source="workflow.splitting_algo", read_only=True)

    class Meta:
        model = Request
        fields: tuple[str, ...] = (
            "id", "request_name", "status", "input_dataset", "output_datasets", "splitting_algo",
            "created_at",
        )  # fmt: skip
        read_only_fields = fields

    def get_status(self, request: Request) -> str:
        return workflow_status(request.status)


class WorkflowDetail(WorkflowRow):
    """One workflow with its parameters and rounds."""

    parameters = WorkflowFields(source="workflow", read_only=True)
    pilot_metrics = serializers.DictField(source="workflow.pilot_metrics", allow_null=True, read_only=True)
    payload_config = serializers.DictField(source="workflow.payload_config", read_only=True)
    rounds = serializers.SerializerMethodField()

    class Meta(WorkflowRow.Meta):
        fields = (
            *WorkflowRow.Meta.fields, "parameters", "pilot_metrics", "payload_config", "rounds",
        )  # fmt: skip
        read_only_fields = fields

    @extend_schema_field(RoundBody(many=True))
    def get_rounds(self, request: Request) -> Any:
        """The newest rounds, newest first."""
        return rounds_of(workflow=request.workflow)


@dataclass(frozen=True, slots=True)
class PilotMetrics:
    """Measurements of the pilot."""

    time_per_event_sec: float
    memory_peak_mb: int
    output_size_per_event_kb: float
    recommended_events_per_job: int


@dataclass(frozen=True, slots=True)
class WorkflowStatus:
    """State of a workflow: measurements, DAG and outputs."""

    workflow_id: UUID
    request_name: str
    status: str
    pilot_metrics: PilotMetrics | None
    dag: Annotated[DAG | None, DAGRow]
    outputs: list[DatasetSummary]
    forecast: Annotated[dict[str, Any], "Estimated and measured values per event, and their ratio."]
    progress_percent: float
    estimated_completion: datetime | None


class WorkflowFilter(filters.FilterSet):  # type: ignore[misc]
    """Filters of workflows."""

    status = AnyOfFilter(choices=_STATUSES, method="by_status")
    request_name = filters.CharFilter()
    input_dataset = InputFilter()

    def by_status(self, rows: QuerySet[Request], name: str, given: list[str]) -> QuerySet[Request]:
        """Filter by derived workflow status."""
        return rows.filter(status__in=[one for one in RequestStatus if workflow_status(one) in given])


class WorkflowListView(ListView):
    """Workflows, newest first."""

    operation_id = "workflows_list"
    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}
    queryset = Request.objects.select_related("workflow").defer("request_data", "workflow__payload_config")
    serializer_class = WorkflowRow
    filterset_class = WorkflowFilter
    orders: ClassVar[dict[str, tuple[str, ...]]] = ListView.orders | {"request_name": ("request_name",)}


@reads("workflows/<uuid:workflow_id>")
def workflows_get(request: HttpRequest, workflow_id: UUID) -> Annotated[Request, WorkflowDetail]:
    """Return one workflow with its parameters and rounds."""
    return _request_of(workflow_id)


@reads("workflows/<uuid:workflow_id>/status")
def workflows_status(request: HttpRequest, workflow_id: UUID) -> WorkflowStatus:
    """Return measurements, the latest DAG, outputs and progress."""
    row = _request_of(workflow_id)
    progress = progress_of(row)
    return WorkflowStatus(
        workflow_id=row.workflow_id,
        request_name=row.request_name,
        status=workflow_status(row.status),
        pilot_metrics=_measured(row.workflow),
        dag=newest_dag(workflow=row.workflow),
        outputs=datasets_of(workflow=row.workflow),
        forecast=forecast_of(workflow=row.workflow),
        progress_percent=round(100 * progress.fraction, 1),
        estimated_completion=progress.estimated_completion,
    )


def _measured(workflow: Workflow) -> PilotMetrics | None:
    """Return the main numbers of the pilot report."""
    report = workflow.pilot_metrics
    if not report:
        return None
    estimate = estimate_from_pilot(report, minimum_memory_mb=0)
    return PilotMetrics(
        time_per_event_sec=estimate.time_per_event_sec,
        memory_peak_mb=max((part.get("memory_mb", 0) for part in report["iterations"]), default=0),
        output_size_per_event_kb=estimate.size_per_event_kb,
        recommended_events_per_job=report["recommended"].get("events_per_job", 0),
    )


def _request_of(workflow_id: UUID) -> Request:
    row = Request.objects.select_related("workflow").filter(workflow_id=workflow_id).first()
    if row is None:
        raise NotFound(f"There is no workflow {workflow_id}")
    return row
