"""The HTTP server of the simulated services."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

from lab.cms_world.answers import Answers
from lab.cms_world.known import Credentials
from lab.cms_world.messages import Call, Reply, json_reply, parse_target
from lab.grid.description import Grid

log = logging.getLogger(__name__)

MAX_BODY_BYTES = 256 * 1024 * 1024


class World(Answers):
    """A running server on 127.0.0.1; port 0 takes a free one."""

    def __init__(
        self,
        state_dir: Path,
        *,
        port: int = 0,
        credentials: Credentials | None = None,
        grid: Grid | None = None,
    ) -> None:
        super().__init__(state_dir, credentials=credentials, grid=grid)
        self._connections: set[socket.socket] = set()
        handler = type("WorldHandler", (Handler,), {"world": self})
        self._server = _Server(("127.0.0.1", port), handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def serve(self, *, notice_stop_sec: float = 0.2) -> None:
        """Serve until stopped."""
        self._server.serve_forever(poll_interval=notice_stop_sec)

    def stop(self) -> None:
        """Close all connections and the store. Call it from another thread than `serve`."""
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        for connection in list(self._connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.store.close()

    def track(self, connection: socket.socket, *, is_open: bool) -> None:
        (self._connections.add if is_open else self._connections.discard)(connection)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class Handler(BaseHTTPRequestHandler):
    """Reads a whole request and sends a whole reply."""

    world: ClassVar[World]
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.world.track(self.connection, is_open=True)

    def finish(self) -> None:
        self.world.track(self.connection, is_open=False)
        with suppress(OSError):
            super().finish()

    def serve_call(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > MAX_BODY_BYTES:
            self._send(json_reply({"error": "body too large"}, 413))
            return
        service, parts, query = parse_target(self.path)
        call = Call(
            method=self.command,
            service=service,
            parts=parts,
            query=query,
            headers=self.headers,
            body=self.rfile.read(length),
            now=time.time(),
            target=self.path,
        )
        try:
            reply = self.world.answer(call)
        except Exception:
            log.exception("%s %s failed", self.command, self.path)
            reply = json_reply({"error": "the world failed; see its log"}, 500)
        if reply is None:
            self.close_connection = True
        else:
            self._send(reply)

    do_GET: Callable[[Handler], None] = serve_call
    do_POST: Callable[[Handler], None] = serve_call
    do_PUT: Callable[[Handler], None] = serve_call
    do_DELETE: Callable[[Handler], None] = serve_call

    def _send(self, reply: Reply) -> None:
        # The caller may have closed the connection.
        with suppress(OSError):
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.content_type)
            self.send_header("Content-Length", str(len(reply.body)))
            for name, value in reply.headers.items():
                self.send_header(name, " ".join(value.encode("ascii", "replace").decode().split()))
            self.end_headers()
            self.wfile.write(reply.body)
            self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        log.debug(format, *args)


@contextmanager
def running_world(
    state_dir: Path, *, port: int = 0, credentials: Credentials | None = None, grid: Grid | None = None
) -> Iterator[World]:
    """Serve in a thread of this process, for tests and for seeding a lab."""
    world = World(state_dir, port=port, credentials=credentials, grid=grid)
    thread = threading.Thread(target=world.serve, kwargs={"notice_stop_sec": 0.005}, daemon=True)
    thread.start()
    try:
        yield world
    finally:
        world.stop()
        thread.join()
