"""Which requests a list shows."""

from __future__ import annotations

from django_filters import rest_framework as filters

from requests_app.states import RequestStatus
from wms2_project.fields import choices

STATUSES = choices(RequestStatus)
_BOOLEAN = [("true", "true"), ("false", "false")]


class RequestFilter(filters.FilterSet):  # type: ignore[misc]
    """All given conditions hold; `status` may be given several times."""

    status = filters.MultipleChoiceFilter(choices=STATUSES)
    name = filters.CharFilter(
        field_name="request_name", lookup_expr="startswith", label="How the name begins."
    )
    campaign = filters.CharFilter()
    requestor = filters.CharFilter()
    submitted_by = filters.CharFilter()
    correlation_id = filters.CharFilter()
    input_dataset = filters.CharFilter(field_name="workflow__input_dataset")
    priority_min = filters.NumberFilter(field_name="priority", lookup_expr="gte", max_value=1_000_000)
    priority_max = filters.NumberFilter(field_name="priority", lookup_expr="lte", max_value=1_000_000)
    urgent = filters.TypedChoiceFilter(choices=_BOOLEAN, coerce=lambda given: given == "true")
    created_after = filters.IsoDateTimeFilter(field_name="created_at", lookup_expr="gte")
    created_before = filters.IsoDateTimeFilter(field_name="created_at", lookup_expr="lt")
