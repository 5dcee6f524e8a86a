"""kombu's AMQP transport with buffered reading.

py-amqp asks the operating system for every part of every frame, sets the timeout of the socket each time, and
builds several objects for each message. Here one call returns all frames that have arrived, and messages that
arrived in one piece are taken out of the buffer directly. Everything else is left to py-amqp.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct, error
from typing import Any

from amqp.exceptions import UnexpectedFrame
from amqp.transport import SSLTransport, TCPTransport
from kombu.transport import pyamqp

CHUNK = 128 * 1024  # bytes of one call
END = 206  # the octet that ends a frame
METHOD, CONTENT_HEADER, BODY = 1, 2, 3  # types of frames
_HEADER = Struct(">BHI")  # type, channel, size
_CONTENT = Struct(">BHIxxxxQ")  # the same, then class and weight, size of the body
_TAG = Struct(">Q")
_DELIVER = b"\x00\x3c\x00\x3c"  # class and method of basic.deliver
Frame = tuple[int, int, bytes]
Delivery = tuple[int, bytes]  # tag and body of a message


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

    def next_delivery(self, beginning: bytes) -> Delivery | None:
        """Return tag and body of the next message if its frames are next, complete, and three.

        `beginning`: of the method: basic.deliver and the consumer's tag.
        """
        received, method = self._received, self._at
        if not received.startswith(beginning, method + _HEADER.size):
            return None
        try:
            kind, _, size = _HEADER.unpack_from(received, method)
            (tag,) = _TAG.unpack_from(received, method + _HEADER.size + len(beginning))
            content = method + _HEADER.size + size + 1
            content_kind, _, size, length = _CONTENT.unpack_from(received, content)
            body = content + _HEADER.size + size + 1
            body_kind, _, size = _HEADER.unpack_from(received, body)
        except error:  # more is to come
            return None
        start = body + _HEADER.size
        end = start + size
        if (kind, content_kind, body_kind, size) != (METHOD, CONTENT_HEADER, BODY, length):
            return None
        if len(received) <= end or not received[content - 1] == received[body - 1] == received[end] == END:
            return None
        self._at = end + 1
        return tag, received[start:end]


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

    def drain_arrived(self, consumer: str, on_message: Callable[[Delivery], None]) -> None:
        """Handle everything that has arrived. Messages of the consumer are passed to `on_message`."""
        beginning = _DELIVER + bytes([len(consumer)]) + consumer.encode()
        while (transport := self._transport) is not None:
            while found := transport.next_delivery(beginning):
                on_message(found)
            frame = transport.next_frame()
            if frame is None:
                break
            self.on_inbound_frame(frame)


class BufferedTransport(pyamqp.Transport):
    """AMQP by buffered connections; TLS where the connection has `ssl` options."""

    Connection = _Connection
