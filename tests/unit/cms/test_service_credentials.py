"""Credentials for a service over TLS: a client certificate, or a token in a file that is renewed."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from cms.http import HttpOptions, JsonService
from lab.grid.certificates import Certificates
from tests.issuing import make_certificates
from wms2_project.errors import ServiceRejected, ServiceUnavailable


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def frontend(certificates: Certificates) -> Iterator[str]:
    """Yield a frontend that returns the certificate's name and the Authorization header of the caller."""

    class Frontend(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            peer: Any = self.connection.getpeercert()  # type: ignore[attr-defined]
            name = peer["subject"][0][0][1] if peer else ""
            body = json.dumps({"name": name, "header": self.headers.get("Authorization", "")}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Frontend)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.host, certificates.host_key)
    context.load_verify_locations(certificates.ca)
    context.verify_mode = ssl.CERT_OPTIONAL
    server.socket = context.wrap_socket(server.socket, server_side=True)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"https://localhost:{server.server_port}"
    server.shutdown()
    server.server_close()


def service(url: str, certificates: Certificates, **options: Any) -> JsonService:
    http = HttpOptions(retries=0, ca_path=str(certificates.ca), **options)
    return JsonService(service="DBS", base_url=url, options=http)


def test_a_renewed_token_is_sent_from_the_next_call_on(
    frontend: str, certificates: Certificates, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    dbs = service(frontend, certificates, token_file=str(token))

    token.write_text("first\n")
    first = dbs.get("who")["header"]
    token.write_text("second\n")
    second = dbs.get("who")["header"]

    assert (first, second) == ("Bearer first", "Bearer second")


@pytest.mark.parametrize("content", [None, "", "two tokens", "a\nb", "é"])
def test_a_file_without_a_token_is_named_and_its_content_is_not(
    frontend: str, certificates: Certificates, tmp_path: Path, content: str | None
) -> None:
    token = tmp_path / "token"
    if content is not None:
        token.write_text(content)

    with pytest.raises(ServiceRejected, match=str(token)) as refused:
        service(frontend, certificates, token_file=str(token)).get("who")
    assert not content or content not in str(refused.value)


def test_a_token_never_travels_without_tls(certificates: Certificates, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")

    with pytest.raises(ServiceRejected, match="https only"):
        service("http://localhost:1", certificates, token_file=str(token)).get("who")


@pytest.mark.parametrize("one_file", [True, False])
def test_a_certificate_and_its_key_may_be_in_one_file_or_two(
    frontend: str, certificates: Certificates, tmp_path: Path, one_file: bool
) -> None:
    both = tmp_path / "both.pem"
    both.write_bytes(certificates.host.read_bytes() + certificates.host_key.read_bytes())
    files = (
        {"client_cert": str(both)}
        if one_file
        else {"client_cert": str(certificates.host), "client_key": str(certificates.host_key)}
    )

    assert service(frontend, certificates, **files).get("who")["name"] == "localhost"


def test_a_certificate_that_is_not_there_makes_the_service_unavailable(
    frontend: str, certificates: Certificates
) -> None:
    with pytest.raises(ServiceUnavailable, match=r"/nowhere/cert\.pem"):
        service(frontend, certificates, client_cert="/nowhere/cert.pem").get("who")


def test_the_configured_ca_is_used_regardless_of_the_environment(
    frontend: str, certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_certificates(tmp_path / "other")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(other.ca))

    assert service(frontend, certificates).get("who")["name"] == ""
