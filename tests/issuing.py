"""A token issuer for tests: the lab's own, in this process, or one with answers set by the test."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

from cms.http import HttpOptions
from cms.token_issuer import TokenIssuer, TokenIssuerConfig
from lab.grid.certificates import Certificates, ensure_certificates
from lab.grid.issuer import Issuer, make_server
from lab.grid.tokens import Signer

CLIENT_ID, SECRET = "wms2", "the-client-secret"
Answer = Callable[[str, dict[str, str]], tuple[int, Any]]


@dataclass
class RunningIssuer:
    """Address and client of the issuer, and the forms that were posted to it."""

    url: str
    ca: Path
    secret_file: Path
    forms: list[dict[str, str]] = field(default_factory=list)

    def client(self, **changes: Any) -> TokenIssuer:
        values: dict[str, Any] = {
            "url": self.url,
            "client_id": CLIENT_ID,
            "client_secret_file": str(self.secret_file),
            "http": HttpOptions(ca_path=str(self.ca)),
        }
        return TokenIssuer(TokenIssuerConfig(**(values | changes)))


def make_certificates(directory: Path) -> Certificates:
    return ensure_certificates(directory, now=datetime.now(UTC))


@contextmanager
def lab_issuer(certificates: Certificates, directory: Path) -> Iterator[RunningIssuer]:
    """Run the lab's issuer."""
    signer = Signer.load(certificates.token_key)
    issuer = Issuer(url="", signer=signer, client_id=CLIENT_ID, client_secret=SECRET)
    server = make_server(issuer, port=0, certificates=certificates)
    url = f"https://localhost:{server.server_port}"
    # its own address is part of what it answers
    server.RequestHandlerClass.issuer = Issuer(  # type: ignore[attr-defined]
        url=url, signer=signer, client_id=CLIENT_ID, client_secret=SECRET
    )
    with _serving(server):
        yield RunningIssuer(url, certificates.ca, _secret_file(directory))


@contextmanager
def scripted_issuer(
    certificates: Certificates, directory: Path, *, answer: Answer
) -> Iterator[RunningIssuer]:
    """Run an issuer that answers `answer(path, form)`, a status and a document; text is sent as it is."""
    running = RunningIssuer("", certificates.ca, _secret_file(directory))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(*answer(self.path, {}))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[-1] for name, values in parse_qs(body).items()}
            running.forms.append(form)
            self._send(*answer(self.path, form))

        def _send(self, status: int, document: Any) -> None:
            body = document.encode() if isinstance(document, str) else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Location", "https://localhost/elsewhere")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.host, certificates.host_key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    running.url = f"https://localhost:{server.server_port}"
    with _serving(server):
        yield running


@contextmanager
def _serving(server: ThreadingHTTPServer) -> Iterator[None]:
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _secret_file(directory: Path) -> Path:
    path = directory / "client.secret"
    path.write_text(f"{SECRET}\n")
    path.chmod(0o600)
    return path
