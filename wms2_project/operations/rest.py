"""REST endpoints of operations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, ClassVar
from urllib.parse import quote

from django.urls import URLPattern, path
from drf_spectacular.utils import OpenApiParameter, PolymorphicProxySerializer, extend_schema
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from wms2_project.api.docs import IF_MATCH
from wms2_project.api.views import ApiView, expected_version, parsed
from wms2_project.operations import Call, Operation, caller_of, make_call

REASON = OpenApiParameter("reason", str, description="The reason; may also be sent in the body.")
MESSAGE_HEADER = "WMS2-Message"
MAX_MESSAGE = 1000  # characters: proxies limit headers
LEGIBLE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")


def perform(operation: Operation, request: HttpRequest, *key: Any) -> Response:
    """Validate the body, find and authorize the target, run the operation and render its result."""
    body = parsed(operation.input, _body(request))
    row = operation.target.row(*key)
    version = getattr(row, "version", None)
    insists = operation.checks_version and version is not None
    expected = expected_version(request, current=int(version or 0)) if insists else None
    call, dry_run = make_call(row, caller_of(request), body, expected_version=expected)
    operation.authorize(call)
    if dry_run and operation.preview is not None:
        return _answer(_render_preview(operation, call, operation.preview(call)), row)
    done = operation.run(call)
    render = operation.render or operation.target.render
    answer = _answer(render(call, done), done.row, status=operation.status)
    answer[MESSAGE_HEADER] = encode_message(done.message)
    return answer


def encode_message(text: str) -> str:
    """Return a text as the value of a header: limited, and percent-encoded where it is not ASCII."""
    return quote(text[:MAX_MESSAGE], safe=LEGIBLE)


def _body(request: HttpRequest) -> Any:
    """Return the body. A DELETE may give its reason in the query, because some clients send no body."""
    reason = request.query_params.get("reason") if request.method == "DELETE" else None
    return {**request.data, "reason": reason} if reason and isinstance(request.data, dict) else request.data


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
                setattr(cls, method.lower(), _described(one, method)(_handler(one, method)))


def _problems(operation: Operation) -> tuple[int, ...]:
    return (*operation.problems, *((412,) if operation.checks_version else ()))


def _handler(operation: Operation, method: str) -> Any:
    def handle(self: ApiView, request: HttpRequest, **key: Any) -> Response:
        return perform(operation, request, *key.values())

    handle.__doc__ = operation.effect
    handle.__name__ = method.lower()
    return handle


def _described(operation: Operation, method: str) -> Any:
    body: Any = operation.body or operation.target.body
    if operation.preview_body is not None and operation.status == 200:
        name = f"{operation.target.kind.capitalize()}{operation.name.capitalize()}Body"
        both: list[Any] = [body, operation.preview_body]
        body = PolymorphicProxySerializer(name, both, None)
    responses: dict[int, Any] = {operation.status: body}
    if operation.preview_body is not None:
        responses.setdefault(200, operation.preview_body)
    message = OpenApiParameter(
        MESSAGE_HEADER, str, OpenApiParameter.HEADER, response=[operation.status],
        description="The result as a sentence; percent-encoded where it is not ASCII. Absent for a dry run.",
    )  # fmt: skip
    parameters = [*([IF_MATCH] if operation.checks_version else []), message]
    own = method == operation.method  # else the operation has a path of its own, too
    return extend_schema(
        operation_id=operation.operation_id if own else f"{operation.target.plural}_{method.lower()}",
        request=operation.input,
        responses=responses,
        parameters=[*parameters, REASON] if method == "DELETE" else parameters,
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
