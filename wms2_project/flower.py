"""`python -m wms2_project.flower`: Flower with a password before every page and a limit on wrong ones.

Flower itself leaves /metrics and the static files open and counts no attempts. Everything passes through
`find_handler` here, so no page can be forgotten.
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

OPEN = "/healthcheck"  # says OK and nothing else


class Refusal(RequestHandler):
    """Answers 401, or 429 while the address has given too many wrong passwords."""

    def initialize(self, wait_sec: float) -> None:
        """Take how long the caller has to wait."""
        self.wait_sec = wait_sec

    def prepare(self) -> None:
        """Answer every method alike."""
        if self.wait_sec:
            self.set_status(429)
            self.set_header("Retry-After", str(int(self.wait_sec) + 1))
            self.finish("Too many attempts")
        else:
            self.set_status(401)
            self.set_header("WWW-Authenticate", 'Basic realm="WMS2 Flower"')
            self.finish("Access denied")


class ClosedFlower(Flower):  # type: ignore[misc]
    """Flower whose pages all need the password."""

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
    """Serve until a signal ends it."""
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
