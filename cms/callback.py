"""One POST to a URL given by a user: bounded, not redirected, and never into private networks.

The host name is resolved once and the connection goes to the address that was checked, so a name whose
address changes in between cannot bypass the check.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

import urllib3

from cms.http import describe
from wms2_project.errors import ServiceRejected, ServiceUnavailable
from wms2_project.observation.tracing import SpanKind, span

# NAT64, and the long deprecated IPv4-compatible addresses
_TRANSLATED = [ipaddress.IPv6Network(text) for text in ("64:ff9b::/96", "64:ff9b:1::/48", "::/96")]
TIMEOUT = urllib3.Timeout(connect=5.0, read=10.0)


class CallbackRefused(ServiceRejected):
    """The URL must not be called, or its owner refuses the call: repeating does not help."""


@span("callback: POST", kind=SpanKind.CLIENT)
def post_once(
    url: str,
    body: bytes,
    *,
    headers: Mapping[str, str],
    ca_path: str = "",
    allow_private: bool = False,
) -> None:
    """Deliver the body; raise ServiceUnavailable if a retry may succeed, CallbackRefused if not."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    address = public_address(host, parts.port or 443, allow_private=allow_private)
    pool = urllib3.HTTPSConnectionPool(
        address,
        parts.port or 443,
        server_hostname=host,
        assert_hostname=host,
        cert_reqs="CERT_REQUIRED",
        ca_certs=ca_path or None,
        timeout=TIMEOUT,
        retries=False,
    )
    path = parts.path or "/"
    try:
        with pool:
            answer = pool.request(
                "POST",
                f"{path}?{parts.query}" if parts.query else path,
                body=body,
                headers={**headers, "Host": parts.netloc, "User-Agent": "wms2"},
                redirect=False,
                preload_content=False,  # only the status is used
            )
            answer.close()
    except urllib3.exceptions.HTTPError as error:
        raise ServiceUnavailable(f"the callback did not reach {host}: {describe(error)}") from error
    if answer.status >= 500 or answer.status in (408, 425, 429):
        raise ServiceUnavailable(f"{host} answered the callback with {answer.status}")
    if answer.status >= 300:
        raise CallbackRefused(f"{host} refused the callback with {answer.status}")


def is_public(address: str) -> bool:
    """Return whether the address belongs to the public Internet.

    IPv6 addresses that embed an IPv4 address are refused: a gateway decides where they lead.
    """
    found = ipaddress.ip_address(address)
    if not found.is_global or found.is_multicast or found.is_reserved:
        return False
    if isinstance(found, ipaddress.IPv4Address):
        return True
    carries_ipv4 = found.ipv4_mapped or found.sixtofour or found.teredo
    return not (carries_ipv4 or found.is_site_local or any(found in network for network in _TRANSLATED))


def public_address(host: str, port: int, *, allow_private: bool) -> str:
    """Return an address of the host, all of whose addresses must be public."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ServiceUnavailable(f"{host} has no address: {describe(error)}") from error
    addresses = [str(entry[4][0]) for entry in found]
    inside = [one for one in addresses if not is_public(one)]
    if inside and not allow_private:
        raise CallbackRefused(
            f"{host} is at {inside[0]}, which is not a public address",
            cure="Callbacks go to public addresses only",
        )
    return addresses[0]
