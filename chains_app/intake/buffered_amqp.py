"""kombu's AMQP transport with buffered reading.

py-amqp asks the operating system for every part of every frame, and sets the timeout of the socket each time.
Here one call returns all frames that have arrived, and draining handles them together.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from amqp.exceptions import UnexpectedFrame
from amqp.transport import SSLTransport, TCPTransport
from kombu.transport import pyamqp

CHUNK = 128 * 1024  # bytes of one call
END = 206  # the octet that ends a frame
_HEADER = Struct(">BHI")  # type, channel, size
Frame = tuple[int, int, bytes]


class _Buffered:
    """Reads frames from a buffer. What is received before a timeout is kept."""

    _received, _at = b"", 0
    _quick_recv: Any
    connected: bool

    def read_frame(self, unpack: Any = None) -> Frame:
        """Return the next frame; wait for it if it has not arrived."""
        while (frame := self.next_frame()) is None:
            try:
                more = self._quick_recv(CHUNK)
            except TimeoutError:
                raise
            except OSError:
                self.connected = False
                raise
            if not more:
                self.connected = False
                raise OSError("the broker closed the connection")
            self._received, self._at = self._received[self._at :] + more, 0
        return frame

    def next_frame(self) -> Frame | None:
        """Return the next frame that has arrived completely; None if there is none."""
        start = self._at + _HEADER.size
        if len(self._received) < start:
            return None
        kind, channel, size = _HEADER.unpack_from(self._received, self._at)
        end = start + size
        if len(self._received) <= end:
            return None
        if self._received[end] != END:
            raise UnexpectedFrame(f"a frame ends with {self._received[end]:#04x} instead of {END:#04x}")
        self._at = end + 1
        return kind, channel, self._received[start:end]


class _TcpTransport(_Buffered, TCPTransport):  # type: ignore[misc]
    pass


class _TlsTransport(_Buffered, SSLTransport):  # type: ignore[misc]
    pass


class _Connection(pyamqp.Connection):
    def Transport(
        self,
        host: str,
        connect_timeout: float,
        ssl: Any = False,
        read_timeout: float | None = None,
        write_timeout: float | None = None,
        **options: Any,
    ) -> Any:
        """Return the transport to the broker's host."""
        kind = _TlsTransport if ssl else _TcpTransport
        return kind(
            host, connect_timeout=connect_timeout, ssl=ssl, read_timeout=read_timeout,
            write_timeout=write_timeout, **options,
        )  # fmt: skip

    def drain_events(self, timeout: float | None = None) -> None:
        """Wait for a message or method, then handle everything that arrived with it."""
        super().drain_events(timeout)
        while self._transport is not None and (frame := self._transport.next_frame()) is not None:
            self.on_inbound_frame(frame)


class BufferedTransport(pyamqp.Transport):
    """AMQP by buffered connections; TLS where the connection has `ssl` options."""

    Connection = _Connection
