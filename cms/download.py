"""One GET of a file at a URL given by a user: bounded, not redirected, and never from private networks."""

from __future__ import annotations

from typing import BinaryIO
from urllib.parse import urlsplit

import urllib3

from cms.callback import CallbackRefused, public_address
from cms.http import describe
from wms2_project.errors import ServiceRejected, ServiceUnavailable
from wms2_project.observation.tracing import SpanKind, span

TIMEOUT = urllib3.Timeout(connect=5.0, read=30.0)
CHUNK_BYTES = 1024 * 1024


@span("download: GET", kind=SpanKind.CLIENT)
def download(
    url: str, target: BinaryIO, *, max_bytes: int, ca_path: str = "", allow_private: bool = False
) -> None:
    """Copy the file into `target`; ServiceUnavailable if it may succeed later, ServiceRejected if not."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 443
    try:
        address = public_address(host, port, allow_private=allow_private)
    except CallbackRefused as error:
        raise ServiceRejected(error.message, cure="Files are fetched from public addresses only") from error
    pool = urllib3.HTTPSConnectionPool(
        address, port, server_hostname=host, assert_hostname=host, cert_reqs="CERT_REQUIRED",
        ca_certs=ca_path or None, timeout=TIMEOUT, retries=False,
    )  # fmt: skip
    path = parts.path or "/"
    try:
        with pool:
            answer = pool.request(
                "GET",
                f"{path}?{parts.query}" if parts.query else path,
                headers={"Host": parts.netloc, "User-Agent": "wms2"},
                redirect=False,
                preload_content=False,
            )
            try:
                _check(answer.status, host)
                _copy(answer, target, max_bytes, host)
            finally:
                answer.close()
    except urllib3.exceptions.HTTPError as error:
        raise ServiceUnavailable(f"{host} did not send {path}: {describe(error)}") from error


def _check(status: int, host: str) -> None:
    if status >= 500 or status in (408, 425, 429):
        raise ServiceUnavailable(f"{host} answered with {status}")
    if status != 200:
        raise ServiceRejected(f"{host} answered with {status}", cure="Check the address")


def _copy(answer: urllib3.BaseHTTPResponse, target: BinaryIO, max_bytes: int, host: str) -> None:
    size = 0
    for chunk in answer.stream(CHUNK_BYTES, decode_content=False):
        size += len(chunk)
        if size > max_bytes:
            raise ServiceRejected(f"{host} sends more than {max_bytes} bytes", cure="Use a smaller file")
        target.write(chunk)
