"""The token issuer: discovery, public keys, and tokens for one client, over HTTPS on loopback.

`python -m lab.grid.issuer --port N --certificates DIR --client-id ID --client-secret-file FILE` serves until
SIGTERM.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import hmac
import json
import logging
import ssl
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import socket
from typing import Any, ClassVar
from urllib.parse import parse_qs

from lab.grid.certificates import Certificates
from lab.grid.tokens import (
    DEFAULT_LIFETIME_SEC,
    MAX_LIFETIME_SEC,
    BadScope,
    Signer,
    build_claims,
    parse_scopes,
)

log = logging.getLogger(__name__)

DISCOVERY = "/.well-known/openid-configuration"
MAX_BODY_BYTES = 64 * 1024
CLIENT_TIMEOUT_SEC = 10.0
REALM = {"WWW-Authenticate": 'Basic realm="WMS2 lab issuer"'}


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, a JSON document, and headers beyond the usual ones."""

    status: HTTPStatus
    document: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Issuer:
    """The answers of the issuer, without the network."""

    url: str
    signer: Signer
    client_id: str
    client_secret: str = field(repr=False)

    def page(self, path: str) -> Answer:
        """Return the answer to a GET."""
        match path:
            case "/.well-known/openid-configuration":
                return Answer(HTTPStatus.OK, self._discovery())
            case "/jwks":
                return Answer(HTTPStatus.OK, {"keys": [self.signer.public_key]})
            case _:
                return Answer(HTTPStatus.NOT_FOUND, {"error": f"there is no page {path}"})

    def token(self, *, authorization: str, body: str, now: float) -> Answer:
        """Return the answer to POST /token, by RFC 6749 for client credentials."""
        if not self._is_client(authorization):
            return _refused("invalid_client", "the client id or secret is wrong", HTTPStatus.UNAUTHORIZED)
        form = {name: values[-1] for name, values in parse_qs(body).items()}
        if form.get("grant_type") != "client_credentials":
            return _refused("unsupported_grant_type", "grant_type must be client_credentials")
        try:
            scopes = parse_scopes(form.get("scope", ""))
        except BadScope as error:
            return _refused("invalid_scope", str(error))
        lifetime = form.get("expires_in", str(DEFAULT_LIFETIME_SEC))
        if not lifetime.isdecimal() or not 0 < int(lifetime) <= MAX_LIFETIME_SEC:
            limits = f"between 1 and {MAX_LIFETIME_SEC}"
            return _refused("invalid_request", f"expires_in must be a number of seconds {limits}")
        claims = build_claims(
            issuer=self.url,
            subject=self.client_id,
            scopes=scopes,
            audience=form.get("audience", "").split(),
            lifetime_sec=int(lifetime),
            now=now,
        )
        token = {"access_token": self.signer.sign(claims), "token_type": "Bearer"}
        return Answer(
            HTTPStatus.OK,
            {**token, "expires_in": int(lifetime), "scope": claims["scope"]},
            {"Cache-Control": "no-store"},
        )

    def _discovery(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "jwks_uri": f"{self.url}/jwks",
            "token_endpoint": f"{self.url}/token",
            "grant_types_supported": ["client_credentials"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }

    def _is_client(self, authorization: str) -> bool:
        scheme, _, encoded = authorization.partition(" ")
        try:
            given = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            return False
        known = f"{self.client_id}:{self.client_secret}".encode()
        return scheme.lower() == "basic" and hmac.compare_digest(given, known)


def _refused(error: str, description: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> Answer:
    headers = REALM if status is HTTPStatus.UNAUTHORIZED else {}
    return Answer(status, {"error": error, "error_description": description}, headers)


class Handler(BaseHTTPRequestHandler):
    issuer: ClassVar[Issuer]
    timeout = CLIENT_TIMEOUT_SEC

    def do_GET(self) -> None:
        self._send(self.issuer.page(self.path))

    def do_POST(self) -> None:
        given = self.headers.get("Content-Length", "")
        length = int(given) if given.isdecimal() else 0
        # somewhat more is read than is allowed: an unread body would reset the connection before the answer
        body = self.rfile.read(min(length, 10 * MAX_BODY_BYTES)).decode("utf-8", "replace")
        if self.path != "/token" or length > MAX_BODY_BYTES:
            self._send(_refused("invalid_request", f"post at most {MAX_BODY_BYTES} bytes to /token"))
            return
        authorization = self.headers.get("Authorization", "")
        self._send(self.issuer.token(authorization=authorization, body=body, now=time.time()))

    def _send(self, answer: Answer) -> None:
        body = json.dumps(answer.document).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        log.debug(format, *args)


class Server(ThreadingHTTPServer):
    """Serves on 127.0.0.1. A client's TLS handshake happens in the client's own thread."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port: int, handler: type[Handler], context: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", port), handler)
        self._context = context

    def get_request(self) -> tuple[socket, Any]:
        connection, address = super().get_request()
        connection.settimeout(CLIENT_TIMEOUT_SEC)
        secured = self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return secured, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log one line, because clients without the CA or with closed connections are frequent."""
        log.info("the connection of %s failed", client_address, exc_info=log.isEnabledFor(logging.DEBUG))


def make_server(issuer: Issuer, *, port: int, certificates: Certificates) -> Server:
    """Return a listening server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.host, certificates.host_key)
    return Server(port, type("IssuerHandler", (Handler,), {"issuer": issuer}), context)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.grid.issuer", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--certificates", type=Path, required=True)
    parser.add_argument("--client-id", required=True)
    parser.add_argument("--client-secret-file", type=Path, required=True)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    certificates = Certificates(arguments.certificates)
    issuer = Issuer(
        url=f"https://localhost:{arguments.port}",
        signer=Signer.load(certificates.token_key),
        client_id=arguments.client_id,
        client_secret=arguments.client_secret_file.read_text(encoding="utf-8").strip(),
    )
    print(f"token issuer at {issuer.url}", flush=True)
    make_server(issuer, port=arguments.port, certificates=certificates).serve_forever()


if __name__ == "__main__":
    main()
