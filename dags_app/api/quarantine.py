"""Copies of files proved bad. The operation that lifts one is in `dags_app.operations`."""

from __future__ import annotations

from typing import ClassVar

from django.db.models import QuerySet
from django.utils import timezone
from django_filters import rest_framework as filters

from dags_app.api.serializers import QuarantineRow
from dags_app.models import QuarantinedReplica
from dags_app.services.quarantine import in_state
from dags_app.states import QuarantineState
from wms2_project.access.roles import Role
from wms2_project.api.views import AnyOfFilter, ListView
from wms2_project.fields import choices


class QuarantineFilter(filters.FilterSet):  # type: ignore[misc]
    """Filters of quarantined copies. `state` may be repeated."""

    state = AnyOfFilter(choices=choices(QuarantineState), method="in_states")
    site = filters.CharFilter()
    lfn = filters.CharFilter()
    request_name = filters.CharFilter(field_name="workflow__request_name")

    def in_states(
        self, rows: QuerySet[QuarantinedReplica], name: str, states: list[str]
    ) -> QuerySet[QuarantinedReplica]:
        return rows.filter(in_state(*map(QuarantineState, states), now=timezone.now()))


class QuarantineListView(ListView):
    """Copies of files proved bad, newest first."""

    operation_id = "quarantine_list"
    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}
    queryset = QuarantinedReplica.objects.select_related("workflow")
    serializer_class = QuarantineRow
    filterset_class = QuarantineFilter
