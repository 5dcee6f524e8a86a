"""Alerts for operators on shift."""

from __future__ import annotations

from typing import ClassVar

from django.db.models import Q, QuerySet
from django_filters import rest_framework as filters

from requests_app.api.serializers import AlertRow
from requests_app.models import Alert
from requests_app.services.alerts import unacknowledged
from requests_app.states import AlertState
from wms2_project.access.roles import Role
from wms2_project.api.views import AnyOfFilter, ListView
from wms2_project.fields import choices

STATES = choices(AlertState)
_MATCHING = {
    AlertState.OPEN: unacknowledged(),
    AlertState.ACKNOWLEDGED: Q(closed_at__isnull=True, acknowledged_at__isnull=False),
    AlertState.CLOSED: Q(closed_at__isnull=False),
}


class AlertFilter(filters.FilterSet):  # type: ignore[misc]
    """Filters of alerts. `state` may be repeated."""

    state = AnyOfFilter(choices=STATES, method="in_states")
    kind = filters.CharFilter()
    request_name = filters.CharFilter(field_name="request__request_name")
    site = filters.CharFilter(method="about_site", label="Only alerts about this site.")
    created_after = filters.IsoDateTimeFilter(field_name="created_at", lookup_expr="gte")
    created_before = filters.IsoDateTimeFilter(field_name="created_at", lookup_expr="lt")

    def in_states(self, rows: QuerySet[Alert], name: str, states: list[str]) -> QuerySet[Alert]:
        matching = Q()
        for state in states:
            matching |= _MATCHING[AlertState(state)]
        return rows.filter(matching)

    def about_site(self, rows: QuerySet[Alert], name: str, site: str) -> QuerySet[Alert]:
        return rows.filter(site=site, request__isnull=True)


class AlertListView(ListView):
    """Alerts, newest first."""

    operation_id = "alerts_list"
    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}
    queryset = Alert.objects.select_related("request")
    serializer_class = AlertRow
    filterset_class = AlertFilter
