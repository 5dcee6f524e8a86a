"""Filters of the request list."""

from __future__ import annotations

from django import forms
from django_filters import rest_framework as filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field

from requests_app.states import RequestStatus
from wms2_project.api.filters import AnyOfFilter
from wms2_project.fields import choices

STATUSES = choices(RequestStatus)
_BOOLEAN = [("true", "true"), ("false", "false")]


class WholeFilter(filters.NumberFilter):  # type: ignore[misc]
    """Filter by a whole number. The standard filter also accepts fractions."""

    field_class = forms.IntegerField


@extend_schema_field(OpenApiTypes.BOOL)
class FlagFilter(filters.TypedChoiceFilter):  # type: ignore[misc]
    """Filter by true or false. The standard filter ignores other values."""


class RequestFilter(filters.FilterSet):  # type: ignore[misc]
    """Filters of requests, combined by AND. `status` may be repeated."""

    status = AnyOfFilter(choices=STATUSES)
    name = filters.CharFilter(
        field_name="request_name", lookup_expr="startswith", label="Prefix of the name."
    )
    campaign = filters.CharFilter()
    requestor = filters.CharFilter()
    submitted_by = filters.CharFilter()
    correlation_id = filters.CharFilter()
    input_dataset = filters.CharFilter(field_name="workflow__input_dataset")
    priority_min = WholeFilter(field_name="priority", lookup_expr="gte", min_value=0, max_value=1_000_000)
    priority_max = WholeFilter(field_name="priority", lookup_expr="lte", min_value=0, max_value=1_000_000)
    urgent = FlagFilter(choices=_BOOLEAN, coerce=lambda given: given == "true")
    created_after = filters.IsoDateTimeFilter(field_name="created_at", lookup_expr="gte")
    created_before = filters.IsoDateTimeFilter(field_name="created_at", lookup_expr="lt")
