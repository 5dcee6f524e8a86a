"""REST endpoints of operations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, ClassVar

from django.urls import URLPattern, path
from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from wms2_project.api.docs import IF_MATCH
from wms2_project.api.views import ApiView, expected_version, parsed
from wms2_project.operations import Call, Operation, caller_of, make_call


def perform(operation: Operation, request: HttpRequest, key: Any = None, *, data: Any = None) -> Response:
    """Validate the body, find and authorize the target, run the operation and render its result."""
    body = parsed(operation.input, request.data if data is None else data)
    row = operation.target.find(key)
    version = getattr(row, "version", None)
    insists = operation.checks_version and version is not None
    expected = expected_version(request, current=int(version or 0)) if insists else None
    call, dry_run = make_call(row, caller_of(request), body, expected_version=expected)
    operation.authorize(call)
    if dry_run and operation.preview is not None:
        return _answer(_render_preview(operation, call, operation.preview(call)), row)
    done = operation.run(call)
    render = operation.render or operation.target.render
    return _answer(render(call, done), done.row, status=operation.status)


def _render_preview(operation: Operation, call: Call, shown: Any) -> Any:
    if operation.render_preview is not None:
        return operation.render_preview(call, shown)
    return shown if operation.preview_body is None else operation.preview_body(shown).data


def _answer(data: Any, row: Any, *, status: int = 200) -> Response:
    version = getattr(row, "version", None)
    return Response(data, status=status, headers={} if version is None else {"ETag": f'"{version}"'})


class OperationView(ApiView):
    """The operations at one path, by method."""

    operations: ClassVar[dict[str, Operation]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Take roles, problems and the OpenAPI description from the operations."""
        super().__init_subclass__(**kwargs)
        own = cls.operations
        cls.roles = cls.roles | {method: one.role for method, one in own.items()}
        cls.problems = cls.problems | {method: _problems(one) for method, one in own.items()}
        for method, one in own.items():
            if method.lower() not in vars(cls):
                setattr(cls, method.lower(), _described(one)(_handler(one)))


def _problems(operation: Operation) -> tuple[int, ...]:
    return (*operation.problems, *((412,) if operation.checks_version else ()))


def _handler(operation: Operation) -> Any:
    def handle(self: ApiView, request: HttpRequest, **kwargs: Any) -> Response:
        return perform(operation, request, *kwargs.values())

    handle.__doc__ = operation.effect
    handle.__name__ = operation.method.lower()
    return handle


def _described(operation: Operation) -> Any:
    body: Any = operation.body or operation.target.body
    if operation.preview_body is not None and operation.status == 200:
        name = f"{operation.target.kind.capitalize()}{operation.name.capitalize()}Body"
        both: list[Any] = [body, operation.preview_body]
        body = PolymorphicProxySerializer(name, both, None)
    responses: dict[int, Any] = {operation.status: body}
    if operation.preview_body is not None:
        responses.setdefault(200, operation.preview_body)
    return extend_schema(
        operation_id=operation.operation_id,
        request=operation.input,
        responses=responses,
        parameters=[IF_MATCH] if operation.checks_version else [],
    )


def operation_paths(operations: Iterable[Operation]) -> list[URLPattern]:
    """Return one path per URL; operations on the target's own URL belong to a view with a GET."""
    by_url: dict[str, dict[str, Operation]] = defaultdict(dict)
    for one in operations:
        if one.path != "":
            by_url[one.url][one.method] = one
    found = []
    for url, methods in by_url.items():
        first = next(iter(methods.values()))
        name = f"{first.target.kind}-{url.rpartition('/')[2]}"
        view: Any = type(f"{name.title().replace('-', '')}View", (OperationView,), {"operations": methods})
        view.__doc__ = first.effect
        found.append(path(url, view.as_view(), name=name))
    return found
