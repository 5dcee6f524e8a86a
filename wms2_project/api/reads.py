"""GET endpoints made from functions. The return annotation of the function is the body."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import is_dataclass
from types import ModuleType
from typing import Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

from django.urls import URLPattern, path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from wms2_project.access.roles import Role
from wms2_project.api.bodies import body_of
from wms2_project.api.views import ApiView, Input, asked


class Read(ApiView):
    """A view made by `reads`."""

    route: ClassVar[str]


def reads(
    route: str, *, role: Role = Role.VIEWER, query: type[Input] | None = None, **attributes: Any
) -> Callable[[Callable[..., Any]], type[Read]]:
    """Return a decorator that turns a function into the view of a route below /api/v1/.

    The function gets the HTTP request, the parts of the path and the validated query, and returns a
    dataclass, a row annotated with its serializer, or plain JSON. Its name is the operation id, its
    docstring the description. `attributes` are those of the view.
    """

    def decorate(function: Callable[..., Any]) -> type[Read]:
        body = _body(get_type_hints(function, include_extras=True)["return"])

        @extend_schema(
            operation_id=function.__name__,
            responses=body or {200: OpenApiTypes.OBJECT},
            parameters=[query] if query is not None else [],
        )
        def get(self: ApiView, request: HttpRequest, **given: Any) -> Response:
            found = function(request, **given, **(asked(query, request) if query is not None else {}))
            return Response(found if body is None else body(found).data)

        get.__doc__ = function.__doc__
        own = {"get": get, "roles": {"GET": role}, "route": route, "__doc__": function.__doc__}
        return type(function.__name__, (Read,), own | attributes)

    return decorate


def read_paths(*modules: ModuleType) -> list[URLPattern]:
    """Return the paths of the modules' reads, named after their functions."""
    views: Iterable[Any] = (one for module in modules for one in vars(module).values())
    return [
        path(one.route, one.as_view(), name=one.__name__.replace("_", "-"))
        for one in views
        if isinstance(one, type) and issubclass(one, Read)
    ]


def _body(hint: Any) -> Any:
    if get_origin(hint) is Annotated:
        return get_args(hint)[1]
    return body_of(hint) if is_dataclass(hint) else None  # type: ignore[arg-type]
