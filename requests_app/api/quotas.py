"""Quotas of requestors and groups: limits, usage and changes."""

from __future__ import annotations

from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from requests_app.services.quotas import LIMITS, QuotaState, change_quota, states_of
from requests_app.states import QuotaScope
from wms2_project.access.roles import Role, actor_of
from wms2_project.api.bodies import body_of, render
from wms2_project.api.docs import IF_MATCH
from wms2_project.api.views import ApiView, ReasonInput, expected_version, parsed, versioned

Fields = dict[str, serializers.Field[Any, Any, Any, Any]]


class QuotaInput(ReasonInput):
    """Limits to change. Absent limits are unchanged; null resets a limit to the default."""

    def get_fields(self) -> Fields:
        limits = {
            name: serializers.IntegerField(
                min_value=0, max_value=limit.most, required=False, allow_null=True, help_text=limit.help
            )
            for name, limit in LIMITS.items()
        }
        return {**super().get_fields(), **limits}


class QuotaView(ApiView):
    """The quota of one requestor or group."""

    roles: ClassVar[dict[str, Role]] = {"PATCH": Role.OPERATOR}
    problems: ClassVar[dict[str, tuple[int, ...]]] = {"PATCH": (409, 412)}

    @extend_schema(
        operation_id="quotas_change",
        request=QuotaInput,
        responses={200: body_of(QuotaState)},
        parameters=[IF_MATCH],
    )
    def patch(self, request: HttpRequest, scope: str, name: str) -> Response:
        """Change the limits of a requestor or group, or the default (`*`), with immediate effect."""
        changes = parsed(QuotaInput, request.data)
        reason = changes.pop("reason")
        share = (QuotaScope(scope), name)
        row = change_quota(
            scope=scope,
            name=name,
            changes=changes,
            actor=actor_of(request),
            reason=reason,
            expected_version=_expected(request, *share),
        )
        (state,) = states_of([share], now=timezone.now())
        return versioned(render(state), version=row.version)


def _expected(http: HttpRequest, scope: QuotaScope, name: str) -> int | None:
    if "If-Match" not in http.headers:
        return None
    (state,) = states_of([(scope, name)], now=timezone.now())
    return expected_version(http, current=state.version)
