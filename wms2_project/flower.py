"""`python -m wms2_project.flower`: Flower for operators logged in to the console, or with a password.

Flower itself leaves /metrics and static files open and does not limit attempts. Every request passes
`ClosedFlower.find_handler`, so no page is left out.
"""

from __future__ import annotations

import hmac
import sys
from base64 import b64decode, b64encode
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlencode

import django
from django.conf import settings
from flower.app import Flower
from flower.command import apply_env_options, apply_options, extract_settings, setup_logging
from flower.urls import settings as flower_settings
from tornado.httputil import HTTPServerRequest
from tornado.options import options
from tornado.web import RequestHandler

from wms2_project.access.proxies import forwarded_address
from wms2_project.access.throttles import address_block, seconds_to_wait, seconds_until_allowed
from wms2_project.celery import app

_sessions = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sessions")
SESSION_SEC = 10.0
OPEN = "/healthcheck"  # returns only "OK"
FROM_CONSOLE = "/admin/console/flower"  # asks for a login and leads to a page of Flower


class ToLogin(RequestHandler):
    """Sends a browser to the console's login, which leads back to Flower."""

    def prepare(self) -> None:
        page = urlencode({"page": self.request.uri})
        self.redirect(f"{settings.CONSOLE_URL.rstrip('/')}{FROM_CONSOLE}?{page}", status=303)


class Refusal(RequestHandler):
    """Responds with 401, or 429 after too many wrong passwords from the address."""

    def initialize(self, wait_sec: float) -> None:
        self.wait_sec = wait_sec

    def prepare(self) -> None:
        if self.wait_sec:
            self.set_status(429)
            self.set_header("Retry-After", str(int(self.wait_sec) + 1))
            self.finish("Too many attempts")
        else:
            self.set_status(401)
            self.set_header("WWW-Authenticate", 'Basic realm="WMS2 Flower"')
            self.finish("Access denied")


class ClosedFlower(Flower):  # type: ignore[misc]
    """Flower behind the console's login or a password, on all pages."""

    def find_handler(self, request: HTTPServerRequest, **kwargs: Any) -> Any:
        """Return the page's handler, or the refusal."""
        if request.path == OPEN:
            return super().find_handler(request, **kwargs)
        if _operates(request):  # Flower's own pages ask for the password, too
            request.headers["Authorization"] = f"Basic {b64encode(options.basic_auth[0].encode()).decode()}"
            return super().find_handler(request, **kwargs)
        if settings.CONSOLE_URL and _is_page_of_browser(request):
            return self.get_handler_delegate(request, ToLogin)
        peer, forwarded = str(request.remote_ip), request.headers.get("X-Forwarded-For", "")
        address = address_block(forwarded_address(peer, forwarded))
        wait_sec = seconds_until_allowed("failures", address)
        if not wait_sec and _knows_password(request.headers.get("Authorization", "")):
            return super().find_handler(request, **kwargs)
        wait_sec = wait_sec or seconds_to_wait("failures", address)
        return self.get_handler_delegate(request, Refusal, {"wait_sec": wait_sec})


def _is_page_of_browser(request: HTTPServerRequest) -> bool:
    """Return whether a browser opens a page without a password."""
    accepts = request.headers.get("Accept", "")
    return request.method == "GET" and "text/html" in accepts and "Authorization" not in request.headers


def _operates(request: HTTPServerRequest) -> bool:
    """Return whether the request has the console's session of an operator.

    A browser sends the cookie because Flower is at the host of the console. The cookie is SameSite=Lax, so
    that pages of other hosts cannot send commands with it.
    """
    cookie = request.cookies.get(settings.SESSION_COOKIE_NAME)
    return cookie is not None and _sessions.submit(_is_operator, cookie.value).result(SESSION_SEC)


def _is_operator(session_key: str) -> bool:
    """Read the session, in a thread because Django refuses to use the database in an event loop."""
    from wms2_project.access.roles import Role, session_role  # models: only after django.setup()

    return session_role(session_key) >= Role.OPERATOR


def _knows_password(header: str) -> bool:
    kind, _, encoded = header.partition(" ")
    try:
        given = b64decode(encoded, validate=True)
    except ValueError:
        return False
    return kind == "Basic" and any(hmac.compare_digest(given, one.encode()) for one in options.basic_auth)


def main(arguments: list[str]) -> None:
    """Serve until terminated."""
    django.setup()
    apply_env_options()
    apply_options(sys.argv[0], arguments)
    if not options.basic_auth:
        sys.exit("Flower needs a password: set FLOWER_BASIC_AUTH to user:password")
    extract_settings()
    setup_logging()
    served = ClosedFlower(capp=app, options=options, **flower_settings)
    served.start_http_server()
    served.start()


if __name__ == "__main__":
    main(sys.argv[1:])
