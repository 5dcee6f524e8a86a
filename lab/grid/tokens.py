"""WLCG tokens: permitted scopes, claims, and signature."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from lab.grid.certificates import load_key

ANY_AUDIENCE = "https://wlcg.cern.ch/jwt/v1/any"
ALGORITHM = "ES256"
DEFAULT_LIFETIME_SEC = 3600
MAX_LIFETIME_SEC = 24 * 3600
NOT_BEFORE_SKEW_SEC = 5
STORAGE_SCOPE = re.compile(r"storage\.(?:read|create|modify|stage):(/store(?:/[A-Za-z0-9._+=~-]+)*/?)")
OTHER_SCOPE = re.compile(r"(?!storage\.)[a-z][\x21\x23-\x5b\x5d-\x7e]*")  # the characters of RFC 6749


class BadScope(ValueError):
    """Error: a scope that this issuer does not grant."""


def parse_scopes(text: str) -> tuple[str, ...]:
    """Return the scopes in a request's text: storage below /store, and others unchecked, such as Rucio's."""
    scopes = tuple(dict.fromkeys(text.split()))
    if not scopes:
        raise BadScope("scope is empty: ask for at least one, for instance storage.read:/store")
    for scope in scopes:
        found = STORAGE_SCOPE.fullmatch(scope)
        if found is not None and ".." not in found[1].split("/"):
            continue
        if OTHER_SCOPE.fullmatch(scope) is None:
            raise BadScope(
                f"scope {scope!r} is not given: use storage.read, create, modify or stage with a path below "
                "/store, or a scope of another service"
            )
    return scopes


def build_claims(
    *,
    issuer: str,
    subject: str,
    scopes: Sequence[str],
    audience: Sequence[str] = (),
    lifetime_sec: int = DEFAULT_LIFETIME_SEC,
    now: float,
) -> dict[str, Any]:
    """Return the claims of a token as an issuer such as IAM writes them."""
    wanted = list(audience) or [ANY_AUDIENCE]
    return {
        "wlcg.ver": "1.0",
        "iss": issuer,
        "sub": subject,
        "aud": wanted[0] if len(wanted) == 1 else wanted,
        "scope": " ".join(scopes),
        "iat": int(now),
        "nbf": int(now) - NOT_BEFORE_SKEW_SEC,
        "exp": int(now) + lifetime_sec,
        "jti": str(uuid.uuid4()),
    }


@dataclass(frozen=True, slots=True)
class Signer:
    """The issuer's key pair."""

    key: ec.EllipticCurvePrivateKey = field(repr=False)

    @classmethod
    def load(cls, path: Path) -> Self:
        return cls(load_key(path))

    @property
    def public_key(self) -> dict[str, str]:
        """The public half as a JSON Web Key; its id is the thumbprint of RFC 7638, new for a new key."""
        made = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self.key.public_key()))
        required = {name: made[name] for name in ("crv", "kty", "x", "y")}
        canonical = json.dumps(required, separators=(",", ":"), sort_keys=True).encode()
        thumbprint = base64.urlsafe_b64encode(hashlib.sha256(canonical).digest()).rstrip(b"=").decode()
        return {**required, "kid": thumbprint, "alg": ALGORITHM, "use": "sig"}

    def sign(self, claims: dict[str, Any]) -> str:
        return jwt.encode(claims, self.key, algorithm=ALGORITHM, headers={"kid": self.public_key["kid"]})
