"""What the proxy in front says about the caller, believed only when a listed address says it."""

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
    """Is this the address of a proxy of ours?"""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False  # a unix socket, or nonsense
    return any(parsed in network for network in _networks(tuple(settings.TRUSTED_PROXIES)))


def client_address(request: HttpRequest) -> str:
    """Where the call comes from: the peer, or whom our own proxies say they speak for."""
    return forwarded_address(
        str(request.META.get("REMOTE_ADDR", "")), request.headers.get("X-Forwarded-For", "")
    )


def forwarded_address(peer: str, header: str) -> str:
    """Return the last address of X-Forwarded-For that a proxy of ours vouches for, or the peer's own."""
    address, forwarded = peer, [part.strip() for part in header.split(",")]
    while is_trusted(address) and forwarded:
        said = forwarded.pop()
        try:
            address = str(ip_address(said))
        except ValueError:
            break
    return address


def certificate_dn(request: HttpRequest) -> str:
    """The subject of the verified client certificate, or nothing."""
    if not is_trusted(str(request.META.get("REMOTE_ADDR", ""))):
        return ""
    if request.headers.get(settings.X509_VERIFY_HEADER) != "SUCCESS":
        return ""
    return normal_dn(request.headers.get(settings.X509_DN_HEADER, ""))


def normal_dn(text: str) -> str:
    """The name in OpenSSL's form, /DC=…/CN=…, whichever form the proxy speaks.

    A slash inside a value is escaped: `CN=eve/CN=ana` must not read like the two names of somebody else.
    """
    text = text.strip()
    if not text or len(text) > MAX_DN or not text.isprintable():
        return ""
    if text.startswith("/"):
        return text
    parts = [part.strip().replace("\\,", ",").replace("/", "\\/") for part in _COMMA.split(text)]
    return "/" + "/".join(reversed(parts))


def without_proxy(dn: str) -> str:
    """The name of the person behind a grid proxy certificate."""
    return _PROXY_CN.sub("", dn)
