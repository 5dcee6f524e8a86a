"""Credential files: written privately, and when they end."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from sandbox.atomic import replacing

PRIVATE_MODE = 0o600
PEM_MARK = b"-----BEGIN"


class UnreadableCredential(Exception):
    """The file is missing, not readable, empty, or holds a broken certificate."""


@dataclass(frozen=True, slots=True)
class Validity:
    """From when to when a credential is valid."""

    begins: datetime
    ends: datetime


def write_private(path: Path, text: str) -> None:
    """Replace the file at once with one that only its owner reads. Raises OSError."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with replacing(path, mode=PRIVATE_MODE) as file:
        file.write(text.encode("ascii"))


def read_validity(path: Path) -> Validity | None:
    """Return when the certificate or proxy in the file, with its whole chain, or the JWT is valid.

    None for a token that does not say. Raises UnreadableCredential.
    """
    try:
        data = path.read_bytes().strip()
    except OSError as error:
        raise UnreadableCredential(f"{path} cannot be read: {error.strerror}") from error
    if not data:
        raise UnreadableCredential(f"{path} is empty")
    if PEM_MARK not in data:
        return _token_validity(data)
    try:
        chain = x509.load_pem_x509_certificates(data)
    except ValueError as error:
        raise UnreadableCredential(f"{path} holds no certificate") from error
    return Validity(
        max(one.not_valid_before_utc for one in chain), min(one.not_valid_after_utc for one in chain)
    )


def _token_validity(data: bytes) -> Validity | None:
    try:
        payload = data.split(b".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + b"=" * (-len(payload) % 4)))
        ends = datetime.fromtimestamp(int(claims["exp"]), UTC)
        return Validity(datetime.fromtimestamp(int(claims.get("iat", 0)), UTC), ends)
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
        return None
