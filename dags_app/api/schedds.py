"""Schedds: which take DAGs, which answer, and the switches an operator has."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from dags_app.models import DAG, Schedd
from dags_app.services.schedds import drain_schedd, enable_schedd, fence_schedd, known_schedds
from dags_app.states import LIVE_DAG
from wms2_project.api.roles import Role, actor_of
from wms2_project.api.views import ApiView, ReasonInput, parsed, versioned


class ScheddRow(serializers.ModelSerializer[Schedd]):
    """One schedd."""

    live_dags = serializers.SerializerMethodField(help_text="DAGs in its queue or on their way there.")

    class Meta:
        model = Schedd
        fields: tuple[str, ...] = (
            "name", "status", "reason", "drain_deadline", "answered_at", "silent_since", "live_dags",
            "dagmans_allowed", "dagmans_running", "counted_at", "version",
        )  # fmt: skip
        read_only_fields = fields

    def get_live_dags(self, row: Schedd) -> int:
        """DAGs in its queue or on their way there."""
        return DAG.objects.filter(schedd_name=row.name, status__in=sorted(LIVE_DAG)).count()


class ScheddList(serializers.Serializer[Any]):
    """All schedds."""

    results = ScheddRow(many=True)


class ScheddDrainInput(ReasonInput):
    """Stop sending DAGs to a schedd."""

    deadline_minutes = serializers.FloatField(
        required=False, allow_null=True, default=None, min_value=0, max_value=100_000,
        help_text="When what still runs there is stopped cleanly and moves on; absent: it runs to its end.",
    )  # fmt: skip


class ScheddListView(ApiView):
    """All schedds: a handful, so there are no pages."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}
    problems: ClassVar[dict[str, tuple[int, ...]]] = {"GET": (503,)}

    @extend_schema(operation_id="schedds_list", responses=ScheddList)
    def get(self, request: HttpRequest) -> Response:
        """Schedds, by name."""
        return Response(ScheddList({"results": known_schedds()}).data)


class ScheddDrainView(ApiView):
    """No new DAGs go to a draining schedd."""

    roles: ClassVar[dict[str, Role]] = {"POST": Role.OPERATOR}
    problems: ClassVar[dict[str, tuple[int, ...]]] = {"POST": (409, 503)}

    @extend_schema(operation_id="schedds_drain", request=ScheddDrainInput, responses={200: ScheddRow})
    def post(self, request: HttpRequest, name: str) -> Response:
        """Start draining."""
        body = parsed(ScheddDrainInput, request.data)
        minutes = body["deadline_minutes"]
        deadline = timezone.now() + timedelta(minutes=minutes) if minutes is not None else None
        row = drain_schedd(name=name, actor=actor_of(request), reason=body["reason"], deadline=deadline)
        return _told(row)


class ScheddFenceView(ApiView):
    """A schedd that is lost: the caller vouches that none of its jobs runs any more, nor will again."""

    roles: ClassVar[dict[str, Role]] = {"POST": Role.OPERATOR}
    problems: ClassVar[dict[str, tuple[int, ...]]] = {"POST": (409, 503)}

    @extend_schema(operation_id="schedds_fence", request=ReasonInput, responses={200: ScheddRow})
    def post(self, request: HttpRequest, name: str) -> Response:
        """Give the schedd up: its DAGs end as stopped and resume elsewhere. Refused while it answers."""
        reason = parsed(ReasonInput, request.data)["reason"]
        return _told(fence_schedd(name=name, actor=actor_of(request), reason=reason))


class ScheddEnableView(ApiView):
    """New DAGs may go to the schedd again; a fenced one must answer, and loses what came back with it."""

    roles: ClassVar[dict[str, Role]] = {"POST": Role.OPERATOR}
    problems: ClassVar[dict[str, tuple[int, ...]]] = {"POST": (409, 503)}

    @extend_schema(operation_id="schedds_enable", request=ReasonInput, responses={200: ScheddRow})
    def post(self, request: HttpRequest, name: str) -> Response:
        """Enable the schedd."""
        reason = parsed(ReasonInput, request.data)["reason"]
        return _told(enable_schedd(name=name, actor=actor_of(request), reason=reason))


def _told(row: Schedd) -> Response:
    data: Any = ScheddRow(row).data
    return versioned(data, version=row.version)
