"""The OpenAPI description, with the problems each operation may answer with."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.renderers import OpenApiJsonRenderer, OpenApiYamlRenderer
from drf_spectacular.utils import Direction, OpenApiParameter, OpenApiResponse, extend_schema
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework import serializers
from rest_framework.request import Request as HttpRequest

from wms2_project.access.roles import Role, role_needed
from wms2_project.api.errors import MEDIA_TYPE, TITLES

IF_MATCH = OpenApiParameter(
    "If-Match",
    str,
    OpenApiParameter.HEADER,
    description="ETag of the version you read. Refused with 412 if it is outdated.",
)
FIELDS = OpenApiParameter("fields", str, description="Members to return, separated by commas.")


class Problem(serializers.Serializer[Any]):
    """An error, as RFC 9457 describes it."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField(help_text="Description of the error.")
    code = serializers.CharField(help_text="Stable error code for programs.")
    request_id = serializers.CharField(help_text="Id of this call in the logs.")
    cure = serializers.CharField(help_text="How to fix the error.")
    errors = serializers.DictField(  # type: ignore[assignment]
        child=serializers.CharField(), required=False, help_text="One message per wrong field."
    )


class ProblemSchema(AutoSchema):
    """Adds to each operation the problems that follow from its role, path and body, and the view's own."""

    def get_operation_id(self) -> str:
        """Return the id that a list declares, else the derived one."""
        own: str = getattr(self.view, "operation_id", "") if self.method == "GET" else ""
        return own or str(super().get_operation_id())

    def get_override_parameters(self) -> list[Any]:
        """Add `fields` to JSON reads and `ordering` to lists."""
        view: Any = self.view
        if self.method != "GET" or not any(one.format == "json" for one in view.renderer_classes):
            return []
        if not hasattr(view, "orders"):
            return [FIELDS]
        both = [f"{sign}{name}" for name in view.orders for sign in ("", "-")]
        text = "Sort order. A leading minus reverses it."
        return [FIELDS, OpenApiParameter("ordering", str, enum=both, default=view.order, description=text)]

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
        codes.add(405)  # what the path answers to every other method
        if self.view.throttle_classes:
            codes |= {406, 429, 503}
        if (role_needed(self.view, self.method) or Role.ANONYMOUS) > Role.ANONYMOUS:
            codes |= {401, 403}
        if "{" in self.path:
            codes.add(404)
        if self.method in ("POST", "PATCH", "PUT", "DELETE"):
            codes |= {400, 413, 415, 422}
        if self.method == "GET":
            codes.add(422)
        if getattr(self.view, "filter_backends", ()) and self.method == "GET":
            codes.add(404)
        return codes


def close_bodies(result: dict[str, Any], **given: Any) -> dict[str, Any]:
    """Forbid additional members in every request body."""
    schemas = result["components"]["schemas"]
    for item in result["paths"].values():
        for operation in item.values():
            content = operation.get("requestBody", {}).get("content", {})
            for media in content.values():
                name = media["schema"].get("$ref", "").rpartition("/")[2]
                if name:
                    schemas[name].setdefault("additionalProperties", False)
    return result


def describe_queries(result: dict[str, Any], **given: Any) -> dict[str, Any]:
    """Describe query parameters: filters are not empty, `fields` names members of the answer."""
    for item in result["paths"].values():
        for one in item.get("get", {}).get("parameters", ()):
            schema = one["schema"]
            if one["name"] == "fields":
                names = "|".join(_members(item["get"], result["components"]["schemas"])) or "[a-z_]+"
                schema["pattern"] = f"^({names})(,({names}))*$"
            elif one["in"] == "query" and schema == {"type": "string"} and one["name"] != "cursor":
                schema["minLength"] = 1
    return result


def _members(operation: dict[str, Any], schemas: dict[str, Any]) -> list[str]:
    """Return the members that are always in the answer, or in each row of it; none if unknown."""
    (media,) = operation["responses"]["200"]["content"].values()
    named = media["schema"].get("$ref", "")
    body = schemas[named.rpartition("/")[2]] if named else {}
    if named.rpartition("/")[2].startswith("Paginated"):
        body = schemas[body["properties"]["results"]["items"]["$ref"].rpartition("/")[2]]
    return list(body.get("required", ()))


class BearerToken(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Describes API tokens."""

    target_class = "wms2_project.access.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, str]:
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "An API token (wms2_…), or a token of a known issuer.",
        }


class ClientCertificate(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Describes client certificates."""

    target_class = "wms2_project.access.authentication.CertificateAuthentication"
    name = "certificate"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, str]:
        """Describe the header of the proxy: OpenAPI 3.0 cannot describe mutual TLS."""
        words = "A client certificate linked to your account, verified by the proxy."
        return {"type": "apiKey", "in": "header", "name": settings.X509_DN_HEADER, "description": words}


class SchemaView(SpectacularAPIView):
    """The OpenAPI document. It is public."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.ANONYMOUS}

    @extend_schema(exclude=True)
    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Return the document in the requested format."""
        form: Any = request.accepted_renderer
        headers = {"Content-Disposition": f'inline; filename="WMS2.{form.format}"'}
        return HttpResponse(_written(form.format), content_type=form.media_type, headers=headers)


@cache
def _written(form: str) -> bytes:
    """Return the document as bytes. It is made once per process, because that takes seconds."""
    described = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    renderer = OpenApiJsonRenderer() if form == "json" else OpenApiYamlRenderer()
    return bytes(renderer.render(described, renderer_context={}))


class DocsView(SpectacularSwaggerSplitView):
    """Swagger UI, served from our own static files. Its script is separate from the page."""

    http_method_names = ["get", "head"]  # a page has no description of its options
    roles: ClassVar[dict[str, Role]] = {"GET": Role.ANONYMOUS}
