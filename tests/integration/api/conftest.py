"""A ReqMgr2 with one request."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from dags_app.adapters import build_reqmgr2, use_adapters
from tests.integration.factories import DOCUMENT
from tests.stand_in import FromSettings


class ReqMgr2(BaseHTTPRequestHandler):
    """A ReqMgr2 with one request."""

    def do_GET(self) -> None:
        known = self.path.endswith(DOCUMENT["request_name"])
        body = json.dumps({"result": [{DOCUMENT["request_name"]: DOCUMENT}] if known else []}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Silence."""


@pytest.fixture
def reqmgr2(settings: Any) -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), ReqMgr2)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/reqmgr2"
    settings.CMS_SERVICES = settings.CMS_SERVICES | {"reqmgr2_url": url}
    with use_adapters(reqmgr2=FromSettings(build_reqmgr2)):
        yield
    server.shutdown()
    server.server_close()
