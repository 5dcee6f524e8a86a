"""Every error of the API is an RFC 9457 problem: type, title, status, detail, code, and the cure."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404
from rest_framework import exceptions, status
from rest_framework.response import Response
from rest_framework.views import set_rollback

from wms2_project import errors
from wms2_project.logs import current_request_id

_STATUS: list[tuple[type[errors.Wms2Error], int]] = [
    (errors.InvalidInput, status.HTTP_422_UNPROCESSABLE_ENTITY),
    (errors.NotFound, status.HTTP_404_NOT_FOUND),
    (errors.Conflict, status.HTTP_409_CONFLICT),
    (errors.ServiceRejected, status.HTTP_502_BAD_GATEWAY),
    (errors.TransientError, status.HTTP_503_SERVICE_UNAVAILABLE),
]
_TITLES = {
    400: "The request cannot be read",
    401: "Log in first",
    403: "Your role does not allow this",
    404: "No such thing",
    405: "This method is not offered here",
    406: "This format is not offered",
    409: "The present state does not allow this",
    412: "It changed since you read it",
    413: "The body is too large",
    415: "This content type is not understood",
    422: "The input cannot be accepted",
    429: "Too many calls",
    502: "An outside service refused",
    503: "An outside service does not answer",
}


def problem(
    *, status_code: int, detail: str, code: str, cure: str = "", fields: dict[str, Any] | None = None
) -> Response:
    """A problem-details response."""
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": _TITLES.get(status_code, "Error"),
        "status": status_code,
        "detail": detail,
        "code": code,
        "request_id": current_request_id(),
    }
    if cure:
        body["cure"] = cure
    if fields:
        body["errors"] = fields
    return Response(body, status=status_code, content_type="application/problem+json")


def problem_details(error: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's exception handler: our errors and DRF's own, in one shape; a bug stays a 500 with its log."""
    set_rollback()
    if isinstance(error, errors.Wms2Error):
        code = next((number for kind, number in _STATUS if isinstance(error, kind)), 500)
        fields = error.fields if isinstance(error, errors.InvalidInput) else None
        return problem(
            status_code=code, detail=error.message, code=error.code, cure=error.cure, fields=fields
        )
    if isinstance(error, Http404):
        error = exceptions.NotFound()
    elif isinstance(error, PermissionDenied):
        error = exceptions.PermissionDenied()
    if isinstance(error, exceptions.ValidationError):
        return problem(
            status_code=422, detail="One or more fields are wrong", code="invalid_input", fields=_flat(error.detail)
        )
    if isinstance(error, exceptions.APIException):
        response = problem(
            status_code=error.status_code, detail=str(error.detail), code=str(error.default_code)
        )
        header = getattr(error, "auth_header", None)
        if header:
            response["WWW-Authenticate"] = header
        wait = getattr(error, "wait", None)
        if wait:
            response["Retry-After"] = str(int(wait) + 1)
        return response
    return None


def _flat(detail: Any, prefix: str = "") -> dict[str, str]:
    """DRF's nested field errors as one message per dotted field."""
    if isinstance(detail, dict):
        flat: dict[str, str] = {}
        for key, value in detail.items():
            flat |= _flat(value, f"{prefix}.{key}" if prefix else str(key))
        return flat
    if isinstance(detail, list) and any(isinstance(item, dict | list) for item in detail):
        flat = {}
        for index, item in enumerate(detail):
            flat |= _flat(item, f"{prefix}[{index}]")
        return flat
    items = detail if isinstance(detail, list) else [detail]
    return {prefix or "body": " ".join(str(item) for item in items)}
