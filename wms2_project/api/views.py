"""Base classes of endpoints: roles, bounded JSON, documented problems, strict input, versions as ETags."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any, ClassVar

from django import forms
from django.db.models import QuerySet
from django_filters import MultipleChoiceFilter, NumberFilter
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.generics import ListAPIView
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response
from rest_framework.views import APIView

from wms2_project.access.roles import WithRoles
from wms2_project.api.docs import ProblemSchema
from wms2_project.api.parsers import BoundedJSONParser
from wms2_project.errors import InvalidInput, StaleVersion

DRY_RUN = "dry_run"  # the member of an input that requests a preview


class ApiView(WithRoles, APIView):
    """Base of endpoints. `problems` lists, per method, errors beyond those of every endpoint."""

    parser_classes = [BoundedJSONParser]
    schema = ProblemSchema()
    problems: ClassVar[dict[str, tuple[int, ...]]] = {}

    def check_permissions(self, request: HttpRequest) -> None:
        """Count the call before checking it, so that refused calls count, too."""
        super().check_throttles(request)
        super().check_permissions(request)

    def check_throttles(self, request: HttpRequest) -> None:
        """Do nothing: `check_permissions` has counted the call."""

    def finalize_response(self, request: HttpRequest, response: Any, *args: Any, **kwargs: Any) -> Response:
        """Reduce the body of a GET to the members that `fields` names."""
        wanted = request.query_params.get("fields") if request.method == "GET" else None
        if wanted is not None and response.status_code == 200 and isinstance(response.data, dict):
            try:
                check_once(request, several=set(request.query_params) - {"fields"})
                response.data = self.select(response.data, frozenset(wanted.split(",")))
            except ValidationError as error:
                response = self.handle_exception(error)
        return super().finalize_response(request, response, *args, **kwargs)

    def select(self, body: dict[str, Any], wanted: frozenset[str]) -> dict[str, Any]:
        """Return the wanted members of the body."""
        check_fields(wanted, known=set(body))
        return {name: value for name, value in body.items() if name in wanted}


class ListView(ApiView, ListAPIView[Any]):
    """Base of lists in cursor pages. An unknown filter is refused. The docstring describes the list."""

    operation_id: ClassVar[str]
    filterset_class: Any = None
    other_parameters: ClassVar[frozenset[str]] = frozenset()
    # What `ordering` may name, and the columns behind it. No two rows are alike in all of them, or a cursor
    # could not tell them apart; and they have an index if there may be many.
    orders: ClassVar[dict[str, tuple[str, ...]]] = {"created_at": ("created_at", "id")}
    order: ClassVar[str] = "-created_at"

    def filter_queryset(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the matching rows."""
        given = set(self.request.query_params)
        filters = set(self.filterset_class.base_filters) if self.filterset_class else set()
        known = {"cursor", "page_size", "fields", "ordering"} | self.other_parameters | filters
        unknown = sorted(given - known)
        if unknown:
            message = f"Unknown parameter. Use one of {', '.join(sorted(known))}."
            raise ValidationError(dict.fromkeys(unknown, message))
        check_once(self.request, several=self._several(filters))
        if empty := [name for name in given & filters if "" in self.request.query_params.getlist(name)]:
            raise ValidationError(dict.fromkeys(empty, "Must not be empty. Omit it instead."))
        if not given & filters:
            return queryset
        self.filterset_class = _narrowed(self.filterset_class, frozenset(given & filters))
        return super().filter_queryset(queryset)

    def _several(self, filters: set[str]) -> set[str]:
        """Return the filters that may be repeated."""
        known = self.filterset_class.base_filters if filters else {}
        return {name for name in filters if isinstance(known[name], MultipleChoiceFilter)}

    def select(self, body: dict[str, Any], wanted: frozenset[str]) -> dict[str, Any]:
        """Return the page with the wanted members of each row."""
        check_fields(wanted, known=set(self.get_serializer_class()().fields))  # type: ignore[attr-defined]
        rows = [{name: row[name] for name in row if name in wanted} for row in body["results"]]
        return body | {"results": rows}


class AnyOfFilter(MultipleChoiceFilter):  # type: ignore[misc]
    """Filter by one or more values. The error for an unknown value lists the known ones."""

    def __init__(self, *, choices: list[tuple[str, str]], **options: Any) -> None:
        legal = ", ".join(value for value, _ in choices)
        messages = {"invalid_choice": f"%(value)s is not one of {legal}"}
        # DISTINCT would sort a million rows
        super().__init__(choices=choices, distinct=False, error_messages=messages, **options)


class WholeFilter(NumberFilter):  # type: ignore[misc]
    """Filter by a whole number up to a limit. The standard filter also accepts fractions."""

    field_class = forms.IntegerField

    def __init__(self, *, most: int, **options: Any) -> None:
        super().__init__(min_value=0, max_value=most, **options)
        extend_schema_field({"type": "integer", "minimum": 0, "maximum": most})(self)


@lru_cache(maxsize=256)
def _narrowed(filterset: Any, names: frozenset[str]) -> Any:
    """Return a filter set with these filters only: a form with all of them takes milliseconds to build."""
    made: Any = type(filterset.__name__, (filterset,), {})
    made.base_filters = {name: one for name, one in filterset.base_filters.items() if name in names}
    return made


def check_once(request: HttpRequest, *, several: Collection[str] = ()) -> None:
    """Raise if a parameter is given twice."""
    query = request.query_params
    if twice := [name for name in query if name not in several and len(query.getlist(name)) > 1]:
        raise ValidationError(dict.fromkeys(twice, "Given more than once."))


def check_fields(wanted: frozenset[str], *, known: set[str]) -> None:
    """Raise if `fields` names an unknown member."""
    if unknown := sorted(wanted - known):
        there = ", ".join(sorted(known))
        raise ValidationError({"fields": f"Unknown: {', '.join(unknown)[:200]}. Use {there}."})


_JSON: tuple[tuple[type[serializers.Field[Any, Any, Any, Any]], tuple[type, ...], str], ...] = (
    (serializers.BooleanField, (bool,), "true or false"),
    (serializers.IntegerField, (int,), "a whole number"),
    (serializers.FloatField, (int, float), "a number"),
    (serializers.ListField, (list,), "a list"),
    (serializers.CharField, (str,), "a string"),
)


def _mismatch(field: serializers.Field[Any, Any, Any, Any], value: Any) -> Any:
    """Return the error in the type of the value or, by index, of its entries; if none, something empty.

    Null is left to the field.
    """
    for kind, types, expected in _JSON:
        if value is not None and isinstance(field, kind):
            right = isinstance(value, types) and (bool in types or not isinstance(value, bool))
            if not right:
                return f"This must be {expected}."
            return _entry_mismatches(field, value) if isinstance(field, serializers.ListField) else ""
    return ""


def _entry_mismatches(field: serializers.ListField, entries: list[Any]) -> dict[int, Any]:
    found = {index: _mismatch(field.child, entry) for index, entry in enumerate(entries)}
    return {index: mismatch for index, mismatch in found.items() if mismatch}


class Input(serializers.Serializer[Any]):
    """Base of request bodies. Unknown members are refused; `elsewhere` has the message for some of them."""

    elsewhere: ClassVar[dict[str, str]] = {}
    from_json: ClassVar[bool] = True  # a query string has only texts

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            message = f"Unknown field. Use one of {', '.join(self.fields)}."
            unknown = {name: self.elsewhere.get(name, message) for name in data if name not in self.fields}
            if unknown := unknown or self._mistyped(data):
                raise ValidationError(unknown)
        return super().to_internal_value(data)

    def _mistyped(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return type errors. DRF would also accept "7" and true for 7."""
        if not self.from_json:
            return {}
        found = {name: _mismatch(self.fields[name], value) for name, value in data.items()}
        return {name: mismatch for name, mismatch in found.items() if mismatch}


class ReasonInput(Input):
    """Input of an operation without other fields."""

    reason = serializers.CharField(max_length=1000, help_text="Reason, recorded in the audit with your name.")


class ChangesInput(ReasonInput):
    """Base of inputs whose fields are all optional, but one of them is needed."""

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not attrs.keys() - {"reason", DRY_RUN}:
            raise ValidationError({"body": "Name at least one field to change."})
        return attrs


def parsed(kind: type[Input], data: Any) -> dict[str, Any]:
    """Return the validated body as a plain dict. Raise with a message per field."""
    if not isinstance(data, Mapping):
        raise InvalidInput("The body must be a JSON object", fields={"body": "not a JSON object"})
    body = kind(data=data)
    body.is_valid(raise_exception=True)
    return dict(body.validated_data)


def asked(kind: type[Input], request: HttpRequest) -> dict[str, Any]:
    """Return the validated query. Repeated members become lists where the field takes several."""
    query = request.query_params
    named = [name for name in query if name != "fields"]  # that one every endpoint takes
    several = {
        name for name, field in kind().fields.items() if isinstance(field, serializers.MultipleChoiceField)
    }
    check_once(request, several=several)
    return parsed(kind, {name: query.getlist(name) if name in several else query[name] for name in named})


def versioned(data: Any, *, version: int) -> Response:
    """Return a response whose ETag is the row's version, to be sent back in If-Match."""
    return Response(data, headers={"ETag": f'"{version}"'})


def expected_version(request: HttpRequest, *, current: int) -> int | None:
    """Return the version that If-Match requires, or None. Raise StaleVersion if it is not the present one."""
    header = request.headers.get("If-Match", "").strip()
    if header in ("", "*"):
        return None
    if f'"{current}"' not in [tag.strip() for tag in header.split(",")]:  # a weak tag matches nothing
        raise StaleVersion(
            f"You hold version {header}, the present one is {current}",
            cure="Read it again and retry if the change still applies",
        )
    return current
