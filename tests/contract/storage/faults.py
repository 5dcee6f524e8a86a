"""Unreachable servers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def closed_port() -> Iterator[int]:
    """Yield a port of this machine that refuses connections."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))  # bound, but not listening
        yield holder.getsockname()[1]
