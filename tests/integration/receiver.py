"""A real TLS server on loopback that keeps what is posted to it."""

from __future__ import annotations

import hmac
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, ClassVar

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from django.utils import timezone


class Receiver(BaseHTTPRequestHandler):
    """Answers with the next of the prepared statuses, and keeps the received messages."""

    answers: ClassVar[list[int]] = []
    got: ClassVar[list[tuple[dict[str, str], bytes]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
        self.send_response(self.answers.pop(0) if self.answers else 204)
        self.send_header("Location", "https://127.0.0.1/elsewhere")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Silence."""


def is_signed(headers: dict[str, str], body: bytes, *, secret: str) -> bool:
    """Return whether the signature of time and body is valid, with the shared secret."""
    signed = headers["x-wms2-timestamp"].encode() + b"." + body
    return headers["x-wms2-signature"] == f"sha256={hmac.new(secret.encode(), signed, 'sha256').hexdigest()}"


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "receiver")])
    now = timezone.now()
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(IPv4Address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "receiver.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


@contextmanager
def receiving(certificate: Path) -> Iterator[str]:
    """Yield the address of a running receiver."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Receiver.answers, Receiver.got = [], []
    yield f"https://localhost:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def receiver(certificate: Path, settings: Any) -> Iterator[str]:
    """Yield the address of a receiver with a trusted certificate."""
    settings.CALLBACK_CA_BUNDLE = str(certificate)
    with receiving(certificate) as url:
        yield url
