"""The OpenAPI description: every operation also says which problems it may answer with."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import Direction, OpenApiResponse
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework import serializers

from wms2_project.api.errors import MEDIA_TYPE, TITLES
from wms2_project.api.roles import Role, role_needed


class Problem(serializers.Serializer[Any]):
    """An error, as RFC 9457 describes it."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField(help_text="What is wrong, in one sentence.")
    code = serializers.CharField(help_text="The kind of error, stable for programs.")
    request_id = serializers.CharField(help_text="The id of this call in the logs.")
    cure = serializers.CharField(required=False, help_text="What to do about it.")
    errors = serializers.DictField(  # type: ignore[assignment]
        child=serializers.CharField(), required=False, help_text="One message per wrong field."
    )


class ProblemSchema(AutoSchema):
    """Adds to each operation the problems that follow from its role, path and body, and the view's own."""

    def _get_response_bodies(self, direction: Direction = "response") -> dict[str, Any]:
        bodies: dict[str, Any] = super()._get_response_bodies(direction)
        for status_code in sorted(self._problems()):
            response = OpenApiResponse(Problem, description=TITLES[status_code])
            bodies.setdefault(
                str(status_code),
                self._get_response_for_code(  # type: ignore[no-untyped-call]
                    response, str(status_code), [MEDIA_TYPE], direction
                ),
            )
        return bodies

    def _problems(self) -> set[int]:
        codes: set[int] = set(getattr(self.view, "problems", {}).get(self.method, ()))
        if self.view.throttle_classes:
            codes |= {406, 429}
        if (role_needed(self.view, self.method) or Role.ANONYMOUS) > Role.ANONYMOUS:
            codes |= {401, 403}
        if "{" in self.path:
            codes.add(404)
        if self.method in ("POST", "PATCH", "PUT", "DELETE"):
            codes |= {400, 413, 415, 422}
        if getattr(self.view, "filter_backends", ()) and self.method == "GET":
            codes |= {404, 422}
        return codes


class BearerToken(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the API token shows in the description."""

    target_class = "wms2_project.api.auth.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, str]:
        """A bearer token."""
        return {"type": "http", "scheme": "bearer", "description": "An API token: wms2_…"}


class SchemaView(SpectacularAPIView):
    """The OpenAPI document. It says nothing the documentation does not, so anybody may read it."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.ANONYMOUS}


class DocsView(SpectacularSwaggerSplitView):
    """Swagger UI, served from our own static files, its script apart from the page."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.ANONYMOUS}
