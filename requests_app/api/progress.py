"""GET /requests/{name}/progress: progress by events, rounds and groups, with pace and estimated end."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from requests_app.api.serializers import ProgressBody
from requests_app.selectors.progress import Detail, detail_of, node_counts
from requests_app.selectors.requests import request_by_name
from wms2_project.access.roles import Role
from wms2_project.api.views import ApiView


class NodesBody(serializers.Serializer[Any]):
    """DAG nodes of all rounds."""

    total = serializers.IntegerField()
    completed = serializers.IntegerField()
    running = serializers.IntegerField()
    pending = serializers.IntegerField()
    failed = serializers.IntegerField()
    skipped = serializers.IntegerField(help_text="Not run, because a parent failed or no input is left.")


class TaskBody(serializers.Serializer[Any]):
    """The running DAG."""

    node_id = serializers.CharField()
    task_id = serializers.CharField(help_text="The DAG's batch name in HTCondor.")
    progress_percent = serializers.FloatField()
    progress_message = serializers.CharField()


class RoundProgress(serializers.Serializer[Any]):
    """One round."""

    number = serializers.IntegerField()
    kind = serializers.CharField()
    status = serializers.CharField()
    fraction = serializers.FloatField()
    jobs = serializers.IntegerField()
    input_events = serializers.IntegerField()
    events_read = serializers.IntegerField()
    events_written = serializers.IntegerField()
    groups = serializers.IntegerField()
    planned = serializers.IntegerField(help_text="Unfinished groups.")
    done = serializers.IntegerField(help_text="Finished groups whose outputs are not collected yet.")
    collected = serializers.IntegerField()
    failed = serializers.IntegerField()
    created_at = serializers.CharField()
    resolved_at = serializers.CharField(allow_null=True)


class GroupProgress(serializers.Serializer[Any]):
    """One merge group of the newest round."""

    index = serializers.IntegerField()
    status = serializers.CharField()
    site = serializers.CharField(allow_blank=True)
    jobs = serializers.IntegerField()
    nodes_done = serializers.IntegerField(help_text="Nodes of its jobs, landing, merge and cleanup.")
    nodes_failed = serializers.IntegerField()
    input_events = serializers.IntegerField()
    events_read = serializers.IntegerField()
    events_written = serializers.IntegerField()
    finished_at = serializers.CharField(allow_null=True)


class PaceBody(serializers.Serializer[Any]):
    """Processing rate, number of groups it is based on, and interval of the estimated end."""

    events_per_sec = serializers.FloatField()
    groups_seen = serializers.IntegerField()
    estimated_completion = serializers.DateTimeField(allow_null=True)
    earliest = serializers.DateTimeField(allow_null=True)
    latest = serializers.DateTimeField(allow_null=True)


class ProgressDetail(ProgressBody):
    """The progress of one request."""

    request_name = serializers.CharField()
    status = serializers.CharField()
    overall_percent = serializers.FloatField()
    nodes = NodesBody()
    current_tasks = TaskBody(many=True)
    pace = PaceBody()
    rounds = RoundProgress(many=True)
    groups = GroupProgress(many=True)


class ProgressView(ApiView):
    """Progress of a request."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @extend_schema(operation_id="requests_progress", responses=ProgressDetail)
    def get(self, request: HttpRequest, name: str) -> Response:
        """Return finished events, nodes, rounds and groups, the pace and the estimated end."""
        row = request_by_name(name, bare=True)
        detail = detail_of(row)
        for one in detail.rounds:
            one["fraction"] = _fraction(one)
        body: Any = asdict(detail.progress) | {
            "request_name": row.request_name,
            "status": row.status,
            "overall_percent": round(100 * detail.progress.fraction, 1),
            "nodes": node_counts(detail),
            "current_tasks": _running(detail),
            "pace": detail.pace,
            "rounds": detail.rounds,
            "groups": detail.groups,
        }
        return Response(ProgressDetail(body).data)


def _fraction(one: dict[str, Any]) -> float:
    return round(min(one["events_read"] / one["input_events"], 1.0), 4) if one["input_events"] else 0.0


def _running(detail: Detail) -> list[dict[str, Any]]:
    if detail.dag is None or not detail.rounds:
        return []
    newest, dag = detail.rounds[-1], detail.dag
    message = (
        f"{newest['done'] + newest['collected']} of {newest['groups']} groups done,"
        f" {dag['nodes_running']} jobs running, {dag['nodes_idle']} idle, {dag['nodes_held']} held"
    )
    return [
        {
            "node_id": f"round {newest['number']}",
            "task_id": dag["token"],
            "progress_percent": round(100 * newest["fraction"], 1),
            "progress_message": message,
        }
    ]
