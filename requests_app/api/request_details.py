"""Parts of one request: timeline, versions, progress, explanation, failures and input ledger."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Annotated, ClassVar

from django.db.models import QuerySet
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request as HttpRequest

from dags_app.graph.selectors import MAX_GROUPS_READ, Graph, NodesOfGroups, graph_of, nodes_of
from dags_app.selectors import GeneratedLedger, InputLedger, ledger_of
from outputs_app.selectors import DatasetSummary, datasets_of
from requests_app.api.serializers import CurrentVersion, TimelineRow
from requests_app.models import Request, TimelineEntry
from requests_app.selectors.diagnosis import Diagnosis, diagnose
from requests_app.selectors.history import History, history_of
from requests_app.selectors.progress import ProgressDetail, detail_of
from requests_app.selectors.requests import request_by_name, timeline_of
from requests_app.selectors.why import Why, why
from wms2_project.access.roles import Role
from wms2_project.api.reads import reads
from wms2_project.api.views import Input, ListView


class TimelineView(ListView):
    """Status changes, edits and actions, oldest first."""

    operation_id = "requests_timeline"
    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}
    queryset = TimelineEntry.objects.none()
    serializer_class = TimelineRow
    orders: ClassVar[dict[str, tuple[str, ...]]] = {"at": ("at", "id")}
    order: ClassVar[str] = "at"

    def get_queryset(self) -> QuerySet[TimelineEntry]:
        if "name" not in self.kwargs:  # called by the schema generator
            return self.queryset
        return timeline_of(request_by_name(self.kwargs["name"], bare=True))


@dataclass(frozen=True, slots=True)
class EarlierVersion:
    """A version that was replaced."""

    request_name: str
    processing_version: int
    status: str
    superseded_by: str
    failure_reason: str


@dataclass(frozen=True, slots=True)
class Versions:
    """The history of a request across restarts, newest first."""

    current: Annotated[Request, CurrentVersion]
    versions: list[EarlierVersion]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestErrors(Diagnosis):
    """Failures of a request."""

    request_name: str
    status: str


@dataclass(frozen=True, slots=True)
class Outputs:
    """The output datasets of a request, by name."""

    request_name: str
    datasets: list[DatasetSummary]


@reads("requests/<request_name:name>/versions")
def requests_versions(request: HttpRequest, name: str) -> Versions:
    """Return the newest version and those it replaced, newest first."""
    rows = [request_by_name(name)]
    while newer := Request.objects.filter(previous_version=rows[0]).first():
        rows.insert(0, newer)
    while older := rows[-1].previous_version:
        rows.append(older)
    return Versions(rows[0], [_earlier(row, newer) for newer, row in pairwise(rows)])


@reads("requests/<request_name:name>/outputs")
def requests_outputs(request: HttpRequest, name: str) -> Outputs:
    """Return the output datasets with their blocks, files, events and sizes."""
    row = request_by_name(name)
    return Outputs(row.request_name, datasets_of(workflow=row.workflow))


def _earlier(row: Request, newer: Request) -> EarlierVersion:
    last = row.transitions.order_by("-id").first()
    return EarlierVersion(
        request_name=row.request_name,
        processing_version=row.processing_version,
        status=row.status,
        superseded_by=newer.request_name,
        failure_reason=last.reason if last else "",
    )


@reads("requests/<request_name:name>/progress")
def requests_progress(request: HttpRequest, name: str) -> ProgressDetail:
    """Return finished events, nodes, rounds and groups, the pace and the estimated end."""
    return detail_of(request_by_name(name, bare=True))


@reads("requests/<request_name:name>/history")
def requests_history(request: HttpRequest, name: str) -> History:
    """Return the progress over time, oldest first."""
    return history_of(request_by_name(name, bare=True))


@reads("requests/<request_name:name>/graph", conditional=True)
def requests_graph(request: HttpRequest, name: str) -> Graph:
    """Return rounds and merge groups with positions and state counts. The ETag is that of the body."""
    return graph_of(workflow=request_by_name(name).workflow)


class GraphNodesQuery(Input):
    """The groups to return."""

    from_json = False
    round = serializers.IntegerField(min_value=0, max_value=10**6)
    group = serializers.RegexField(
        r"^[0-9]{1,6}(,[0-9]{1,6})*$",
        help_text=f"Indexes of groups, separated by commas; at most {MAX_GROUPS_READ}.",
        error_messages={"invalid": "Give the indexes of groups, separated by commas."},
    )

    records = serializers.ChoiceField(
        choices=["failed", "all"],
        default="failed",
        help_text="Of which nodes to read cause, exit code, attempts and seconds.",
    )

    def validate_group(self, text: str) -> list[int]:
        """Return the indexes."""
        indexes = sorted({int(one) for one in text.split(",")})
        if len(indexes) > MAX_GROUPS_READ:
            raise serializers.ValidationError(f"Give at most {MAX_GROUPS_READ} groups.")
        return indexes


@reads("requests/<request_name:name>/graph/nodes", query=GraphNodesQuery, conditional=True)
def requests_graph_nodes(
    request: HttpRequest, name: str, round: int, group: list[int], records: str
) -> NodesOfGroups:
    """Return the nodes of some groups of a round with positions and states."""
    workflow = request_by_name(name).workflow
    return nodes_of(workflow=workflow, round_number=round, indexes=group, all_records=records == "all")


@reads("requests/<request_name:name>/why")
def requests_why(request: HttpRequest, name: str) -> Why:
    """Return every gate of the present status with verdict, evidence, start time and remedy."""
    return why(request_by_name(name), now=timezone.now())


@reads("requests/<request_name:name>/errors")
def requests_errors(request: HttpRequest, name: str) -> RequestErrors:
    """Return failures by category, site and exit code, and clusters with suggestions."""
    row = request_by_name(name)
    found = diagnose(row, now=timezone.now())
    members = {one.name: getattr(found, one.name) for one in fields(Diagnosis)}
    return RequestErrors(**members, request_name=row.request_name, status=row.status)


@reads("requests/<request_name:name>/ledger")
def requests_ledger(request: HttpRequest, name: str) -> InputLedger | GeneratedLedger:
    """Return the input by state with run and lumi ranges, or the generated event ranges by round."""
    return ledger_of(workflow=request_by_name(name).workflow)
