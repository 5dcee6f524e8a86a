"""The storage prefixes of a Rucio storage element, from its protocols. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.places import MAX_PREFIXES, REMOTE_SCHEMES, prefix_problem

SCHEMES = (*REMOTE_SCHEMES, "file")
XROOTD = ("root", "roots")
DOMAIN = "wan"  # jobs, other sites and WMS2 all use these


def storage_prefixes(protocols: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the prefixes by which files can be read, written and deleted, in Rucio's order of writing.

    A protocol is left out if names of files do not simply follow its prefix: CMS marks those by rules for
    translation (tfc).
    """
    found = [
        (int(_domain(protocol)["write"]), prefix)
        for protocol in protocols
        if (prefix := _prefix(protocol)) and not prefix_problem(prefix)
    ]
    return tuple(dict.fromkeys(prefix for _, prefix in sorted(found, key=lambda one: one[0])))[:MAX_PREFIXES]


def _prefix(protocol: Mapping[str, Any]) -> str:
    """Return the prefix, '' if the protocol is not supported."""
    scheme = protocol.get("scheme")
    domain = _domain(protocol)
    usable = all(domain.get(operation) for operation in ("read", "write", "delete"))
    attributes = protocol.get("extended_attributes")
    translated = isinstance(attributes, Mapping) and bool(attributes.get("tfc"))
    if scheme not in SCHEMES or not usable or translated:
        return ""
    path = "/" + str(protocol.get("prefix") or "").strip("/")
    if scheme == "file":
        return path
    port = int(protocol.get("port") or 0)
    server = f"{scheme}://{protocol.get('hostname')}{f':{port}' if port else ''}"
    return f"{server}{'/' if scheme in XROOTD else ''}{path}".rstrip("/")


def _domain(protocol: Mapping[str, Any]) -> Mapping[str, Any]:
    domain = (protocol.get("domains") or {}).get(DOMAIN)
    return domain if isinstance(domain, Mapping) else {}
