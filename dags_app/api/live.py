"""Nodes and logs of a DAG, read from DAGMan's files."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

from rest_framework import serializers
from rest_framework.request import Request as HttpRequest

from condor.submitfile import Role as NodeRole
from condor.types import NodeState
from dags_app.dag_files import (
    GROUP_NAME,
    NODE_NAME,
    LiveNode,
    Position,
    Wanted,
    log_paths,
    read_page,
    read_tail,
)
from dags_app.models import DAG
from dags_app.node_files import NodeDetail, read_node
from dags_app.selectors import dag_by_id
from dags_app.services.directories import check_directory
from wms2_project.api.reads import reads
from wms2_project.api.views import Input
from wms2_project.errors import NotFound

STATES = [(state.name.lower(), state.name.lower()) for state in NodeState]
_CURSOR = r"[0-9]{1,6}\.[0-9]{1,6}"


class NodesQuery(Input):
    """Filters and page of nodes."""

    from_json = False
    status = serializers.MultipleChoiceField(choices=STATES, required=False)
    role = serializers.MultipleChoiceField(
        choices=[(role.value, role.value) for role in NodeRole], required=False
    )
    group = serializers.RegexField(f"^{GROUP_NAME.pattern}$", required=False, help_text="Such as mg_000003.")
    cursor = serializers.RegexField(f"^{_CURSOR}$", default="0.0", help_text="`next` of the page before.")
    page_size = serializers.IntegerField(min_value=1, max_value=1000, default=100)


@dataclass(frozen=True, slots=True)
class NodesPage:
    """Some nodes; `next` is the cursor of the next page, null at the end."""

    next: str | None
    results: list[LiveNode]


@reads("dags/<uuid:dag_id>/nodes", query=NodesQuery)
def dags_nodes(
    request: HttpRequest,
    dag_id: UUID,
    cursor: str,
    page_size: int,
    status: Collection[str] = (),
    role: Collection[str] = (),
    group: str = "",
) -> NodesPage:
    """Return nodes by group, filtered by status, role and group."""
    dag = dag_by_id(dag_id)
    first, _, skip = cursor.partition(".")
    page = read_page(
        check_directory(dag),
        _groups(dag, group),
        Wanted(frozenset(status), frozenset(role)),
        start=Position(int(first), int(skip)),
        size=page_size,
    )
    further = f"{page.next.group}.{page.next.skip}" if page.next is not None else None
    return NodesPage(further, page.nodes)


@reads("dags/<uuid:dag_id>/nodes/<group_name:group>/<node_name:node>")
def dags_node(request: HttpRequest, dag_id: UUID, group: str, node: str) -> NodeDetail:
    """Return one node with its attempts, resources and HTCondor ids."""
    dag = dag_by_id(dag_id)
    (known,) = _groups(dag, group)
    return read_node(check_directory(dag), group=known, node=node)


class LogsQuery(Input):
    """The logs to read and the number of lines."""

    from_json = False
    group = serializers.RegexField(f"^{GROUP_NAME.pattern}$", default="", help_text="A group's DAGMan.")
    node = serializers.RegexField(f"^(?:{NODE_NAME.pattern})$", default="", help_text="A node of the group.")
    tail = serializers.IntegerField(min_value=0, max_value=500, default=20, help_text="Lines of each log.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Require a group for a node: node names are unique in their group only."""
        if attrs["node"] and not attrs["group"]:
            raise serializers.ValidationError({"group": "Give the group of the node."})
        return attrs


@dataclass(frozen=True, slots=True)
class LogLocations:
    """Paths of logs on the submit host, and their last lines."""

    dag_id: UUID
    schedd_name: str
    submit_dir: str
    logs: Annotated[dict[str, str], "Paths by kind."]
    tails: Annotated[dict[str, str | None], "Null: no such file."]


@reads("dags/<uuid:dag_id>/logs", query=LogsQuery)
def dags_logs(request: HttpRequest, dag_id: UUID, group: str, node: str, tail: int) -> LogLocations:
    """Return paths and last lines of the logs of DAGMan, of a group, or of a node."""
    dag = dag_by_id(dag_id)
    paths = log_paths(check_directory(dag), group=group, node=node)
    tails = {kind: read_tail(path, lines=tail) for kind, path in paths.items() if tail}
    return LogLocations(
        dag_id=dag.id,
        schedd_name=dag.schedd_name,
        submit_dir=dag.submit_dir,
        logs={kind: str(path) for kind, path in paths.items()},
        tails=tails,
    )


def _groups(dag: DAG, only: str) -> list[str]:
    groups = [group.name for group in dag.round.groups.only("index").order_by("index")]
    if only and only not in groups:
        raise NotFound(f"DAG {dag.pk} has no group {only}")
    return [only] if only else groups
