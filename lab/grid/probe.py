"""Readiness probes of the grid's servers."""

from __future__ import annotations

import http.client
import socket
import ssl
from pathlib import Path

TIMEOUT_SEC = 1.0


def accepts(port: int) -> bool:
    """Return whether a process accepts connections on this loopback port."""
    with socket.socket() as probe:
        probe.settimeout(TIMEOUT_SEC)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def answers(port: int, path: str, *, ca: Path) -> int:
    """Return the status of an HTTPS request, 0 if there is no answer.

    XRootD accepts connections before it has read its configuration, so that an open port does not prove
    readiness.
    """
    context = ssl.create_default_context(cafile=str(ca))
    connection = http.client.HTTPSConnection("localhost", port, timeout=TIMEOUT_SEC, context=context)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()
