"""Nodes and logs of a DAG, read from DAGMan's files."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from condor.submitfile import Role as NodeRole
from condor.types import NodeState
from dags_app.dag_files import GROUP_NAME, NODE_NAME, Position, Wanted, log_paths, read_page, read_tail
from dags_app.models import DAG
from dags_app.selectors import dag_by_id
from dags_app.services.directories import check_directory
from wms2_project.access.roles import Role
from wms2_project.api.views import ApiView, Input, asked
from wms2_project.errors import NotFound

STATES = [(state.name.lower(), state.name.lower()) for state in NodeState]
_CURSOR = r"[0-9]{1,6}\.[0-9]{1,6}"


class NodesQuery(Input):
    """Filter and page of nodes."""

    from_json = False
    status = serializers.MultipleChoiceField(choices=STATES, required=False)
    role = serializers.MultipleChoiceField(
        choices=[(role.value, role.value) for role in NodeRole], required=False
    )
    group = serializers.RegexField(f"^{GROUP_NAME.pattern}$", required=False, help_text="Such as mg_000003.")
    cursor = serializers.RegexField(f"^{_CURSOR}$", default="0.0", help_text="`next` of the page before.")
    page_size = serializers.IntegerField(min_value=1, max_value=1000, default=100)


class NodeBody(serializers.Serializer[Any]):
    """A node in its DAGMan's last report."""

    group = serializers.CharField()
    node = serializers.CharField()
    role = serializers.CharField()
    status = serializers.CharField()
    site = serializers.CharField(help_text="Site where the group landed; empty before that.")
    as_of = serializers.IntegerField(help_text="Time of DAGMan's report (epoch); 0 if there is none yet.")


class NodesPage(serializers.Serializer[Any]):
    """A page of nodes; `next` is the cursor of the next page, null at the end."""

    next = serializers.CharField(allow_null=True)
    results = NodeBody(many=True)


class DAGNodesView(ApiView):
    """Nodes of a DAG, read from DAGMan's files; the database has none."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @extend_schema(operation_id="dags_nodes", parameters=[NodesQuery], responses=NodesPage)
    def get(self, request: HttpRequest, dag_id: UUID) -> Response:
        """Nodes by group, filtered by status, role and group."""
        query = asked(NodesQuery, request)
        dag = dag_by_id(dag_id)
        wanted = Wanted(frozenset(query.get("status", ())), frozenset(query.get("role", ())))
        group, _, skip = query["cursor"].partition(".")
        page = read_page(
            check_directory(dag),
            _groups(dag, query.get("group", "")),
            wanted,
            start=Position(int(group), int(skip)),
            size=query["page_size"],
        )
        further = f"{page.next.group}.{page.next.skip}" if page.next is not None else None
        return Response(NodesPage({"next": further, "results": map(asdict, page.nodes)}).data)


class LogsQuery(Input):
    """Which logs, and how many lines."""

    from_json = False
    group = serializers.RegexField(f"^{GROUP_NAME.pattern}$", default="", help_text="A group's DAGMan.")
    node = serializers.RegexField(f"^(?:{NODE_NAME.pattern})$", default="", help_text="A node of the group.")
    tail = serializers.IntegerField(min_value=0, max_value=500, default=20, help_text="Lines of each log.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Require the group of a node: node names are unique within a group only."""
        if attrs["node"] and not attrs["group"]:
            raise serializers.ValidationError({"group": "Give the group of the node."})
        return attrs


class LogLocations(serializers.Serializer[Any]):
    """Paths of the logs on the submit host, and their last lines."""

    dag_id = serializers.UUIDField()
    schedd_name = serializers.CharField()
    submit_dir = serializers.CharField()
    logs = serializers.DictField(child=serializers.CharField(), help_text="Paths by kind.")
    tails = serializers.DictField(
        child=serializers.CharField(allow_null=True), help_text="Null: no such file."
    )


class DAGLogsView(ApiView):
    """Paths of the logs and their last lines. Whole logs are too large to be sent."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @extend_schema(operation_id="dags_logs", parameters=[LogsQuery], responses=LogLocations)
    def get(self, request: HttpRequest, dag_id: UUID) -> Response:
        """Paths and last lines of DAGMan's logs, of a group's, or of a node's."""
        query = asked(LogsQuery, request)
        dag = dag_by_id(dag_id)
        paths = log_paths(check_directory(dag), group=query["group"], node=query["node"])
        tails = {kind: read_tail(path, lines=query["tail"]) for kind, path in paths.items() if query["tail"]}
        body = {
            "dag_id": dag.id,
            "schedd_name": dag.schedd_name,
            "submit_dir": dag.submit_dir,
            "logs": {kind: str(path) for kind, path in paths.items()},
            "tails": tails,
        }
        return Response(LogLocations(body).data)


def _groups(dag: DAG, only: str) -> list[str]:
    groups = [group.name for group in dag.round.groups.only("index").order_by("index")]
    if only and only not in groups:
        raise NotFound(f"DAG {dag.pk} has no group {only}")
    return [only] if only else groups
