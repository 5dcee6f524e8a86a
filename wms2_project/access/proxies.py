"""The caller's address and certificate as reported by a trusted proxy (setting TRUSTED_PROXIES)."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from django.conf import settings
from django.http import HttpRequest

MAX_DN = 500
_PROXY_CN = re.compile(r"(?:/CN=(?:proxy|limited proxy|[0-9]+))+$")
_COMMA = re.compile(r"(?<!\\),")


@lru_cache(maxsize=8)
def _networks(listed: tuple[str, ...]) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(ip_network(text, strict=False) for text in listed)


def is_trusted(address: str) -> bool:
    """Return whether this is the address of a trusted proxy."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False  # a Unix socket, or invalid
    return any(parsed in network for network in _networks(tuple(settings.TRUSTED_PROXIES)))


def client_address(request: HttpRequest) -> str:
    """Return the caller's address: the peer's, or the one that trusted proxies report."""
    return forwarded_address(
        str(request.META.get("REMOTE_ADDR", "")), request.headers.get("X-Forwarded-For", "")
    )


def forwarded_address(peer: str, header: str) -> str:
    """Return the last address of X-Forwarded-For that a trusted proxy reports, or the peer's own."""
    address, forwarded = peer, [part.strip() for part in header.split(",")]
    while is_trusted(address) and forwarded:
        reported = forwarded.pop()
        try:
            address = str(ip_address(reported))
        except ValueError:
            break
    return address


def certificate_dn(request: HttpRequest) -> str:
    """Return the subject of the verified client certificate; empty if there is none."""
    if not is_trusted(str(request.META.get("REMOTE_ADDR", ""))):
        return ""
    if request.headers.get(settings.X509_VERIFY_HEADER) != "SUCCESS":
        return ""
    return normal_dn(request.headers.get(settings.X509_DN_HEADER, ""))


def normal_dn(text: str) -> str:
    """Return the subject in OpenSSL's form, /DC=…/CN=…, from either form that proxies use.

    A slash inside a value is escaped, so that `CN=eve/CN=ana` cannot be read as two components.
    """
    text = text.strip()
    if not text or len(text) > MAX_DN or not text.isprintable():
        return ""
    if text.startswith("/"):
        return text
    parts = [part.strip().replace("\\,", ",").replace("/", "\\/") for part in _COMMA.split(text)]
    return "/" + "/".join(reversed(parts))


def without_proxy(dn: str) -> str:
    """Return the subject of the certificate that signed a grid proxy."""
    return _PROXY_CN.sub("", dn)
