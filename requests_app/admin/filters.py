"""Filters of the console lists, and the request list with progress."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from requests_app.models import Request
from requests_app.selectors.progress import progress_of_many
from requests_app.services.alerts import open_alerts
from requests_app.states import TERMINAL
from wms2_project.console import ChangeList


class OpenCampaign(admin.SimpleListFilter):
    """Filter by campaigns with open requests. Older campaigns are found by search."""

    title = "campaign"
    parameter_name = "campaign"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        unfinished = Request.objects.exclude(status__in=sorted(TERMINAL)).exclude(campaign="")
        names = set(unfinished.order_by().values_list("campaign", flat=True).distinct()[:200])
        chosen = self.value()
        return [(name, name) for name in sorted(names | ({chosen} if chosen else set()))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(campaign=self.value()) if self.value() else queryset


class OpenKind(admin.SimpleListFilter):
    """Filter by kinds of open alerts. Other kinds are found by search."""

    title = "kind"
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        chosen = self.value()
        kinds = sorted({*open_alerts()} | ({chosen} if chosen else set()))
        return [(kind, kind.replace("_", " ")) for kind in kinds]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(kind=self.value()) if self.value() else queryset


class RequestList(ChangeList):  # type: ignore[misc]
    """Request list that reads the progress of a page in a fixed number of queries."""

    result_list: Any

    def get_results(self, request: HttpRequest) -> None:
        """Read the page and attach the progress of its requests."""
        super().get_results(request)
        self.result_list = list(self.result_list)
        progress = progress_of_many(self.result_list)
        for row in self.result_list:
            row.progress = progress[row.pk]
