"""Health checks of the schedds, the CMS services, free space and the client certificate."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import requests
from cryptography import x509
from django.conf import settings

from dags_app.adapters import schedd
from dags_app.services.disk_space import describe, short_of_space
from wms2_project.observation.health import Check, register

_SERVICES = ("reqmgr2", "dbs", "rucio", "cric")
_TIMEOUT_SEC = 2.0
_RENEW_BEFORE = timedelta(hours=6)


def _schedds_silent() -> str:
    silent = [name or "the pool's own" for name in settings.SCHEDDS or [""] if not schedd(name).ping()]
    return f"no answer from {', '.join(silent)}" if silent else ""


def _service_silent(service: str) -> str:
    """Return what is wrong with the service; any answer below 500 shows that it is alive."""
    url = settings.CMS_SERVICES[f"{service}_url"]
    if not url:
        return "its address is not set"
    cert, ca = settings.CMS_SERVICES["client_cert"] or None, settings.CMS_SERVICES["ca_bundle"] or True
    with requests.get(
        url, timeout=_TIMEOUT_SEC, allow_redirects=False, stream=True, cert=cert, verify=ca
    ) as answer:
        return f"it answers {answer.status_code}" if answer.status_code >= 500 else ""


def _certificate_ends() -> str:
    """Return a warning if the certificate expires soon; grid proxies are valid for hours only."""
    path = settings.CMS_SERVICES["client_cert"]
    if not path:
        return ""
    ends = x509.load_pem_x509_certificate(Path(path).read_bytes()).not_valid_after_utc
    left = ends - datetime.now(UTC)
    return "" if left > _RENEW_BEFORE else f"{path} ends at {ends:%F %R} UTC; renew it"


def _no_space() -> str:
    return describe(short_of_space())


register(Check("space", _no_space))
register(Check("certificate", _certificate_ends))
register(Check("schedd", _schedds_silent, timeout_sec=3.0))
for name in _SERVICES:
    register(Check(name, partial(_service_silent, name), timeout_sec=3.0))
