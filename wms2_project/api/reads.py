"""GET endpoints made from functions. The return annotation of the function is the body."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType, UnionType
from typing import Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

from django.urls import URLPattern, path
from django.views.decorators.http import conditional_page
from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from wms2_project.access.roles import Role
from wms2_project.api.bodies import body_of, render
from wms2_project.api.views import ApiView, Input, asked


class Read(ApiView):
    """A view made by `reads`."""

    route: ClassVar[str]
    conditional: ClassVar[bool] = False  # whether the body has an ETag and an unchanged one is not sent again


def reads(
    route: str, *, role: Role = Role.VIEWER, query: type[Input] | None = None, **attributes: Any
) -> Callable[[Callable[..., Any]], type[Read]]:
    """Return a decorator that turns a function into the view of a route below /api/v1/.

    The function gets the HTTP request, the parts of the path and the validated query, and returns a
    dataclass, one of several dataclasses, or a row annotated with its serializer. Its name is the operation
    id, its docstring the description. `attributes` are those of the view.
    """

    def decorate(function: Callable[..., Any]) -> type[Read]:
        documented, rendered = _bodies(get_type_hints(function, include_extras=True)["return"])

        @extend_schema(
            operation_id=function.__name__,
            responses=documented,
            parameters=[query] if query is not None else [],
        )
        def get(self: ApiView, request: HttpRequest, **given: Any) -> Response:
            found = function(request, **given, **(asked(query, request) if query is not None else {}))
            return Response(rendered(found))

        get.__doc__ = function.__doc__
        own = {"get": get, "roles": {"GET": role}, "route": route, "__doc__": function.__doc__}
        return type(function.__name__, (Read,), own | attributes)

    return decorate


def read_paths(*modules: ModuleType) -> list[URLPattern]:
    """Return the paths of the modules' reads, named after their functions."""
    views: Iterable[Any] = (one for module in modules for one in vars(module).values())
    return [
        path(one.route, _handler(one), name=one.__name__.replace("_", "-"))
        for one in views
        if isinstance(one, type) and issubclass(one, Read)
    ]


def _handler(view: type[Read]) -> Any:
    return conditional_page(view.as_view()) if view.conditional else view.as_view()


def _bodies(hint: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return the body for the OpenAPI document, and a function that renders an answer."""
    if get_origin(hint) is UnionType:
        kinds = [body_of(kind) for kind in get_args(hint)]
        name = "Or".join(kind.__name__ for kind in kinds)
        return PolymorphicProxySerializer(name, kinds, None), render
    body = get_args(hint)[1] if get_origin(hint) is Annotated else body_of(hint)
    return body, lambda found: body(found).data
