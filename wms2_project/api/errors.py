"""Every error below /api/ is an RFC 9457 problem: type, title, status, detail, code, and the cure."""

from __future__ import annotations

import logging
import sys
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string
from django.views.decorators.csrf import csrf_exempt
from rest_framework import exceptions, status
from rest_framework.response import Response
from rest_framework.views import set_rollback

from wms2_project import errors
from wms2_project.observation.logs import current_request_id

logger = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"
_STATUS: list[tuple[type[errors.Wms2Error], int]] = [
    (errors.InvalidInput, status.HTTP_422_UNPROCESSABLE_ENTITY),
    (errors.NotAllowed, status.HTTP_403_FORBIDDEN),
    (errors.NotFound, status.HTTP_404_NOT_FOUND),
    (errors.Conflict, status.HTTP_409_CONFLICT),
    (errors.Gone, status.HTTP_410_GONE),
    (errors.QuotaExceeded, status.HTTP_429_TOO_MANY_REQUESTS),
    (errors.ServiceRejected, status.HTTP_502_BAD_GATEWAY),
    (errors.Wms2Error, status.HTTP_503_SERVICE_UNAVAILABLE),  # such as a service without an address
]
TITLES = {
    400: "Malformed request",
    401: "Authentication required",
    403: "Not allowed for your role",
    404: "Not found",
    405: "Method not allowed",
    406: "Format not available",
    409: "Not allowed in the present state",
    410: "Over",
    412: "Changed since you read it",
    413: "Body too large",
    415: "Unsupported content type",
    422: "Invalid input",
    429: "Limit exceeded",
    500: "Internal error",
    502: "An external service refused the call",
    503: "Temporarily unavailable",
}
CURES = {  # for errors that do not bring a better one
    400: "Send well-formed JSON in UTF-8",
    401: "Send `Authorization: Bearer <token>`, or log in",
    403: "Ask an administrator for the required role",
    404: "Check the name. /api/v1/docs lists all paths",
    405: "Use a method of the Allow header",
    406: "Ask for application/json",
    409: "Read it again and retry if the action still applies",
    410: "Stop calling. The call changed nothing",
    412: "Read it again and retry if the change still applies",
    413: "Send a smaller body",
    415: "Send `Content-Type: application/json`",
    422: "Correct the fields listed in `errors`",
    429: "Wait for the time given in Retry-After",
    500: "Report the request_id to an administrator",
    502: "Correct the problem the service reported",
    503: "Retry later",
}
_RETRY_AFTER_SEC = 10  # after an outage of something outside


class BodyTooLarge(exceptions.APIException):
    """The body exceeds the size limit."""

    status_code = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE
    default_code = "body_too_large"
    default_detail = f"The body is larger than {settings.DATA_UPLOAD_MAX_MEMORY_SIZE} bytes."


def problem_body(
    *, status_code: int, detail: str, code: str, cure: str = "", fields: dict[str, Any] | None = None
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": TITLES.get(status_code, "Error"),
        "status": status_code,
        "detail": detail,
        "code": code,
        "cure": cure or CURES.get(status_code, ""),
        "request_id": current_request_id(),
    }
    if fields:
        body["errors"] = fields
    return body


def problem_details(error: Exception, context: dict[str, Any]) -> Response | None:
    """Render errors of WMS2 and of DRF as problems. DRF's exception handler.

    Other exceptions become a 500 and are logged with their traceback.
    """
    set_rollback()
    if isinstance(error, InterfaceError | OperationalError):  # the database is unavailable, or gave up
        logger.error("PostgreSQL: %s", error)
        error = errors.ServiceUnavailable("The database does not answer", cure=CURES[503])
    if isinstance(error, errors.Wms2Error):
        return _of_ours(error, has_precondition="If-Match" in context["request"].headers)
    if isinstance(error, Http404):
        error = exceptions.NotFound()
    elif isinstance(error, PermissionDenied):
        error = exceptions.PermissionDenied()
    elif isinstance(error, RequestDataTooBig):
        error = BodyTooLarge()
    if isinstance(error, exceptions.ValidationError):
        body = problem_body(
            status_code=422,
            detail="One or more fields are invalid",
            code="invalid_input",
            fields=field_messages(error.detail),
        )
        return Response(body, status=422, content_type=MEDIA_TYPE)
    return _of_drf(error) if isinstance(error, exceptions.APIException) else None


def _of_ours(error: errors.Wms2Error, *, has_precondition: bool) -> Response:
    status_code = next(number for kind, number in _STATUS if isinstance(error, kind))
    if isinstance(error, errors.StaleVersion) and has_precondition:
        status_code = status.HTTP_412_PRECONDITION_FAILED
    if status_code >= 500:
        logger.error("%s", error)
    fields = error.fields if isinstance(error, errors.InvalidInput) else None
    body = problem_body(
        status_code=status_code, detail=error.message, code=error.code, cure=error.cure, fields=fields
    )
    headers = {"Retry-After": str(_RETRY_AFTER_SEC)} if isinstance(error, errors.TransientError) else None
    if isinstance(error, errors.QuotaExceeded) and error.retry_after_sec is not None:
        headers = {"Retry-After": str(int(error.retry_after_sec) + 1)}
    return Response(body, status=status_code, headers=headers, content_type=MEDIA_TYPE)


def _of_drf(error: exceptions.APIException) -> Response:
    body = problem_body(status_code=error.status_code, detail=str(error.detail), code=str(error.default_code))
    headers: dict[str, str] = {}
    if challenge := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = challenge
    if wait := getattr(error, "wait", None):
        headers["Retry-After"] = str(int(wait) + 1)
    return Response(body, status=error.status_code, headers=headers, content_type=MEDIA_TYPE)


def field_messages(detail: Any, prefix: str = "") -> dict[str, str]:
    """Return DRF's nested field errors as one message per dotted field."""
    if isinstance(detail, dict):
        flat: dict[str, str] = {}
        for key, value in detail.items():
            deeper = f"{prefix}[{key}]" if isinstance(key, int) else f"{prefix}.{key}"
            flat |= field_messages(value, deeper if prefix else str(key))
        return flat
    if isinstance(detail, list) and any(isinstance(item, dict | list) for item in detail):
        flat = {}
        for index, item in enumerate(detail):
            flat |= field_messages(item, f"{prefix}[{index}]")
        return flat
    items = detail if isinstance(detail, list) else [detail]
    return {prefix or "body": " ".join(str(item) for item in items)}


def _plain(status_code: int, detail: str, code: str) -> JsonResponse:
    body = problem_body(status_code=status_code, detail=detail, code=code)
    return JsonResponse(body, status=status_code, content_type=MEDIA_TYPE)


def _page(request: HttpRequest, status_code: int, detail: str, cure: str = "") -> HttpResponse:
    """Return an error page without the console around it, which may be the cause of the error."""
    body = problem_body(status_code=status_code, detail=detail, code="", cure=cure)
    return HttpResponse(render_to_string("error.html", {"problem": body}), status=status_code)


def _in_api(request: HttpRequest) -> bool:
    return request.path.startswith("/api/")


@csrf_exempt
def unknown_url(request: HttpRequest) -> HttpResponse:
    """Answer a path below /api/ that is no endpoint."""
    return _plain(404, f"There is no {request.path} here. See /api/v1/docs for all paths", "not_found")


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer Django's own 400, such as an unknown host or a malformed header."""
    if _in_api(request):
        return _plain(400, "The HTTP request is malformed or not meant for this host", "bad_request")
    return _page(
        request, 400, "The HTTP request is malformed or not meant for this host.", "Go back and try again"
    )


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _page(request, 403, f"{request.user} is not allowed to do this.")


def stale_form(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Answer a form that was opened before the present login."""
    return _page(
        request, 403, "The form is older than your login.", "Go back, reload the page and submit again"
    )


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _page(
        request, 404, f"There is no {request.path} here.", "Check the address, or search for it in a list"
    )


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer a bug or a missing database. The log has the traceback under the same request id."""
    if isinstance(sys.exc_info()[1], InterfaceError | OperationalError):
        message, code = "The database does not answer", errors.ServiceUnavailable.code
        answer = _plain(503, message, code) if _in_api(request) else _page(request, 503, f"{message}.")
        answer.headers["Retry-After"] = str(_RETRY_AFTER_SEC)
        return answer
    if _in_api(request):
        return _plain(500, "An unexpected error; the log has it under this request_id", "internal_error")
    return _page(request, 500, "An unexpected error; the log has it under this request id.")
