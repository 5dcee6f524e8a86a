"""What a browser may load and run on our pages: nothing from elsewhere, no script written into a page."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

_NOTHING = "default-src 'none'; frame-ancestors 'none'"
_PAGE = (
    "default-src 'self'; script-src {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
    " font-src 'self' data:; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
_API, _DOCS, _CONSOLE = "/api/", "/api/v1/docs", "/admin/"


class ContentSecurityMiddleware:
    """Data gets a policy that allows nothing; pages get one that allows our own files."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Add the policy to the answer."""
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", policy_for(request.path))
        return response


def policy_for(path: str) -> str:
    """The policy of what is served there. The console's Alpine.js compiles what stands in attributes."""
    if path.startswith(_API) and path != _DOCS:
        return _NOTHING
    return _PAGE.format(scripts="'self' 'unsafe-eval'" if path.startswith(_CONSOLE) else "'self'")
