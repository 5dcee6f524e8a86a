"""Templates: versions, documents, checks and statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from django.utils import timezone
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from chains_app import masks
from chains_app.api.inputs import CheckInput
from chains_app.api.serializers import TemplateDetail, TemplateRow
from chains_app.cwl.types import Problem
from chains_app.models import Template
from chains_app.operations import TEMPLATE_OPERATIONS
from chains_app.selectors.metrics import StepMetrics, template_metrics
from chains_app.selectors.templates import template_version
from chains_app.services.templates import check_template
from chains_app.states import TemplateStatus
from wms2_project.access.roles import Role
from wms2_project.api.bodies import body_of, render
from wms2_project.api.reads import reads
from wms2_project.api.views import AnyOfFilter, ApiView, Input, ListView, parsed
from wms2_project.errors import InvalidInput
from wms2_project.fields import choices
from wms2_project.operations import Operation
from wms2_project.operations.rest import OperationView

LOAD = TEMPLATE_OPERATIONS[0]
STATUSES = choices(TemplateStatus)


class TemplateFilter(filters.FilterSet):  # type: ignore[misc]
    """Filters of templates. `status` may be repeated."""

    status = AnyOfFilter(choices=STATUSES)
    name = filters.CharFilter()


class TemplateListView(OperationView, ListView):
    """All versions of all templates, newest first."""

    operation_id = "templates_list"
    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}
    operations: ClassVar[dict[str, Operation]] = {"POST": LOAD}
    queryset = Template.objects.all()
    serializer_class = TemplateRow
    filterset_class = TemplateFilter


class TemplateView(OperationView):
    """One version of a template."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}
    operations: ClassVar[dict[str, Operation]] = {
        one.method: one for one in TEMPLATE_OPERATIONS if one.path == "" and one is not LOAD
    }

    @extend_schema(operation_id="templates_get", responses=TemplateDetail)
    def get(self, request: HttpRequest, template: str, number: int) -> Response:
        """Return the version with its document and its steps in normal form."""
        return Response(TemplateDetail(template_version(template, number)).data)


@dataclass(frozen=True, slots=True)
class Example:
    """A dataset name, and whether the mask matches it."""

    name: str
    matches: bool


@dataclass(frozen=True, slots=True)
class Checked:
    """Problems of a document and of a mask, and the examples tried on the mask."""

    problems: list[Problem]
    mask_problem: str
    matches_everything: bool
    examples: list[Example]
    steps: list[str]


class TemplateCheckView(ApiView):
    """Check of a document and a mask."""

    roles: ClassVar[dict[str, Role]] = {"POST": Role.OPERATOR}

    @extend_schema(operation_id="templates_check", request=CheckInput, responses=body_of(Checked))
    def post(self, request: HttpRequest) -> Response:
        """Check a document and try a mask on examples. Nothing is stored."""
        body = parsed(CheckInput, request.data)
        return Response(render(check(**body)))


def check(*, document: str, mask: str, examples: list[str]) -> Checked:
    """Return every problem of a document and a mask. Empty ones are not checked."""
    reading = check_template(document) if document.strip() else None
    problem, tried = "", {}
    try:
        tried = masks.try_examples(mask, examples) if mask else {}
    except InvalidInput as error:
        problem = error.fields["mask"]
    sound = bool(mask) and not problem
    return Checked(
        problems=reading.problems if reading else [],
        mask_problem=problem,
        matches_everything=sound and masks.matches_everything(mask),
        examples=[Example(name, found) for name, found in tried.items()],
        steps=[one.id for one in reading.workflow.steps] if reading and reading.workflow else [],
    )


class DaysInput(Input):
    """Time window."""

    from_json = False
    days = serializers.IntegerField(min_value=1, max_value=365, default=30)


@dataclass(frozen=True, slots=True)
class TemplateMetrics:
    """Statistics of templates per step."""

    days: int
    steps: list[StepMetrics]


@reads("metrics/templates", query=DaysInput)
def metrics_templates(request: HttpRequest, **query: Any) -> TemplateMetrics:
    """Return success, durations and retries per step of the chains created in the last days."""
    return TemplateMetrics(query["days"], template_metrics(now=timezone.now(), days=query["days"]))
