"""A robot certificate of the lab's CA, and a proxy of it (RFC 3820), as `voms-proxy-init` makes one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from lab.grid.certificates import Certificates, load_key

PARTS = [
    (NameOID.DOMAIN_COMPONENT, "ch"),
    (NameOID.DOMAIN_COMPONENT, "cern"),
    (NameOID.ORGANIZATIONAL_UNIT_NAME, "Users"),
    (NameOID.COMMON_NAME, "Robot: WMS2"),
]
DN = "/DC=ch/DC=cern/OU=Users/CN=Robot: WMS2"
# ProxyCertInfo { proxyPolicy { policyLanguage id-ppl-inheritAll } }
PROXY_INFO = x509.UnrecognizedExtension(
    x509.ObjectIdentifier("1.3.6.1.5.5.7.1.14"), bytes.fromhex("300c300a06082b06010505071501")
)
USAGE = x509.KeyUsage(True, False, False, False, False, False, False, False, False)


@dataclass(frozen=True)
class Robot:
    """Files of the robot: certificate, key, and a proxy with its key and chain."""

    certificate: Path
    key: Path
    proxy: Path


def make_robot(certificates: Certificates, directory: Path) -> Robot:
    """Write the files into the directory, the private ones with mode 0600."""
    ca = x509.load_pem_x509_certificate(certificates.ca.read_bytes())
    ca_key = load_key(certificates.ca_key)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    name = _name(PARTS)
    robot = (
        _builder(name, ca.subject, keys[0], hours=24)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    proxy = (
        _builder(_name([*PARTS, (NameOID.COMMON_NAME, "1234567890")]), name, keys[1], hours=12)
        .add_extension(PROXY_INFO, critical=True)
        .sign(keys[0], hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    made = Robot(directory / "robot.pem", directory / "robot.key", directory / "proxy.pem")
    _write(made.certificate, robot.public_bytes(pem))
    _write(made.key, _private(keys[0]))
    _write(made.proxy, proxy.public_bytes(pem) + _private(keys[1]) + robot.public_bytes(pem))
    return made


def _name(parts: list[tuple[x509.ObjectIdentifier, str]]) -> x509.Name:
    return x509.Name([x509.NameAttribute(kind, value) for kind, value in parts])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, *, hours: float
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(hours=hours))
        .add_extension(USAGE, critical=True)
    )


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _write(path: Path, data: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(data)
