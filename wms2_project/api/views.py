"""What every endpoint shares: roles, bounded JSON, documented problems, strict input, versions as ETags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.generics import ListAPIView
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response
from rest_framework.views import APIView

from wms2_project.api.docs import ProblemSchema
from wms2_project.api.parsers import BoundedJSONParser
from wms2_project.api.roles import WithRoles
from wms2_project.errors import InvalidInput, StaleVersion


class ApiView(WithRoles, APIView):
    """One endpoint. `problems` names, per method, the errors beyond those every endpoint has."""

    parser_classes = [BoundedJSONParser]
    schema = ProblemSchema()
    problems: ClassVar[dict[str, tuple[int, ...]]] = {}


class ListView(WithRoles, ListAPIView[Any]):
    """One list in cursor pages. An unknown filter is refused: ignoring it would answer another question."""

    parser_classes = [BoundedJSONParser]
    schema = ProblemSchema()
    problems: ClassVar[dict[str, tuple[int, ...]]] = {}
    filterset_class: ClassVar[Any] = None
    other_parameters: ClassVar[frozenset[str]] = frozenset()

    def filter_queryset(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """The rows the caller asked for."""
        known = {"cursor", "page_size"} | self.other_parameters
        known |= set(self.filterset_class.base_filters) if self.filterset_class else set()
        unknown = sorted(set(self.request.query_params) - known)
        if unknown:
            told = f"There is no such parameter here; there are {', '.join(sorted(known))}."
            raise ValidationError(dict.fromkeys(unknown, told))
        return super().filter_queryset(queryset)


class Input(serializers.Serializer[Any]):
    """A body of which every member is known; `elsewhere` says where else a refused one belongs."""

    elsewhere: ClassVar[dict[str, str]] = {}

    def to_internal_value(self, data: Any) -> Any:
        """The validated body."""
        if isinstance(data, Mapping):
            told = f"There is no such field here; there are {', '.join(self.fields)}."
            unknown = {name: self.elsewhere.get(name, told) for name in data if name not in self.fields}
            if unknown:
                raise ValidationError(unknown)
        return super().to_internal_value(data)


class ReasonInput(Input):
    """Every action says why."""

    reason = serializers.CharField(max_length=1000, help_text="Kept in the audit, with your name.")


def parsed(kind: type[Input], data: Any) -> dict[str, Any]:
    """The validated body as a plain dict, or a 422 that names each wrong field."""
    if not isinstance(data, Mapping):
        raise InvalidInput("The body must be a JSON object", fields={"body": "not a JSON object"})
    body = kind(data=data)
    body.is_valid(raise_exception=True)
    return dict(body.validated_data)


def versioned(data: Any, *, version: int) -> Response:
    """A response whose ETag is the row's version, to be sent back in If-Match."""
    return Response(data, headers={"ETag": f'"{version}"'})


def expected_version(request: HttpRequest, *, current: int) -> int | None:
    """The version If-Match insists on; None when the caller insists on nothing."""
    header = request.headers.get("If-Match", "").strip()
    if header in ("", "*"):
        return None
    given = {tag.strip().removeprefix("W/").strip('"') for tag in header.split(",")}
    if str(current) not in given:
        raise StaleVersion(
            f"You hold version {header}, the present one is {current}",
            cure="Read it again, and repeat the change if it still makes sense",
        )
    return current
