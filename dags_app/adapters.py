"""Adapters to external services: built once per process from the settings, or injected by a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

from django.conf import settings

from cms.cric import CricClient, CricConfig
from cms.dbs import DbsClient, DbsConfig
from cms.http import HttpOptions
from cms.reqmgr2 import ReqMgr2Client, ReqMgr2Config
from cms.rucio import RucioClient
from cms.rucio_session import RucioConfig
from condor.collector import Collector
from condor.ports import ScheddPort
from condor.schedd import Schedd
from wms2_project.errors import PermanentError
from wms2_project.observation import counters
from wms2_project.service_guards import Guard, GuardOptions


class NotConfigured(PermanentError):
    """A needed service has no address in the settings."""


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
            count_limited=partial(counters.count, counters.RATE_LIMITED),
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


def build_reqmgr2() -> ReqMgr2Client:
    return ReqMgr2Client(ReqMgr2Config(url=_setting("reqmgr2_url"), http=_options("reqmgr2")))


def build_dbs(*, quick: bool = False) -> DbsClient:
    """Build the DBS client from the settings. `quick`: one short attempt per call, for interactive callers.

    Quick calls have a guard of their own: their short timeouts must not open the breaker of other callers.
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


def build_rucio() -> RucioClient:
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


def build_cric() -> CricClient:
    return CricClient(CricConfig(url=_setting("cric_url"), http=_options("cric")))


def build_schedd(name: str) -> ScheddPort:
    """Build the adapter of the schedd with this name; of the pool's own if the name is empty."""
    return Schedd(name, timeout_sec=settings.SCHEDD_TIMEOUT_SEC)


@dataclass(frozen=True, slots=True)
class Adapters:
    """A factory per adapter; by default each builds its adapter from the settings at the first call."""

    reqmgr2: Callable[[], ReqMgr2Client] = field(default_factory=lambda: cache(build_reqmgr2))
    dbs: Callable[..., DbsClient] = field(default_factory=lambda: cache(build_dbs))
    rucio: Callable[[], RucioClient] = field(default_factory=lambda: cache(build_rucio))
    cric: Callable[[], CricClient] = field(default_factory=lambda: cache(build_cric))
    schedd: Callable[[str], ScheddPort] = field(default_factory=lambda: cache(build_schedd))


_adapters = Adapters()


@contextmanager
def use_adapters(
    *,
    reqmgr2: Any = None,
    dbs: Any = None,
    rucio: Any = None,
    cric: Any = None,
    schedd: ScheddPort | Mapping[str, ScheddPort] | None = None,
) -> Iterator[None]:
    """Replace the current adapters by those given until the block ends, in every thread.

    An adapter may be a stand-in with the methods that are called. `schedd` is one adapter for every name,
    or one per name.
    """
    global _adapters
    clients = {"reqmgr2": reqmgr2, "dbs": dbs, "rucio": rucio, "cric": cric}
    given: dict[str, Any] = {
        name: partial(_always, client) for name, client in clients.items() if client is not None
    }
    if schedd is not None:
        given["schedd"] = schedd.__getitem__ if isinstance(schedd, Mapping) else partial(_always, schedd)
    before, _adapters = _adapters, replace(_adapters, **given)
    try:
        yield
    finally:
        _adapters = before


def _always(adapter: Any, *_name: str, quick: bool = False) -> Any:
    return adapter


def reqmgr2() -> ReqMgr2Client:
    """Return the ReqMgr2 client."""
    return _adapters.reqmgr2()


def dbs(*, quick: bool = False) -> DbsClient:
    """Return the DBS client. `quick`: one short attempt per call, for interactive callers."""
    return _adapters.dbs(quick=quick)


def rucio() -> RucioClient:
    """Return the Rucio client."""
    return _adapters.rucio()


def cric() -> CricClient:
    """Return the CRIC client."""
    return _adapters.cric()


@cache
def collector() -> Collector:
    """Return the collector of the pool."""
    return Collector(timeout_sec=settings.SCHEDD_TIMEOUT_SEC)


def schedd(name: str = "") -> ScheddPort:
    """Return the schedd with this name; the pool's own if the settings list none."""
    return _adapters.schedd(name if settings.SCHEDDS else "")


def schedd_names() -> list[str]:
    """Return the schedds to which DAGs may be submitted."""
    return list(settings.SCHEDDS) or [schedd().name]
