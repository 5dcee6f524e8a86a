"""`python -m wms2_project.flower`: Flower with a password for every page and a limit on failed attempts.

Flower itself leaves /metrics and static files open and does not limit attempts. Every request passes
`ClosedFlower.find_handler`, so no page is left out.
"""

from __future__ import annotations

import hmac
import sys
from base64 import b64decode
from typing import Any

from flower.app import Flower
from flower.command import apply_env_options, apply_options, extract_settings, setup_logging
from flower.urls import settings as flower_settings
from tornado.httputil import HTTPServerRequest
from tornado.options import options
from tornado.web import RequestHandler

from wms2_project.access.proxies import forwarded_address
from wms2_project.access.throttles import address_block, seconds_to_wait, seconds_until_allowed
from wms2_project.celery import app

OPEN = "/healthcheck"  # returns only "OK"


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
    """Flower with a password for all pages."""

    def find_handler(self, request: HTTPServerRequest, **kwargs: Any) -> Any:
        """Return the page's handler, or the refusal."""
        if request.path == OPEN:
            return super().find_handler(request, **kwargs)
        peer, forwarded = str(request.remote_ip), request.headers.get("X-Forwarded-For", "")
        address = address_block(forwarded_address(peer, forwarded))
        wait_sec = seconds_until_allowed("failures", address)
        if not wait_sec and _knows_password(request.headers.get("Authorization", "")):
            return super().find_handler(request, **kwargs)
        wait_sec = wait_sec or seconds_to_wait("failures", address)
        return self.get_handler_delegate(request, Refusal, {"wait_sec": wait_sec})


def _knows_password(header: str) -> bool:
    kind, _, encoded = header.partition(" ")
    try:
        given = b64decode(encoded, validate=True)
    except ValueError:
        return False
    return kind == "Basic" and any(hmac.compare_digest(given, one.encode()) for one in options.basic_auth)


def main(arguments: list[str]) -> None:
    """Serve until terminated."""
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
