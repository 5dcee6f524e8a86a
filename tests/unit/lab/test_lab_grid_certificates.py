"""The grid's certificates: verified as clients do it, private, and renewed in time."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from lab.grid.certificates import (
    CA_LIFETIME,
    CA_RENEWED_BEFORE,
    HOST_LIFETIME,
    HOST_RENEWED_BEFORE,
    ensure_certificates,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> None:
    """Perform a TLS handshake of a client and a server in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while ends:
        for end in list(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                continue


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
def test_a_strict_client_with_the_ca_verifies_the_host(tmp_path: Path, name: str) -> None:
    files = ensure_certificates(tmp_path / "c", now=datetime.now(UTC))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(files.host, files.host_key)
    client = ssl.create_default_context(cafile=str(files.ca))
    client.verify_flags |= ssl.VERIFY_X509_STRICT

    handshake(server, client, name)

    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server, client, "elsewhere.example")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server, ssl.create_default_context(), name)


def test_keys_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path / "c", now=NOW)

    assert {path.stat().st_mode & 0o777 for path in (files.ca_key, files.host_key, files.token_key)} == {
        0o600
    }
    assert files.directory.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("later", "renewed"),
    [
        (timedelta(0), set()),
        (HOST_LIFETIME - HOST_RENEWED_BEFORE - DAY, set()),
        (HOST_LIFETIME - HOST_RENEWED_BEFORE + DAY, {"host"}),
        (CA_LIFETIME - CA_RENEWED_BEFORE + DAY, {"ca", "host"}),
    ],
    ids=["at once", "still good", "host expires", "CA expires"],
)
def test_certificates_that_expire_soon_are_renewed(
    tmp_path: Path, later: timedelta, renewed: set[str]
) -> None:
    files = ensure_certificates(tmp_path, now=NOW)
    before = {name: getattr(files, name).read_bytes() for name in ("ca", "host", "token_key")}

    ensure_certificates(tmp_path, now=NOW + later)

    assert {
        name for name, content in before.items() if getattr(files, name).read_bytes() != content
    } == renewed


def test_a_stack_that_stays_up_for_months_keeps_a_valid_certificate(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path, now=NOW)
    ensure_certificates(tmp_path, now=NOW + HOST_LIFETIME - HOST_RENEWED_BEFORE - DAY)  # not renewed yet

    host = x509.load_pem_x509_certificate(files.host.read_bytes())

    assert host.not_valid_after_utc - (NOW + HOST_LIFETIME - HOST_RENEWED_BEFORE) >= 180 * DAY


def test_a_lost_key_is_made_again_with_its_certificate(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path, now=NOW)
    host = files.host.read_bytes()
    files.host_key.unlink()

    ensure_certificates(tmp_path, now=NOW)

    assert files.host.read_bytes() != host
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(files.host, files.host_key)
