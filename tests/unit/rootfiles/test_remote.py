"""A ROOT file on an HTTPS server, read by ranges with the job's token."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from rootfiles.errors import RootFileError
from rootfiles.inspect import inspect
from rootfiles.skim import Selection, SkimSource, skim
from tests.unit.rootfiles.conftest import MakeFile, numbers

TOKEN = "a-token"


class Handler(BaseHTTPRequestHandler):
    """Serves one directory by ranges, to callers with the token."""

    root: Path
    asked: list[str]

    def do_HEAD(self) -> None:
        self._serve(body=False)

    def do_GET(self) -> None:
        self._serve(body=True)

    def _serve(self, *, body: bool) -> None:
        path = self.root / self.path.strip("/")
        if self.headers.get("Authorization") != f"Bearer {TOKEN}" or not path.is_file():
            self.send_error(404 if path.name == "missing.root" else 403)
            return
        data, wanted = path.read_bytes(), self.headers.get("Range", "")
        if wanted:
            first, last = (int(text) for text in wanted.removeprefix("bytes=").split("-"))
            data = data[first : last + 1]
            self.asked.append(wanted)
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


def certificate(place: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = place / "server.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    bundle = certificate(tmp_path)
    handler = type("Own", (Handler,), {"root": tmp_path, "asked": []})
    made = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(bundle)
    made.socket = context.wrap_socket(made.socket, server_side=True)
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    monkeypatch.delenv("BEARER_TOKEN", raising=False)
    monkeypatch.setenv("BEARER_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("X509_CERT_FILE", str(bundle))
    yield f"https://127.0.0.1:{made.server_address[1]}"
    made.shutdown()
    made.server_close()
    thread.join()


def test_a_remote_file_is_inspected_and_skimmed(server: str, make_file: MakeFile, tmp_path: Path) -> None:
    make_file("a.root", 100)
    target = str(tmp_path / "s.root")
    url = f"{server}/a.root"

    assert inspect(url).events == 100
    skim([SkimSource(url.replace("https", "davs"), 10, 19, events=100)], [target], Selection())
    assert numbers(target) == list(range(11, 21))


def test_a_file_that_the_server_does_not_give_is_unreachable(
    server: str, make_file: MakeFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_file("a.root", 10)
    with pytest.raises(RootFileError, match="404") as missing:
        inspect(f"{server}/missing.root")
    monkeypatch.setenv("BEARER_TOKEN_FILE", "/no/token")
    with pytest.raises(RootFileError, match="403") as denied:
        inspect(f"{server}/a.root")

    assert missing.value.kind == denied.value.kind == "unreachable"
    assert denied.value.source == f"{server}/a.root"
