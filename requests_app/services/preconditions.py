"""Preconditions of every action on a request."""

from __future__ import annotations

from requests_app.models import Request
from wms2_project.access import audit
from wms2_project.errors import StaleVersion


def check_action(request: Request, *, reason: str, expected_version: int | None) -> None:
    """Raise without a reason, or if the request changed since the caller read it."""
    audit.need_reason(reason)
    if expected_version is not None and expected_version != request.version:
        raise StaleVersion(
            f"{request.request_name} changed since you read it", cure="Read it again and retry"
        )
