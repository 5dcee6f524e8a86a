"""Credential files are private from the first byte on, complete or absent, and have a readable expiry."""

from __future__ import annotations

import base64
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from dags_app.credentials.files import UnreadableCredential, Validity, read_validity, write_private

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)


def certificate(hours: float) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Robot: wms2")])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(NOW - timedelta(hours=1))
        .not_valid_after(NOW + timedelta(hours=hours))
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM)


def jwt_of(claims: Any) -> bytes:
    return b".".join([b"e30", base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"="), b"c2ln"])


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_written_file_belongs_to_its_owner_alone(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "oauth" / "cms_x.use"
    before = os.umask(umask)
    try:
        write_private(path, "first\n")
        write_private(path, "second\n")
    finally:
        os.umask(before)

    assert (path.read_text(), path.stat().st_mode & 0o777) == ("second\n", 0o600)
    assert path.parent.stat().st_mode & 0o077 == 0
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "cms_x.use"
    write_private(path, "first\n")
    with pytest.raises(UnicodeEncodeError):
        write_private(path, "é")

    assert path.read_text() == "first\n"
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_a_chain_ends_with_its_first_certificate_to_end(tmp_path: Path) -> None:
    path = tmp_path / "proxy.pem"
    path.write_bytes(certificate(12) + certificate(6) + certificate(24))

    assert read_validity(path) == Validity(NOW - timedelta(hours=1), NOW + timedelta(hours=6))


def test_a_token_ends_at_its_expiry(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_bytes(jwt_of({"iat": NOW.timestamp(), "exp": NOW.timestamp() + 600}) + b"\n")

    assert read_validity(path) == Validity(NOW, NOW + timedelta(seconds=600))


@pytest.mark.parametrize("data", [b"opaque", b"a.b.c", jwt_of({}), jwt_of([]), jwt_of({"exp": "soon"})])
def test_a_token_that_does_not_say_when_it_ends_is_not_judged(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(data)

    assert read_validity(path) is None


@pytest.mark.parametrize(
    ("data", "words"),
    [(None, "cannot be read"), (b"", "is empty"), (b"-----BEGIN nothing", "no certificate")],
)
def test_a_file_that_holds_no_credential_is_named(tmp_path: Path, data: bytes | None, words: str) -> None:
    path = tmp_path / "proxy.pem"
    if data is not None:
        path.write_bytes(data)

    with pytest.raises(UnreadableCredential, match=f"{path} {words}|{path} holds {words}"):
        read_validity(path)
