"""The grid's private CA, the host certificate of all its servers, and the key that signs tokens."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from lab.files import write_atomically

CA_LIFETIME = timedelta(days=3650)
CA_RENEWED_BEFORE = timedelta(days=730)
HOST_LIFETIME = timedelta(days=395)
HOST_RENEWED_BEFORE = timedelta(days=200)  # longest run of a stack
CLOCK_SKEW = timedelta(minutes=5)
CA_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "WMS2 lab CA")])
HOST_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
HOST_NAMES = (x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1")))


@dataclass(frozen=True, slots=True)
class Certificates:
    """Paths of the files. The keys are readable by their owner only; XRootD refuses others."""

    directory: Path

    @property
    def ca(self) -> Path:
        return self.directory / "ca.pem"

    @property
    def ca_key(self) -> Path:
        return self.directory / "ca.key"

    @property
    def host(self) -> Path:
        return self.directory / "host.pem"

    @property
    def host_key(self) -> Path:
        return self.directory / "host.key"

    @property
    def token_key(self) -> Path:
        return self.directory / "token.key"


def ensure_certificates(directory: Path, *, now: datetime) -> Certificates:
    """Create missing files and renew those that expire soon. The servers read them at their start only."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    files = Certificates(directory)
    if not files.token_key.exists():
        _write_key(files.token_key, ec.generate_private_key(ec.SECP256R1()))
    if _expires_within(files.ca, files.ca_key, CA_RENEWED_BEFORE, now=now):
        _make_ca(files, now=now)
        files.host.unlink(missing_ok=True)
    if _expires_within(files.host, files.host_key, HOST_RENEWED_BEFORE, now=now):
        _make_host(files, now=now)
    return files


def load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Return the private key in the file."""
    key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError(f"{path} holds no elliptic curve key")
    return key


def _expires_within(certificate: Path, key: Path, margin: timedelta, *, now: datetime) -> bool:
    if not certificate.exists() or not key.exists():
        return True
    return x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc - margin < now


def _make_ca(files: Certificates, *, now: datetime) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        _builder(CA_NAME, key.public_key(), key, now=now, lifetime=CA_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    _write_key(files.ca_key, key)
    _write_certificate(files.ca, certificate)


def _make_host(files: Certificates, *, now: datetime) -> None:
    key, ca_key = ec.generate_private_key(ec.SECP256R1()), load_key(files.ca_key)
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    certificate = (
        _builder(HOST_NAME, key.public_key(), ca_key, now=now, lifetime=HOST_LIFETIME)
        .add_extension(x509.SubjectAlternativeName(HOST_NAMES), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    _write_key(files.host_key, key)
    _write_certificate(files.host, certificate)


def _builder(
    subject: x509.Name,
    key: ec.EllipticCurvePublicKey,
    ca_key: ec.EllipticCurvePrivateKey,
    *,
    now: datetime,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(CA_NAME)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
    )


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_atomically(path, pem.decode())


def _write_certificate(path: Path, certificate: x509.Certificate) -> None:
    write_atomically(path, certificate.public_bytes(serialization.Encoding.PEM).decode(), mode=0o644)
