"""Bearer tokens of OIDC and WLCG issuers: verification, and the roles they grant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jwt

from wms2_project.access.issuer_keys import IssuerKeys
from wms2_project.errors import PermanentError

ASYMMETRIC = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"})
LEEWAY_SEC = 30
MAX_LENGTH = 8000
GROUP_CLAIMS = ("wlcg.groups", "groups", "roles")
_NEEDED = ["exp", "iss", "aud", "sub"]


class BearerRefused(PermanentError):
    """A bearer token that is not accepted."""

    code = "not_authenticated"


@dataclass(frozen=True, slots=True)
class BearerPolicy:
    """Rules for bearer tokens: the accepted issuers, and the roles granted by groups and scopes."""

    issuers: tuple[str, ...] = ()
    audiences: tuple[str, ...] = ()
    algorithms: tuple[str, ...] = ("RS256", "ES256")
    scope: str = ""  # required of every token; empty: none
    roles: tuple[tuple[str, str, str], ...] = ()  # ("group" or "scope", its name, the role it grants)


@dataclass(frozen=True, slots=True)
class Bearer:
    """The subject of a verified token and the roles it grants."""

    issuer: str
    subject: str
    name: str
    roles: frozenset[str]


def parse_role_rule(text: str) -> tuple[str, str, str]:
    """Parse `group:/cms/ops=operator` or `scope:wms2.submit=requestor` into kind, name and role."""
    claim, _, role = text.strip().rpartition("=")
    kind, _, name = claim.partition(":")
    if kind not in ("group", "scope") or not name or not role:
        raise ValueError(f"{text!r} is not of the form group:NAME=ROLE or scope:NAME=ROLE")
    return kind, name, role


def read_bearer(text: str, *, policy: BearerPolicy, keys: IssuerKeys) -> Bearer:
    """Verify the token (issuer, algorithm, signature, audience, expiry, scope) and return its content."""
    return meaning_of(verified_claims(text, policy=policy, keys=keys), policy=policy)


def verified_claims(text: str, *, policy: BearerPolicy, keys: IssuerKeys) -> dict[str, Any]:
    """Return the claims after checking issuer, algorithm, signature, audience and expiry."""
    if len(text) > MAX_LENGTH:
        raise BearerRefused("This token is too long")
    try:
        header = jwt.get_unverified_header(text)
        issuer = jwt.decode(text, options={"verify_signature": False}).get("iss")
        if issuer not in policy.issuers:
            raise BearerRefused("The issuer of this token is not trusted")
        if header.get("alg") not in policy.algorithms:
            raise BearerRefused("The signature algorithm of this token is not accepted")
        key = keys.find(issuer, str(header.get("kid", "")))
        if key is None:
            raise BearerRefused("The signing key of this token is not published by its issuer")
        claims: dict[str, Any] = jwt.decode(
            text,
            key.key,
            algorithms=list(policy.algorithms),
            audience=list(policy.audiences),
            issuer=issuer,
            leeway=LEEWAY_SEC,
            options={"require": _NEEDED},
        )
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise BearerRefused(f"This token is not valid: {error}"[:200], cure="Request a new token") from error
    return claims


def meaning_of(claims: Mapping[str, Any], *, policy: BearerPolicy) -> Bearer:
    """Return the subject and roles of verified claims; raise BearerRefused if the scope is missing."""
    scopes, groups = _words(claims.get("scope")), frozenset[str]()
    for claim in GROUP_CLAIMS:
        groups |= _words(claims.get(claim))
    if policy.scope and policy.scope not in scopes:
        raise BearerRefused(
            f"This token lacks the scope {policy.scope}", cure="Request a token with this scope"
        )
    held = {"scope": scopes, "group": groups}
    subject = str(claims["sub"])
    return Bearer(
        issuer=str(claims["iss"]),
        subject=subject,
        name=str(claims.get("preferred_username") or claims.get("name") or subject),
        roles=frozenset(role for kind, name, role in policy.roles if name in held[kind]),
    )


def _words(value: Any) -> frozenset[str]:
    """Return a claim, a list or a text of words, as a set."""
    if isinstance(value, str):
        return frozenset(value.split())
    return frozenset(str(item) for item in value) if isinstance(value, list) else frozenset()
