"""Runners of a workflow, for users. The calls of runners are in `requests_app.api.jobs`."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpRequest as DjangoRequest
from django.http.response import HttpResponseBase
from django_filters import rest_framework as filters
from rest_framework import serializers

from dags_app.models import InputFile, Runner, RunnerEvent
from dags_app.states import RunnerEventKind, RunnerOutcome, RunnerState
from requests_app.api.jobs import StartView
from wms2_project.access.roles import Role
from wms2_project.api.views import AnyOfFilter, ListView, WholeFilter
from wms2_project.fields import choices

EVENT_KINDS = choices(RunnerEventKind)


class RunnerRow(serializers.ModelSerializer[Runner]):
    """A runner: where it is, what it holds and how it ended."""

    round_number = serializers.IntegerField(source="round.number", read_only=True)

    class Meta:
        model = Runner
        fields = (
            "id", "round_number", "node", "attempt", "htcondor_id", "site", "slot", "state", "outcome",
            "files_lent", "files_processed", "exit_code", "message", "started_at", "heartbeat_at", "ended_at",
        )  # fmt: skip
        read_only_fields = fields


class RunnerFilter(filters.FilterSet):  # type: ignore[misc]
    """Filters of runners. `state` and `outcome` may be repeated."""

    state = AnyOfFilter(choices=choices(RunnerState))
    outcome = AnyOfFilter(choices=choices(RunnerOutcome))
    site = filters.CharFilter()
    round_number = WholeFilter(field_name="round__number", most=10**6)


class RunnerEventRow(serializers.ModelSerializer[RunnerEvent]):
    """An event of a runner and the files lent to it."""

    runner_id = serializers.UUIDField(read_only=True)
    files = serializers.SerializerMethodField(help_text="Names of the files concerned.")

    class Meta:
        model = RunnerEvent
        fields = ("id", "runner_id", "kind", "files", "message", "at")
        read_only_fields = fields

    def get_files(self, event: RunnerEvent) -> list[str]:
        found = InputFile.objects.filter(pk__in=event.file_ids).order_by("pk")
        return list(found.values_list("lfn", flat=True))


class RunnerEventFilter(filters.FilterSet):  # type: ignore[misc]
    """Filters of events. `kind` may be repeated."""

    kind = AnyOfFilter(choices=EVENT_KINDS)
    runner = filters.UUIDFilter(field_name="runner_id")
    lfn = filters.CharFilter(method="of_file")

    def of_file(self, rows: QuerySet[RunnerEvent], name: str, lfn: str) -> QuerySet[RunnerEvent]:
        """Filter by a file that the events concern."""
        keys = list(InputFile.objects.filter(lfn=lfn).values_list("pk", flat=True))
        return rows.filter(file_ids__overlap=keys)


class RunnerEventListView(ListView):
    """Events of runners and their files, newest first."""

    operation_id = "workflows_runner_events"
    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}
    queryset = RunnerEvent.objects.all()
    serializer_class = RunnerEventRow
    filterset_class = RunnerEventFilter
    orders: ClassVar[dict[str, tuple[str, ...]]] = {"id": ("id",)}
    order = "-id"

    def get_queryset(self) -> QuerySet[RunnerEvent]:
        """Return the events of the workflow in the path."""
        return super().get_queryset().filter(workflow_id=self.kwargs.get("workflow_id"))


class RunnerListView(ListView):
    """Runners of a pull workflow, newest first. Those of older rounds are folded into counts."""

    operation_id = "workflows_runners"
    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}
    queryset = Runner.objects.select_related("round")
    serializer_class = RunnerRow
    filterset_class = RunnerFilter
    orders: ClassVar[dict[str, tuple[str, ...]]] = {"started_at": ("started_at", "id")}
    order = "-started_at"

    def dispatch(self, request: DjangoRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Pass a POST to the endpoint of jobs, which has the same path and other tokens."""
        if request.method == "POST":
            return StartView.as_view()(request, *args, **kwargs)
        return super().dispatch(request, *args, **kwargs)

    def get_queryset(self) -> QuerySet[Runner]:
        """Return the runners of the workflow in the path."""
        return super().get_queryset().filter(workflow_id=self.kwargs.get("workflow_id"))
