"""Health checks of the schedds, the CMS services and the credentials of WMS2."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

import requests
from django.conf import settings

from dags_app.adapters import schedd
from dags_app.services.credentials import expiring_files
from dags_app.services.disk_space import describe, short_of_space
from wms2_project.observation.health import Check, register

_SERVICES = ("reqmgr2", "dbs", "rucio", "cric")
_TIMEOUT_SEC = 2.0


def _schedds_silent() -> str:
    silent = [name or "the pool's own" for name in settings.SCHEDDS or [""] if not schedd(name).ping()]
    return f"no answer from {', '.join(silent)}" if silent else ""


def _service_silent(service: str) -> str:
    """Return what is wrong with the service; any answer below 500 shows that it is alive."""
    url = settings.CMS_SERVICES[f"{service}_url"]
    if not url:
        return "its address is not set"
    services = settings.CMS_SERVICES
    cert, key, ca = services["client_cert"], services["client_key"], services["ca_bundle"] or True
    with requests.get(
        url,
        timeout=_TIMEOUT_SEC,
        allow_redirects=False,
        stream=True,
        cert=((cert, key) if key else cert) or None,
        verify=ca,
    ) as answer:
        return f"it answers {answer.status_code}" if answer.status_code >= 500 else ""


def _credentials_end() -> str:
    """Report credentials that have ended or end soon."""
    return "; ".join(expiring_files(now=datetime.now(UTC)).values())


def _no_space() -> str:
    return describe(short_of_space())


register(Check("space", _no_space))
register(Check("credentials", _credentials_end))
register(Check("schedd", _schedds_silent, timeout_sec=3.0))
for name in _SERVICES:
    register(Check(name, partial(_service_silent, name), timeout_sec=3.0))
