"""TLS in front of a plain server: production calls services by https only, and the lab's speak http."""

from __future__ import annotations

import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

CHUNK = 65536
IDLE_SEC = 60.0


@contextmanager
def relay(url: str, certificate: Path) -> Iterator[str]:
    """Yield an https address that leads to the server at the url."""
    behind, context = urlsplit(url), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    class Relay(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            address = (behind.hostname or "", behind.port or 80)
            with suppress(OSError), socket.create_connection(address, timeout=IDLE_SEC) as plain:
                self.request.settimeout(IDLE_SEC)
                with context.wrap_socket(self.request, server_side=True) as closed:
                    back = threading.Thread(target=pump, args=(plain, closed), daemon=True)
                    back.start()
                    pump(closed, plain)
                    back.join()

    with _Server(("127.0.0.1", 0), Relay) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"https://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 100


def pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(CHUNK):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
