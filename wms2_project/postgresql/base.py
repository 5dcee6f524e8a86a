"""Connections that give up on an unresponsive PostgreSQL, and cursors that cannot deadlock when abandoned.

Only the web process gives up; workers wait longer. A frozen server keeps its sockets open and enforces no
timeout, so the client must. A statement may be slow or wait for a lock: after a while without a response, a
probe on a connection of its own decides whether the server is alive. An unanswered health check of a
connection only closes that connection.
"""

from __future__ import annotations

import socket
import struct
import time
from contextlib import closing
from typing import Any

import psycopg
from django.conf import settings
from django.db.backends.postgresql import base
from psycopg import errors
from psycopg.abc import RV, PQGen

SILENCE_SEC = 1.5  # time without a response before the server is probed
PROBE_SEC = 1.0
CONNECT_SEC = 2  # the least that psycopg accepts
REFUSE_SEC = 2.0  # after a failed probe: calls fail at once instead of queueing
_MARGIN_SEC = 5.0  # beyond the server's own limit of a statement
_SSL_REQUEST = struct.pack("!ii", 8, 80877103)  # every server answers it with one byte, before any login


class _Web:
    """State shared by the threads of the web process."""

    bounded = False
    silent_until = 0.0


def bound_waits() -> None:
    """Bound every wait for PostgreSQL in this process, on connections opened from now on."""
    _Web.bounded = True


class BoundedConnection(psycopg.Connection[Any]):
    """Connection that closes and raises OperationalError if the server does not respond."""

    checking = False

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Wait while the server is alive, but not much longer than a statement may take."""
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        limit_sec = settings.STATEMENT_TIMEOUT_MS / 1000 + _MARGIN_SEC
        give_up_at = time.monotonic() + (limit_sec if settings.STATEMENT_TIMEOUT_MS else float("inf"))
        while True:
            try:
                return super().wait(gen, interval, SILENCE_SEC)
            except errors._WaitTimeout as silence:
                if not self.checking and time.monotonic() < give_up_at and self._server_answers():
                    continue
                self.pgconn.finish()
                raise psycopg.OperationalError("PostgreSQL does not answer") from silence

    def _server_answers(self) -> bool:
        host, port = (self.pgconn.hostaddr or self.pgconn.host).decode(), int(self.pgconn.port)
        answers = probe(host, port)
        if not answers:
            _Web.silent_until = time.monotonic() + REFUSE_SEC
        return answers


_ServerSideCursor: Any = base.ServerSideCursor  # Django's stubs do not know its base classes


class StreamingCursor(_ServerSideCursor):  # type: ignore[misc]
    """A server-side cursor that the garbage collector may close at any moment.

    An iterator that is abandoned, for example because its loop raised, is closed when it is collected. That
    may happen while the same thread executes another query and holds the lock of the connection: waiting for
    the lock would block the process for ever.
    """

    def close(self) -> None:
        """Close the cursor; leave it to the end of the transaction or connection while that is busy."""
        if self._conn.lock.acquire(blocking=False):
            self._conn.lock.release()
            super().close()
        else:
            self._closed = True


def probe(host: str, port: int) -> bool:
    """Return whether a PostgreSQL server answers at this address or socket directory."""
    local = host.startswith("/")
    try:
        with (
            closing(socket.socket(socket.AF_UNIX))
            if local
            else socket.create_connection((host, port), timeout=PROBE_SEC) as plug
        ):
            plug.settimeout(PROBE_SEC)
            if local:
                plug.connect(f"{host}/.s.PGSQL.{port}")
            plug.sendall(_SSL_REQUEST)
            return bool(plug.recv(1))
    except OSError:
        return False


class DatabaseWrapper(base.DatabaseWrapper):
    """Opens bounded connections once `bound_waits` was called, and streams rows by `StreamingCursor`."""

    def create_cursor(self, name: str | None = None) -> Any:
        """Return a cursor; one with a name stays on the server and is read in chunks."""
        cursor = super().create_cursor(name)
        if name:
            cursor.__class__ = StreamingCursor  # Django has no setting for it
        return cursor

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Open a connection; fail at once while the server is known to be unresponsive."""
        if not _Web.bounded:
            return super().get_new_connection(conn_params)
        if time.monotonic() < _Web.silent_until:
            raise psycopg.OperationalError("PostgreSQL did not answer a moment ago")
        self.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        try:
            return BoundedConnection.connect(**conn_params | {"connect_timeout": CONNECT_SEC})
        except errors.ConnectionTimeout:
            _Web.silent_until = time.monotonic() + REFUSE_SEC
            raise

    def is_usable(self) -> bool:
        """Return whether the connection answers at once."""
        if not isinstance(self.connection, BoundedConnection):
            return bool(super().is_usable())
        self.connection.checking = True
        try:
            return bool(super().is_usable())
        finally:
            if self.connection is not None:
                self.connection.checking = False
