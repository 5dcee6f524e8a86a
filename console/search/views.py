"""The search of the palette, as JSON."""

from __future__ import annotations

from dataclasses import asdict

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, JsonResponse

from console.search.selector import search
from wms2_project.access.roles import Role, role_of


def search_view(request: HttpRequest) -> JsonResponse:
    """Return the hits of `q`."""
    role = role_of(request.user)
    if role < Role.VIEWER:
        raise PermissionDenied
    hits = search(request.GET.get("q", ""), role=role)
    answer = JsonResponse({"hits": [asdict(hit) for hit in hits]})
    answer["Cache-Control"] = "private, no-store"
    return answer
