"""Runs inside the server's environment: gunicorn with TLS that gives Rucio the name of a client certificate.

It does what Apache's mod_ssl does in production (`SSLOptions +StdEnvVars +LegacyDNStringFormat`): it checks
a certificate or an RFC 3820 proxy against the CA in RUCIO_FRONT_CERTIFICATES and passes on its subject.
"""

from __future__ import annotations

import os
import ssl
from typing import Any

CERTIFICATES = os.environ["RUCIO_FRONT_CERTIFICATES"]
SHORT = {
    "domainComponent": "DC", "countryName": "C", "organizationName": "O", "organizationalUnitName": "OU",
    "commonName": "CN", "localityName": "L", "stateOrProvinceName": "ST",
}  # fmt: skip
workers = 1
timeout = 120
certfile, keyfile = f"{CERTIFICATES}/host.pem", f"{CERTIFICATES}/host.key"
ca_certs = f"{CERTIFICATES}/ca.pem"
cert_reqs = ssl.CERT_OPTIONAL


def ssl_context(_config: Any, default: Any) -> Any:
    context = default()
    context.verify_flags |= ssl.VERIFY_ALLOW_PROXY_CERTS
    return context


def application(environ: dict[str, Any], start_response: Any) -> Any:
    from rucio.web.rest.main import application as rucio

    environ.pop("SSL_CLIENT_S_DN", None)
    certificate = environ["gunicorn.socket"].getpeercert()  # {} unless one was shown and verified
    if certificate:
        environ["SSL_CLIENT_VERIFY"] = "SUCCESS"
        environ["SSL_CLIENT_S_DN"] = "".join(
            f"/{SHORT.get(name, name)}={value}" for part in certificate["subject"] for name, value in part
        )
    return rucio(environ, start_response)
