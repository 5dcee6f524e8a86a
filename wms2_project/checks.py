"""Startup checks: report missing or invalid settings, with the cure, before a process starts to work."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Callable, Iterator
from ipaddress import ip_network
from typing import Any

import limits
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register, run_checks
from django.core.exceptions import ImproperlyConfigured

from sandbox.places import CURE, SITE_MARK, prefix_problem, prefixes_problem
from wms2_project.access.bearer import ASYMMETRIC, parse_role_rule
from wms2_project.access.roles import is_role
from wms2_project.grammar import Name, matches

STARTUP = "wms2"  # tag of the checks that every process must pass
NEEDED_SERVICES = {
    "reqmgr2_url": "WMS2_REQMGR2_URL",
    "dbs_url": "WMS2_DBS_URL",
    "dbs_writer_url": "WMS2_DBS_WRITER_URL",
    "rucio_url": "WMS2_RUCIO_URL",
    "rucio_auth_url": "WMS2_RUCIO_AUTH_URL",
    "rucio_account": "WMS2_RUCIO_ACCOUNT",
    "cric_url": "WMS2_CRIC_URL",
}
MAX_NODES = 1_000_000
JOB_USER_ID = "wms2.E030"
JOB_USER_HINT = (
    "Let the schedd map WMS2 to another account (docs/security.md, The accounts of jobs). If slot users or"
    " pilots run the jobs, name their accounts in WMS2_JOB_USERS."
)
LOGIN_NEEDS = {
    "OIDC_LOGIN_ISSUER": "WMS2_OIDC_LOGIN_ISSUER",
    "OIDC_RP_CLIENT_SECRET": "WMS2_OIDC_CLIENT_SECRET",
    "OIDC_OP_AUTHORIZATION_ENDPOINT": "WMS2_OIDC_AUTHORIZE_URL",
    "OIDC_OP_TOKEN_ENDPOINT": "WMS2_OIDC_TOKEN_URL",
}


def refuse_to_start_unless_configured() -> None:
    """Exit with the messages of all failed startup checks (outside manage.py Django runs none)."""
    failed = [message for message in run_checks(tags=[STARTUP]) if message.is_serious()]
    if failed:
        sys.exit("\n".join(str(message) for message in failed))


@register(STARTUP, Tags.security)
def check_secret_key(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Require SECRET_KEY, which signs sessions and cursors."""
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


@register(STARTUP, Tags.database)
def check_database(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Require PostgreSQL: WMS2 relies on SKIP LOCKED, advisory locks and partial constraints."""
    engine = settings.DATABASES["default"]["ENGINE"]
    if engine == "wms2_project.postgresql":
        return []
    return [
        Error(
            f"The database is {engine}, not PostgreSQL.",
            hint="Set DATABASE_URL to postgres://user:password@host:5432/wms2.",
            id="wms2.E002",
        )
    ]


@register(STARTUP)
def check_submit_root(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Require an absolute path: a relative one would depend on the process's working directory."""
    if settings.SUBMIT_ROOT.startswith("/"):
        return []
    what = "is not an absolute path" if settings.SUBMIT_ROOT else "is not set"
    return [
        Error(
            f"WMS2_SUBMIT_ROOT {what}.",
            hint="Set it to the absolute path of the directory on the submit host that holds the DAGs.",
            id="wms2.E003",
        )
    ]


@register(STARTUP)
def check_outside_world(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Require storage and service addresses outside the lab. A default could write to wrong places."""
    return [] if settings.LAB else list(_missing())


@register(STARTUP)
def check_storage(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Check the storage prefixes: each has a legal form and, if it is shared, the name of the site."""
    return [
        Error(problem, hint=f"Correct the environment variable {variable}. {CURE}.", id="wms2.E018")
        for variable, problem in _storage_problems()
    ]


def _storage_problems() -> Iterator[tuple[str, str]]:
    default = settings.STORAGE_PREFIX
    if default and (problem := prefix_problem(default)):
        yield "WMS2_STORAGE_PREFIX", f"WMS2_STORAGE_PREFIX is {default!r:.200}: {problem}."
    elif default and SITE_MARK not in default:
        yield "WMS2_STORAGE_PREFIX", f"WMS2_STORAGE_PREFIX is {default!r:.200}, without {SITE_MARK}."
    if not isinstance(settings.SITE_STORAGE, dict):
        yield "WMS2_SITE_STORAGE", "WMS2_SITE_STORAGE is not a JSON object of sites and their prefixes."
        return
    for site, prefixes in settings.SITE_STORAGE.items():
        if not matches(Name.SITE, site):
            yield "WMS2_SITE_STORAGE", f"WMS2_SITE_STORAGE names {site!r:.80}, which is not a site name."
        elif problem := prefixes_problem(prefixes):
            yield "WMS2_SITE_STORAGE", f"WMS2_SITE_STORAGE, {site}: {problem}."
    if settings.STORAGE_CA_FILE and not os.access(settings.STORAGE_CA_FILE, os.R_OK):
        yield "WMS2_STORAGE_CA_FILE", f"{settings.STORAGE_CA_FILE} is not a file that can be read."


@register(STARTUP, Tags.security)
def check_callbacks(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Require a signing key if callbacks are enabled, so that receivers can verify them."""
    if not settings.CALLBACK_HOSTS or settings.CALLBACK_SECRET:
        return []
    return [
        Error(
            "WMS2_CALLBACK_HOSTS is set and WMS2_CALLBACK_SECRET is not.",
            hint="Set WMS2_CALLBACK_SECRET to a random value and give it to the receivers.",
            id="wms2.E010",
        )
    ]


@register(STARTUP, Tags.security)
def check_job_users(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Refuse job users equal to WMS2's own account: their jobs could read its secrets.

    `dags_app.checks` checks the accounts that the schedd uses.
    """
    if settings.LAB or own_account() not in settings.JOB_USERS:
        return []
    what = f"WMS2_JOB_USERS names {own_account()}, the account that WMS2 runs as."
    return [Error(what, hint=JOB_USER_HINT, id=JOB_USER_ID)]


def own_account() -> str:
    """Return the account of this process; its number if it has no name."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


@register(STARTUP)
def check_round_size(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Check the number of jobs per round: node names have six digits."""
    if 1 <= settings.MAX_JOBS_PER_ROUND <= MAX_NODES:
        return []
    return [
        Error(
            f"WMS2_MAX_JOBS_PER_ROUND is {settings.MAX_JOBS_PER_ROUND}.",
            hint=f"Set it to a number from 1 to {MAX_NODES}.",
            id="wms2.E011",
        )
    ]


@register(STARTUP, Tags.security)
def check_identity(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Check the settings that decide which identities are trusted."""
    return [
        Error(message, hint=f"Correct the environment variable {variable}.", id="wms2.E006")
        for variable, message in _identity_slips()
    ]


def _identity_slips() -> Iterator[tuple[str, str]]:
    """Yield variable and message of each invalid identity setting."""
    if settings.OIDC_ISSUERS and not settings.OIDC_AUDIENCES:
        yield "WMS2_OIDC_AUDIENCES", "WMS2_OIDC_ISSUERS is set, but not the audiences their tokens must have."
    for issuer in settings.OIDC_ISSUERS:
        if not issuer.startswith("https://") and not settings.LAB:
            yield "WMS2_OIDC_ISSUERS", f"The token issuer {issuer} is not reached by https."
    if settings.OIDC_RP_CLIENT_ID:
        for name, variable in LOGIN_NEEDS.items():
            if not getattr(settings, name):
                yield variable, f"{variable} is not set, and WMS2_OIDC_CLIENT_ID is."
    for name in set(settings.OIDC_ALGORITHMS) - ASYMMETRIC:
        yield "WMS2_OIDC_ALGORITHMS", f"{name} is not an asymmetric signature algorithm."
    for rule in settings.OIDC_ROLES:
        if problem := _wrong(parse_role_rule, rule):
            yield "WMS2_OIDC_ROLES", problem
        elif not is_role(role := parse_role_rule(rule)[2]):
            yield "WMS2_OIDC_ROLES", f"There is no role {role}."
    for network in settings.TRUSTED_PROXIES:
        if problem := _wrong(ip_network, network):
            yield "WMS2_TRUSTED_PROXIES", problem
    for kind, rate in settings.THROTTLE_RATES.items():
        if problem := _wrong(limits.parse, rate):
            yield f"WMS2_THROTTLE_{kind.upper()}", f"{rate!r} is not a rate such as 60/minute: {problem}"
    if settings.TRACES not in ("", "otlp", "console"):
        yield "WMS2_TRACES", f"{settings.TRACES} is not an exporter; use otlp or console."


def _wrong(parse: Callable[[str], Any], text: str) -> str:
    try:
        parse(text)
    except ValueError as error:
        return str(error)
    return ""


def _missing() -> Iterator[CheckMessage]:
    if not settings.STORAGE_PREFIX and not settings.SITE_STORAGE:
        yield Error(
            "Neither WMS2_STORAGE_PREFIX nor WMS2_SITE_STORAGE is set, which name the sites' storage.",
            hint="Set WMS2_STORAGE_PREFIX to a path or URL with {site} in it, such as"
            " davs://se.example.org/{site}, or WMS2_SITE_STORAGE to the prefixes of each site.",
            id="wms2.E004",
        )
    for name, variable in NEEDED_SERVICES.items():
        if not settings.CMS_SERVICES[name]:
            yield Error(
                f"{variable} is not set.",
                hint="Set the environment variable. With WMS2_LAB=1, for trying out, it is optional.",
                id="wms2.E005",
            )
