"""Adapters to external services: built once per process from the settings, or injected by a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

from django.conf import settings

from cms.configcache import ConfigCacheClient, ConfigCacheConfig
from cms.cric import CricClient, CricConfig
from cms.dbs import DbsClient, DbsConfig
from cms.http import HttpOptions
from cms.reqmgr2 import ReqMgr2Client, ReqMgr2Config
from cms.rucio import RucioClient
from cms.rucio_session import RucioAuth, RucioConfig
from cms.token_issuer import TokenIssuer, TokenIssuerConfig
from condor.collector import Collector
from condor.ports import ScheddPort
from condor.schedd import Schedd
from sandbox.storage import Storage, Timeouts, discovered_token
from wms2_project.errors import PermanentError
from wms2_project.observation import counters
from wms2_project.service_guards import Guard, GuardOptions

# A worker waits less than a job: what hangs is tried again by the next task.
STORAGE_TIMEOUTS = Timeouts(connect_sec=10, idle_sec=30, fixed_sec=60)


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
        client_key=services["client_key"],
        token_file=settings.SERVICE_TOKEN_FILE,
        ca_path=services["ca_bundle"],
        guard=_guard(service).calling,
    )


def build_reqmgr2() -> ReqMgr2Client:
    return ReqMgr2Client(ReqMgr2Config(url=_setting("reqmgr2_url"), http=_options("reqmgr2")))


def build_config_cache() -> ConfigCacheClient:
    """Build the client of the ConfigCache from the settings."""
    return ConfigCacheClient(
        ConfigCacheConfig(url=_setting("config_cache_url"), http=_options("configcache"))
    )


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
    """Build the Rucio client from the settings. Its login needs the settings that RUCIO_AUTH implies."""
    services, auth = settings.CMS_SERVICES, RucioAuth(settings.RUCIO_AUTH)
    if auth is RucioAuth.TOKEN and not settings.RUCIO_TOKEN_FILE:
        raise NotConfigured("rucio_token_file is not set", cure="Set WMS2_RUCIO_TOKEN_FILE")
    needed = {
        RucioAuth.USERPASS: ("rucio_username", "rucio_password"),
        RucioAuth.X509: ("client_cert",),
        RucioAuth.X509_PROXY: ("client_cert",),
        RucioAuth.TOKEN: (),
    }
    for key in needed[auth]:
        _setting(key)
    return RucioClient(
        RucioConfig(
            url=_setting("rucio_url"),
            auth_url=_setting("rucio_auth_url"),
            account=_setting("rucio_account"),
            username=services["rucio_username"],
            password=services["rucio_password"],
            auth=auth,
            client_cert=services["client_cert"],
            client_key=services["client_key"],
            token_file=settings.RUCIO_TOKEN_FILE,
            scope=settings.RUCIO_SCOPE,
            read_timeout_sec=settings.SERVICE_TIMEOUT_SEC,
            ca_path=services["ca_bundle"],
            guard=_guard("rucio").calling,
        )
    )


def build_cric() -> CricClient:
    return CricClient(CricConfig(url=_setting("cric_url"), http=_options("cric")))


def build_token_issuer() -> TokenIssuer:
    """Build the client of the token issuer from the settings."""
    return TokenIssuer(
        TokenIssuerConfig(
            url=settings.TOKEN_ISSUER,
            client_id=settings.TOKEN_CLIENT_ID,
            client_secret_file=settings.TOKEN_CLIENT_SECRET_FILE,
            audience=settings.TOKEN_AUDIENCE,
            lifetime_sec=settings.TOKEN_LIFETIME_SEC,
            token_url=settings.TOKEN_URL,
            http=HttpOptions(
                connect_timeout_sec=min(settings.TOKEN_TIMEOUT_SEC, 5.0),
                read_timeout_sec=settings.TOKEN_TIMEOUT_SEC,
                ca_path=settings.TOKEN_CA_FILE,
                guard=_guard("token issuer").calling,
            ),
        )
    )


_token_source: ContextVar[Callable[[], str]] = ContextVar("token_source", default=discovered_token)


def build_storage() -> Storage:
    """Build the access to the sites' storage, with the token of `storage_with`, else of this process."""
    return Storage(
        token=lambda: _token_source.get()(), ca_file=settings.STORAGE_CA_FILE, timeouts=STORAGE_TIMEOUTS
    )


def build_schedd(name: str) -> ScheddPort:
    """Build the adapter of the schedd with this name; of the pool's own if the name is empty."""
    return Schedd(name, timeout_sec=settings.SCHEDD_TIMEOUT_SEC)


@dataclass(frozen=True, slots=True)
class Adapters:
    """A factory per adapter; by default each builds its adapter from the settings at the first call."""

    reqmgr2: Callable[[], ReqMgr2Client] = field(default_factory=lambda: cache(build_reqmgr2))
    config_cache: Callable[[], ConfigCacheClient] = field(default_factory=lambda: cache(build_config_cache))
    dbs: Callable[..., DbsClient] = field(default_factory=lambda: cache(build_dbs))
    rucio: Callable[[], RucioClient] = field(default_factory=lambda: cache(build_rucio))
    cric: Callable[[], CricClient] = field(default_factory=lambda: cache(build_cric))
    token_issuer: Callable[[], TokenIssuer] = field(default_factory=lambda: cache(build_token_issuer))
    schedd: Callable[[str], ScheddPort] = field(default_factory=lambda: cache(build_schedd))
    storage: Callable[[], Storage] = field(default_factory=lambda: cache(build_storage))


_adapters = Adapters()


@contextmanager
def use_adapters(
    *,
    reqmgr2: Any = None,
    config_cache: Any = None,
    dbs: Any = None,
    rucio: Any = None,
    cric: Any = None,
    token_issuer: Any = None,
    storage: Any = None,
    schedd: ScheddPort | Mapping[str, ScheddPort] | None = None,
) -> Iterator[None]:
    """Replace the current adapters by those given until the block ends, in every thread.

    An adapter may be a stand-in with the methods that are called. `schedd` is one adapter for every name,
    or one per name.
    """
    global _adapters
    clients = {
        "reqmgr2": reqmgr2, "config_cache": config_cache, "dbs": dbs, "rucio": rucio, "cric": cric,
        "token_issuer": token_issuer, "storage": storage,
    }  # fmt: skip
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


def config_cache() -> ConfigCacheClient:
    """Return the ConfigCache client."""
    return _adapters.config_cache()


def dbs(*, quick: bool = False) -> DbsClient:
    """Return the DBS client. `quick`: one short attempt per call, for interactive callers."""
    return _adapters.dbs(quick=quick)


def rucio() -> RucioClient:
    """Return the Rucio client."""
    return _adapters.rucio()


def cric() -> CricClient:
    """Return the CRIC client."""
    return _adapters.cric()


def token_issuer() -> TokenIssuer:
    """Return the client of the token issuer."""
    return _adapters.token_issuer()


def storage() -> Storage:
    """Return the access to the sites' storage."""
    return _adapters.storage()


def storage_token() -> str:
    """Return the token that requests to storage show now, '' if there is none. Raises StorageError."""
    return _token_source.get()()


@contextmanager
def storage_with(token: Callable[[], str]) -> Iterator[Storage]:
    """Yield the access to storage. `token` is called for each request that shows one."""
    before = _token_source.set(token)
    try:
        yield storage()
    finally:
        _token_source.reset(before)


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
