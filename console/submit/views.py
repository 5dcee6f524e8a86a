"""The submit page. Planning and submission are those of the API; only the check while typing is its own."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.views.decorators.http import require_POST

import requests_app.api
from console.submit.checking import check_text
from requests_app.models import Request
from wms2_project.access.roles import Role, role_of

EXAMPLE = Path(requests_app.api.__file__).with_name("example.json")
NAMES = ("RequestName", "request_name")
LATEST = 30


def submit_page(request: HttpRequest) -> HttpResponse:
    """Render the form, filled with the example or the document of an earlier request."""
    _check_role(request)
    named = request.GET.get("from", "")
    text, problem = _initial(named)
    latest = Request.objects.order_by("-created_at", "-id").values_list("request_name", flat=True)
    context: dict[str, Any] = admin.site.each_context(request) | {
        "title": "Submit a request",
        "text": text,
        "from": named,
        "problem": problem,
        "latest": list(latest[:LATEST]),
        "addresses": {
            "check": reverse("console:submit-check"),
            "plan": reverse("request-plan"),
            "submit": reverse("request-list"),
            "request": reverse("admin:requests_app_request_change", args=["NAME"]),
        },
    }
    return TemplateResponse(request, "console/submit.html", context)


@require_POST
def check_view(request: HttpRequest) -> JsonResponse:
    """Return the problems of the text in the body."""
    _check_role(request)
    text = request.body.decode("utf-8", errors="replace")
    return JsonResponse(asdict(check_text(text)))


def _check_role(request: HttpRequest) -> None:
    if role_of(request.user) < Role.REQUESTOR:
        raise PermissionDenied


def _initial(named: str) -> tuple[str, str]:
    """Return the text to begin with, and a sentence if the named request does not exist."""
    if not named:
        return EXAMPLE.read_text(), ""
    found = Request.objects.filter(request_name=named.replace("\0", "")).first()
    if found is None:
        return EXAMPLE.read_text(), f"There is no request {named}. This is the example."
    document = dict(found.request_data)
    for name in NAMES:
        if name in document:
            document[name] = f"{document[name]}_copy"[:200]
    return json.dumps(document, indent=2, ensure_ascii=False), ""
