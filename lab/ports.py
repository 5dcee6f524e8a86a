"""Loopback ports: stable over restarts and never shared with another stack."""

from __future__ import annotations

import json
import random
import socket
from pathlib import Path

from lab.errors import LabError
from lab.files import read_json, write_atomically

# below the ephemeral range, so that no outgoing connection occupies one between two starts
RANGE = range(20000, 32000)
TRIES = 200


class PortBook:
    """Assigns ports by name and stores them in a file. Ports stay reserved while the book is open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ports: dict[str, int] = {k: v for k, v in read_json(path).items() if isinstance(v, int)}
        self._held: list[socket.socket] = []

    def pick(self, name: str, *, preferred: int | None = None) -> int:
        """Return the last port of this name if it is free, else the preferred one, else any."""
        tries = [self._ports.get(name), preferred, *random.sample(RANGE, TRIES)]
        for port in tries:
            if port is not None and self._take(port):
                return self._remember(name, port)
        raise LabError(
            f"no free loopback port for {name} among {TRIES} tried: end some programs and try again"
        )

    def insist(self, name: str, port: int, *, setting: str) -> int:
        """Return exactly this port; raise LabError if it is in use."""
        if not self._take(port):
            raise LabError(
                f"port {port} ({setting}) is in use or not allowed: stop what listens on 127.0.0.1:{port}, "
                f"choose another {setting}, or unset it to use a free port"
            )
        return self._remember(name, port)

    def close(self) -> None:
        for held in self._held:
            held.close()
        self._held.clear()

    def _remember(self, name: str, port: int) -> int:
        self._ports[name] = port
        write_atomically(self.path, json.dumps(self._ports))
        return port

    def _take(self, port: int) -> bool:
        """Reserve a TCP port by holding the UDP port of the same number.

        This is atomic, works across users and is released by the kernel. Without it two stacks that start
        at the same time could take the same port.
        """
        lock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            lock.bind(("127.0.0.1", port))
            with socket.socket() as tcp:
                tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                tcp.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            lock.close()
            return False
        self._held.append(lock)
        return True
