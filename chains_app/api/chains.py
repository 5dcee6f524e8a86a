"""Chains, announcements and the lineage of datasets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.utils import timezone
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from chains_app.api.serializers import AnnouncementRow, ChainDetail, ChainEventRow, ChainRow
from chains_app.models import Announcement, Chain, ChainEvent
from chains_app.operations import ANNOUNCEMENT_OPERATIONS
from chains_app.selectors.chains import (
    ChainGraph,
    ChainProgress,
    ChainWhy,
    chain_by_number,
    chain_graph,
    chain_progress,
    chain_why,
)
from chains_app.selectors.lineage import Lineage, lineage_of
from chains_app.services.cleaning import Removal, removal_plan
from chains_app.services.replaying import announcement_by_id
from chains_app.states import AnnouncementStatus, ChainStatus
from wms2_project.access.roles import Role
from wms2_project.api.reads import reads
from wms2_project.api.views import AnyOfFilter, ApiView, Input, ListView, versioned
from wms2_project.fields import choices
from wms2_project.operations import Operation
from wms2_project.operations.rest import OperationView

STATUSES = choices(ChainStatus)
ANNOUNCEMENT_STATUSES = choices(AnnouncementStatus)


class ChainFilter(filters.FilterSet):  # type: ignore[misc]
    """Filters of chains. `status` may be repeated."""

    status = AnyOfFilter(choices=STATUSES)
    template = filters.CharFilter(field_name="template__name")
    dataset_name = filters.CharFilter(field_name="announcement__dataset_name")
    correlation_id = filters.CharFilter(field_name="announcement__correlation_id")


class ChainListView(ListView):
    """Chains, newest first."""

    operation_id = "chains_list"
    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}
    queryset = Chain.objects.select_related("template", "announcement")
    serializer_class = ChainRow
    filterset_class = ChainFilter


class ChainView(ApiView):
    """One chain."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @extend_schema(operation_id="chains_get", responses=ChainDetail)
    def get(self, request: HttpRequest, number: int) -> Response:
        """Return the chain with its steps and datasets."""
        chain = chain_by_number(number)
        return versioned(ChainDetail(chain).data, version=chain.version)


class ChainEventView(ListView):
    """Events of a chain, oldest first."""

    operation_id = "chains_events"
    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}
    queryset = ChainEvent.objects.none()
    serializer_class = ChainEventRow
    orders: ClassVar[dict[str, tuple[str, ...]]] = {"at": ("at", "id")}
    order: ClassVar[str] = "at"

    def get_queryset(self) -> QuerySet[ChainEvent]:
        if "number" not in self.kwargs:  # called by the schema generator
            return self.queryset
        return ChainEvent.objects.filter(chain=chain_by_number(self.kwargs["number"])).select_related("step")


@reads("chains/<int:number>/graph")
def chains_graph(request: HttpRequest, number: int) -> ChainGraph:
    """Return the steps of the chain and the datasets between them."""
    return chain_graph(chain_by_number(number))


@reads("chains/<int:number>/progress")
def chains_progress(request: HttpRequest, number: int) -> ChainProgress:
    """Return how many steps and finals are done."""
    return chain_progress(chain_by_number(number))


@reads("chains/<int:number>/why")
def chains_why(request: HttpRequest, number: int) -> ChainWhy:
    """Return what every unfinished step waits for, since when, and the remedy."""
    return chain_why(chain_by_number(number), now=timezone.now())


@dataclass(frozen=True, slots=True)
class Cleanup:
    """Cleanup plan of a chain: one entry per dataset."""

    chain: int
    strategy: str
    datasets: list[Removal]


@reads("chains/<int:number>/cleanup")
def chains_cleanup(request: HttpRequest, number: int) -> Cleanup:
    """Return which datasets the cleanup has removed or will remove, when, and what it waits for."""
    chain = chain_by_number(number)
    return Cleanup(chain.pk, chain.template.cleanup, removal_plan(chain))


class LineageInput(Input):
    """Name of a dataset."""

    from_json = False
    name = serializers.CharField(max_length=500)


@reads("datasets/lineage", query=LineageInput)
def datasets_lineage(request: HttpRequest, **query: Any) -> Lineage:
    """Return the ancestors and the descendants of a dataset."""
    return lineage_of(query["name"])


class AnnouncementFilter(filters.FilterSet):  # type: ignore[misc]
    """Filters of announcements. `status` may be repeated."""

    status = AnyOfFilter(choices=ANNOUNCEMENT_STATUSES)
    dataset_name = filters.CharFilter()
    uid = filters.CharFilter()


class AnnouncementListView(ListView):
    """Announced datasets, newest first. Dead letters have `status=dead_letter`."""

    operation_id = "announcements_list"
    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}
    queryset = Announcement.objects.prefetch_related("chains")
    serializer_class = AnnouncementRow
    filterset_class = AnnouncementFilter
    orders: ClassVar[dict[str, tuple[str, ...]]] = {"received_at": ("received_at", "id")}
    order: ClassVar[str] = "-received_at"


class AnnouncementView(ApiView):
    """One announcement."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @extend_schema(operation_id="announcements_get", responses=AnnouncementRow)
    def get(self, request: HttpRequest, announcement_id: int) -> Response:
        """Return the announcement and the chains it started."""
        return Response(AnnouncementRow(announcement_by_id(announcement_id)).data)


class DatasetView(OperationView):
    """Announcement of datasets."""

    operations: ClassVar[dict[str, Operation]] = {
        one.method: one for one in ANNOUNCEMENT_OPERATIONS if one.path == ""
    }
