"""A token issuer with real keys behind a real HTTP server."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

AUDIENCE = "https://wms2.example.org"
CLIENT_SECRET = "between the two of us"


def _rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


_first_key = cache(_rsa_key)  # of every issuer: to make one takes a second on a busy machine


class Issuer:
    """Signs given claims, publishes its public keys, and counts its calls."""

    def __init__(self) -> None:
        self.private: dict[str, tuple[Any, str]] = {}
        self.asked: list[str] = []
        self.broken = False
        self.url = ""
        self.codes: dict[str, tuple[str, dict[str, Any]]] = {}  # by code: the PKCE challenge, the claims
        self.private["rsa-1"] = (_first_key(), "RS256")

    def redeem(self, form: dict[str, str]) -> dict[str, Any] | None:
        """Return tokens for a code: once, and only to the client that requested it."""
        challenge, claims = self.codes.pop(form.get("code", ""), ("", {}))
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        said = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if said != challenge or form.get("client_secret") != CLIENT_SECRET:
            return None
        return {"access_token": "unused", "id_token": self.token(**claims)}

    def add_key(self, key_id: str, algorithm: str) -> None:
        """Publish a new key."""
        key: Any = ec.generate_private_key(ec.SECP256R1()) if algorithm == "ES256" else _rsa_key()
        self.private[key_id] = (key, algorithm)

    def token(self, *, key_id: str = "rsa-1", header: dict[str, Any] | None = None, **claims: Any) -> str:
        """Return a token that is valid for five minutes unless the claims differ; None drops a claim."""
        key, algorithm = self.private[key_id]
        now = int(time.time())
        content = {"iss": self.url, "sub": "ana", "aud": AUDIENCE, "iat": now, "exp": now + 300} | claims
        kept = {name: value for name, value in content.items() if value is not None}
        return jwt.encode(kept, key, algorithm=algorithm, headers={"kid": key_id} | (header or {}))

    def answer(self, path: str) -> dict[str, Any] | None:
        """Return the document at this path."""
        self.asked.append(path)
        if self.broken:
            return None
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        if path == "/keys":
            return {"keys": [self._public(key_id) for key_id in self.private]}
        return None

    def _public(self, key_id: str) -> dict[str, Any]:
        key, algorithm = self.private[key_id]
        kind: Any = jwt.algorithms.get_default_algorithms()[algorithm]
        shown = kind.to_jwk(key.public_key(), as_dict=True)
        return dict(shown) | {"kid": key_id, "alg": algorithm, "use": "sig"}


@contextmanager
def running_issuer() -> Iterator[Issuer]:
    """Run an issuer on loopback."""
    issuer = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = issuer.answer(self.path)
            self.send_response(200 if body else 503)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            body = issuer.redeem(dict(parse_qsl(text)))
            self.send_response(200 if body else 400)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)
