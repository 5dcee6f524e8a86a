"""The adapters to the outside world, made once per process from the settings. Always the real ones."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial

from django.conf import settings

from cms.cric import CricClient, CricConfig
from cms.dbs import DbsClient, DbsConfig
from cms.http import HttpOptions
from cms.reqmgr2 import ReqMgr2Client, ReqMgr2Config
from cms.rucio import RucioClient
from cms.rucio_session import RucioConfig
from condor.ports import ScheddPort
from condor.schedd import Schedd
from wms2_project import metrics
from wms2_project.errors import PermanentError
from wms2_project.guards import Guard, GuardOptions


class NotConfigured(PermanentError):
    """A service is needed whose address is not set."""


def _setting(key: str) -> str:
    value = settings.CMS_SERVICES[key]
    if not value:
        raise NotConfigured(f"{key} is not set", cure=f"Set WMS2_{key.upper()} in the environment")
    return str(value)


def _guard(service: str) -> Guard:
    return Guard(
        service,
        GuardOptions(
            redis_url=settings.REDIS_URL,
            calls_per_sec=settings.SERVICE_CALLS_PER_SEC,
            failures=settings.BREAKER_FAILURES,
            pause_sec=settings.BREAKER_PAUSE_SEC,
            count_limited=partial(metrics.count, metrics.RATE_LIMITED),
        ),
    )


def _options(service: str) -> HttpOptions:
    services = settings.CMS_SERVICES
    return HttpOptions(
        read_timeout_sec=settings.SERVICE_TIMEOUT_SEC,
        client_cert=services["client_cert"],
        ca_path=services["ca_bundle"],
        guard=_guard(service).calling,
    )


@cache
def reqmgr2() -> ReqMgr2Client:
    """Requests as ReqMgr2 has them."""
    return ReqMgr2Client(ReqMgr2Config(url=_setting("reqmgr2_url"), http=_options("reqmgr2")))


@cache
def dbs(*, quick: bool = False) -> DbsClient:
    """The file catalogue. `quick`: for a caller who waits, one short attempt per call.

    Its short timeouts are counted by a guard of their own: they must not stop the patient callers.
    """
    options = _options("dbs")
    if quick:
        patience = settings.IMPORT_DBS_SEC
        options = replace(
            options,
            connect_timeout_sec=patience,
            read_timeout_sec=patience,
            retries=0,
            guard=_guard("dbs at import").calling,
        )
    return DbsClient(
        DbsConfig(reader_url=_setting("dbs_url"), writer_url=_setting("dbs_writer_url"), http=options)
    )


@cache
def rucio() -> RucioClient:
    """Where files are, and the rules that keep them there."""
    return RucioClient(
        RucioConfig(
            url=_setting("rucio_url"),
            auth_url=_setting("rucio_auth_url"),
            account=_setting("rucio_account"),
            username=_setting("rucio_username"),
            password=_setting("rucio_password"),
            scope=settings.RUCIO_SCOPE,
            read_timeout_sec=settings.SERVICE_TIMEOUT_SEC,
            ca_path=settings.CMS_SERVICES["ca_bundle"],
            guard=_guard("rucio").calling,
        )
    )


@cache
def cric() -> CricClient:
    """Which sites exist and what storage they read."""
    return CricClient(CricConfig(url=_setting("cric_url"), http=_options("cric")))


def schedd(name: str = "") -> ScheddPort:
    """The schedd of this name; where the settings list none, the pool's own whatever its name."""
    return _schedd(name if settings.SCHEDDS else "")


@cache
def _schedd(name: str) -> ScheddPort:
    return Schedd(name, timeout_sec=settings.SCHEDD_TIMEOUT_SEC)


def schedd_names() -> list[str]:
    """The schedds DAGs may be submitted to."""
    return list(settings.SCHEDDS) or [schedd().name]
