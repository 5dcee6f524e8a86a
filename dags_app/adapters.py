"""The adapters to the outside world, made once per process from the settings. Always the real ones."""

from __future__ import annotations

from functools import cache

from django.conf import settings

from cms.cric import CricClient, CricConfig
from cms.dbs import DbsClient, DbsConfig
from cms.http import HttpOptions
from cms.reqmgr2 import ReqMgr2Client, ReqMgr2Config
from cms.rucio import RucioClient
from cms.rucio_session import RucioConfig
from condor.ports import ScheddPort
from condor.schedd import Schedd
from wms2_project.errors import PermanentError


class NotConfigured(PermanentError):
    """A service is needed whose address is not set."""


def _setting(key: str) -> str:
    value = settings.CMS_SERVICES[key]
    if not value:
        raise NotConfigured(f"{key} is not set", cure=f"Set WMS2_{key.upper()} in the environment")
    return str(value)


def _options() -> HttpOptions:
    services = settings.CMS_SERVICES
    return HttpOptions(client_cert=services["client_cert"], ca_path=services["ca_bundle"])


@cache
def reqmgr2() -> ReqMgr2Client:
    """Requests as ReqMgr2 has them."""
    return ReqMgr2Client(ReqMgr2Config(url=_setting("reqmgr2_url"), http=_options()))


@cache
def dbs() -> DbsClient:
    """The file catalogue."""
    return DbsClient(
        DbsConfig(reader_url=_setting("dbs_url"), writer_url=_setting("dbs_writer_url"), http=_options())
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
            ca_path=settings.CMS_SERVICES["ca_bundle"],
        )
    )


@cache
def cric() -> CricClient:
    """Which sites exist and what storage they read."""
    return CricClient(CricConfig(url=_setting("cric_url"), http=_options()))


@cache
def schedd() -> ScheddPort:
    """The schedd DAGs are submitted to."""
    return Schedd()
