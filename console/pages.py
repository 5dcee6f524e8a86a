"""The tables of pages and fragments, and the view that serves fragments."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotModified

from console.admission.views import ADMISSION
from console.alerts.views import ALERTS
from console.audit.views import AUDIT
from console.chain.views import CHAIN
from console.fragments import FRAGMENTS, render
from console.guide.views import GUIDE
from console.health.views import HEALTH
from console.home.views import HOME
from console.outputs.views import OUTPUTS
from console.page import Page
from console.request.views import REQUEST_STATUS, REQUEST_WORK
from console.requests.views import REQUESTS
from console.settings_page.views import SETTINGS
from console.sites.views import OWN_SITES, SITE, SITES
from wms2_project.access.roles import role_of
from wms2_project.errors import NotFound

PAGES: tuple[Page, ...] = (SITES, SITE, ADMISSION, OUTPUTS, ALERTS, AUDIT, SETTINGS, HEALTH, GUIDE)
# Of pages with a view of their own
_OTHERS = (HOME, REQUESTS, REQUEST_STATUS, REQUEST_WORK, CHAIN, OWN_SITES)
FRAGMENTS.update((one.name, one) for one in (*_OTHERS, *(page.fragment for page in PAGES)))


def fragment_view(request: HttpRequest, name: str) -> HttpResponse:
    """Return the fragment, or 304 if the caller has it already."""
    fragment, role = FRAGMENTS.get(name), role_of(request.user)
    if fragment is None:
        raise Http404
    if role < fragment.role:
        raise PermissionDenied
    try:
        rendered = render(fragment, request.GET.get("of", ""), role)
    except NotFound as error:
        raise Http404 from error
    known = request.headers.get("If-None-Match") == rendered.etag
    answer = HttpResponseNotModified() if known else HttpResponse(rendered.html)
    answer["ETag"], answer["Cache-Control"] = rendered.etag, "private, no-cache"
    return answer
