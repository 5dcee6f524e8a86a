"""Steering a DAG: hold, release, remove. Each reaches every DAGMan of it and says what it did."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from dags_app.api.views import dag_by_id
from dags_app.services.control import DagAction, act_on_dag
from wms2_project.api.roles import Role, actor_of
from wms2_project.api.views import ApiView, ReasonInput, parsed


class DAGActionBody(serializers.Serializer[Any]):
    """What was reached, and how the DAG stands in the queue afterwards."""

    action = serializers.CharField()
    schedd = serializers.CharField()
    dagmans = serializers.IntegerField(help_text="Outer and inner DAGMans it was applied to.")
    outer = serializers.CharField(help_text="The outer DAGMan's state; `gone` if it has left the queue.")
    groups_running = serializers.IntegerField()
    groups_held = serializers.IntegerField()
    message = serializers.CharField()


class _ActionView(ApiView):
    roles: ClassVar[dict[str, Role]] = {"POST": Role.OPERATOR}
    problems: ClassVar[dict[str, tuple[int, ...]]] = {"POST": (409, 502, 503)}
    action: ClassVar[DagAction]

    def post(self, request: HttpRequest, dag_id: UUID) -> Response:
        """Do it to every DAGMan of the DAG."""
        reason = parsed(ReasonInput, request.data)["reason"]
        acted = act_on_dag(dag=dag_by_id(dag_id), action=self.action, actor=actor_of(request), reason=reason)
        return Response(DAGActionBody(acted).data)


def _told(operation_id: str, description: str) -> Any:
    told = extend_schema(
        operation_id=operation_id,
        description=description,
        request=ReasonInput,
        responses={200: DAGActionBody},
    )
    return extend_schema_view(post=told)


@_told("dags_hold", "Hold the outer and every inner DAGMan; jobs that run go on, no new ones are submitted.")
class DAGHoldView(_ActionView):
    """Pause a DAG."""

    action = DagAction.HOLD


@_told("dags_release", "Release every DAGMan that is held.")
class DAGReleaseView(_ActionView):
    """Let a paused DAG go on."""

    action = DagAction.RELEASE


@_told("dags_remove", "Remove the DAG with its jobs; what is done is kept in the rescue files.")
class DAGRemoveView(_ActionView):
    """Take a DAG out of the queue; its request is then held."""

    action = DagAction.REMOVE
