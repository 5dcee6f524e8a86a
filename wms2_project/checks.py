"""Startup checks: what is missing is said before the first request, with the cure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.exceptions import ImproperlyConfigured

from wms2_project.settings.environment import LAB

NEEDED_SERVICES = {
    "reqmgr2_url": "WMS2_REQMGR2_URL",
    "dbs_url": "WMS2_DBS_URL",
    "dbs_writer_url": "WMS2_DBS_WRITER_URL",
    "rucio_url": "WMS2_RUCIO_URL",
    "rucio_auth_url": "WMS2_RUCIO_AUTH_URL",
    "rucio_account": "WMS2_RUCIO_ACCOUNT",
    "cric_url": "WMS2_CRIC_URL",
}


@register(Tags.security)
def check_secret_key(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Sessions and cursors are signed; without a key nothing can be."""
    try:
        present = bool(settings.SECRET_KEY)
    except ImproperlyConfigured:
        present = False
    if present:
        return []
    return [
        Error(
            "SECRET_KEY is not set.",
            hint="Set the environment variable SECRET_KEY to at least 50 random characters.",
            id="wms2.E001",
        )
    ]


@register(Tags.database)
def check_database(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Only PostgreSQL has what WMS2 relies on: SKIP LOCKED, advisory locks, partial constraints."""
    engine = settings.DATABASES["default"]["ENGINE"]
    if engine == "django.db.backends.postgresql":
        return []
    return [
        Error(
            f"The database is {engine}, not PostgreSQL.",
            hint="Set DATABASE_URL to postgres://user:password@host:5432/wms2.",
            id="wms2.E002",
        )
    ]


@register()
def check_outside_world(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Directories and services have no default outside the lab: a wrong guess would write elsewhere."""
    return [] if LAB else list(_missing())


def _missing() -> Iterator[CheckMessage]:
    if not settings.SUBMIT_ROOT.startswith("/"):
        yield Error(
            "WMS2_SUBMIT_ROOT is not an absolute path.",
            hint="Set it to the directory on the submit host that holds the DAGs.",
            id="wms2.E003",
        )
    if "{site}" not in settings.STORAGE_PREFIX:
        yield Error(
            "WMS2_STORAGE_PREFIX does not say where a site's storage is.",
            hint="Set it to a path or URL with {site} in it, such as davs://se.example.org/{site}.",
            id="wms2.E004",
        )
    for name, variable in NEEDED_SERVICES.items():
        if not settings.CMS_SERVICES[name]:
            yield Error(
                f"{variable} is not set.",
                hint="Set the environment variable; for a try-out, WMS2_LAB=1 needs none of them.",
                id="wms2.E005",
            )
