"""A small WebDAV server of a directory that fails on demand, for rare behaviour of real storages."""

from __future__ import annotations

import contextlib
import datetime
import re
import shutil
import ssl
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PATIENCE_SEC = 60.0  # of a server that hangs, unless the test ends before


@dataclass(slots=True)
class Fault:
    """A fault of the next requests of a method; `times` None = all of them."""

    method: str
    status: int = 0  # answer with this status
    text: str = ""
    location: str = ""  # redirect to this URL
    cut: bool = False  # send half of the content, or take half of it
    drop: bool = False  # close the connection without an answer
    hang: bool = False
    late: bool = False  # refuse in the middle of an upload
    times: int | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """One request."""

    method: str
    path: str
    token: str
    connection: int


@dataclass(slots=True)
class Server:
    """A running server. `tokens` empty = no authorisation is needed."""

    url: str
    root: Path
    faults: list[Fault] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    has_checksums: bool = True
    makes_parents: bool = True
    renames_over_files: bool = True
    stopping: threading.Event = field(default_factory=threading.Event)

    def file(self, lfn: str, content: bytes) -> Path:
        """Put a file there."""
        path = self.root / lfn.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def files(self) -> list[str]:
        """List the files, relative to the root."""
        return sorted(f"/{one.relative_to(self.root)}" for one in self.root.rglob("*") if one.is_file())

    def methods(self) -> list[str]:
        """List the methods of the requests so far."""
        return [one.method for one in self.seen]

    def take(self, method: str) -> Fault | None:
        """Return the fault for the next request of this method."""
        for fault in self.faults:
            if fault.method == method:
                if fault.times is not None:
                    fault.times -= 1
                    if not fault.times:
                        self.faults.remove(fault)
                return fault
        return None


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    served: Server
    connections = iter(range(10**9))

    def setup(self) -> None:
        super().setup()
        self.number = next(self.connections)

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""

    def handle_expect_100(self) -> bool:
        return True  # answered when the request is

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return lambda: self._handle(name[3:])
        raise AttributeError(name)

    def _handle(self, method: str) -> None:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        self.served.seen.append(Seen(method, unquote(urlsplit(self.path).path), token, self.number))
        fault = self.served.take(method) or Fault(method)
        if fault.hang:
            self.served.stopping.wait(PATIENCE_SEC)
        if fault.hang or fault.drop:
            self.close_connection = True
            return
        if self.served.tokens and token not in self.served.tokens:
            self._answer(403, b"permission denied")
        elif fault.location:
            self._answer(307, headers={"Location": fault.location})
        elif fault.status and not fault.late:
            self._answer(fault.status, fault.text.encode())
        else:
            {
                "GET": self._get, "HEAD": self._head, "PUT": self._put, "DELETE": self._delete,
                "MOVE": self._move, "COPY": self._copy, "PROPFIND": self._list, "MKCOL": self._make,
            }[method](fault)  # fmt: skip

    def _path(self, url: str) -> Path:
        return self.served.root / unquote(urlsplit(url).path).strip("/")

    def _answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        if self.headers.get("Expect"):
            self.close_connection = True  # its content is not read
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if "Content-Length" not in (headers or {}):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _get(self, fault: Fault) -> None:
        path = self._path(self.path)
        if not path.is_file():
            return self._answer(404, b"no such file")
        content, status = path.read_bytes(), 200
        if wanted := re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", "")):
            content, status = content[int(wanted[1]) : int(wanted[2]) + 1], 206
        if fault.cut:
            self.close_connection = True
            length = {"Content-Length": str(len(content))}
            return self._answer(status, content[: len(content) // 2], length)
        return self._answer(status, content)

    def _head(self, _fault: Fault) -> None:
        path = self._path(self.path)
        if not path.is_file():
            return self._answer(404)
        content = path.read_bytes()
        headers = {"Content-Length": str(len(content))}
        if self.served.has_checksums:
            headers["Digest"] = f"adler32={zlib.adler32(content):x}"
        return self._answer(200, headers=headers)

    def _put(self, fault: Fault) -> None:
        path, size = self._path(self.path), int(self.headers["Content-Length"])
        if self.served.makes_parents:
            path.parent.mkdir(parents=True, exist_ok=True)
        if not path.parent.is_dir():
            return self._answer(409, b"no such directory")
        if self.headers.get("Expect"):
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        content = self.rfile.read(size // 2 if fault.cut or fault.late else size)
        path.write_bytes(content)
        if fault.late:
            self._answer(fault.status, fault.text.encode())
            self.rfile.read(size - len(content))  # closing before would lose the answer
            return None
        if fault.cut:
            self.rfile.read(size - len(content))
        del self.headers["Expect"]
        return self._answer(201)

    def _delete(self, _fault: Fault) -> None:
        path = self._path(self.path)
        if path.is_dir():
            shutil.rmtree(path)  # as some storages do
            return self._answer(204)
        if not path.exists():
            return self._answer(404)
        path.unlink()
        return self._answer(204)

    def _move(self, _fault: Fault) -> None:
        source, target = self._path(self.path), self._path(self.headers["Destination"])
        if not source.exists():
            return self._answer(404)
        if target.exists() and not self.served.renames_over_files:
            return self._answer(412)
        source.replace(target)
        return self._answer(201)

    def _copy(self, fault: Fault) -> None:
        source = self._path(self.headers["Source"])
        target = self._path(self.path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if fault.cut:
            return self._answer(202, b"Perf Marker\nEnd\nfailure: the source is gone\n")
        shutil.copyfile(source, target)
        return self._answer(202, b"Perf Marker\nEnd\nsuccess: Created\n")

    def _make(self, _fault: Fault) -> None:
        path = self._path(self.path)
        if path.exists() or not path.parent.is_dir():
            return self._answer(405 if path.exists() else 409)
        path.mkdir()
        return self._answer(201)

    def _list(self, fault: Fault) -> None:
        path = self._path(self.path)
        if not path.exists():
            return self._answer(404)
        entries = [path, *sorted(path.iterdir())] if path.is_dir() else [path]
        found = "".join(
            f"<d:response><d:href>{quote('/' + str(one.relative_to(self.served.root)))}</d:href><d:propstat>"
            f"<d:prop><d:resourcetype>{'<d:collection/>' if one.is_dir() else ''}</d:resourcetype></d:prop>"
            "</d:propstat></d:response>"
            for one in entries
        )
        body = f'<?xml version="1.0"?>{fault.text}<d:multistatus xmlns:d="DAV:">{found}</d:multistatus>'
        return self._answer(207, body.encode())


@contextmanager
def serving(root: Path, *, secure: bool = True) -> Iterator[Server]:
    """Serve a directory on a free port of this machine."""
    root.mkdir(parents=True, exist_ok=True)
    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if secure:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(*certificate())
        http.socket = tls.wrap_socket(http.socket, server_side=True)
    scheme = "davs" if secure else "http"
    server = Server(f"{scheme}://localhost:{http.server_address[1]}", root)
    http.RequestHandlerClass = type("Handler", (Handler,), {"served": server})
    http.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients that go away
    http.daemon_threads = True
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stopping.set()
        http.shutdown()
        http.server_close()
        thread.join()


@cache
def certificate() -> tuple[Path, Path]:
    """Make a certificate of its own authority for localhost; return its file and that of its key."""
    directory = Path(mkdtemp(prefix="wms2-tls-"))
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = directory / "host.pem", directory / "host.key"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    paths[1].write_bytes(key.private_bytes(*private))
    return paths


Serve = Callable[..., Server]


@contextmanager
def servers(root: Path) -> Iterator[Serve]:
    """Yield a function that starts servers; all of them end with the block."""
    with contextlib.ExitStack() as stack:

        def serve(name: str = "storage", *, secure: bool = True) -> Server:
            return stack.enter_context(serving(root / name, secure=secure))

        yield serve
