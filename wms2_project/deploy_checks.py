"""Checks of `manage.py check --deploy`: settings that make a production insecure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Info, Tags, register
from django.core.exceptions import ImproperlyConfigured
from django.db import Error as DatabaseError
from django.db import connection

from wms2_project.models import AuditEvent

KEY_LENGTH, KEY_CHARACTERS = 50, 5
PLACEHOLDER = re.compile(r"change.?me|insecure|example|placeholder|unused|your.?(secret|key)|xxxx|1234", re.I)
WIDEST_PROXIES = {4: 8, 6: 32}  # shortest prefix accepted, by IP version
AUDIT_HEAD = "WMS2_AUDIT_HEAD_URL"
RIGHTS = (
    "is a superuser",
    "may create roles",
    "bypasses row security",
    "may replicate",
    "may change the audit",
)
ROLE = """
SELECT current_user, rolsuper, rolcreaterole, rolbypassrls, rolreplication,
       coalesce(has_table_privilege(to_regclass(%s), 'UPDATE, DELETE, TRUNCATE'), false)
FROM pg_roles WHERE rolname = current_user
"""


@register(Tags.security, deploy=True)
def check_keys(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Check the keys that protect sessions, tokens and the audit."""
    return [
        Error(
            f"{variable} {problem}.",
            hint=f"Set {variable} to at least {KEY_LENGTH} random characters.",
            id="wms2.E012",
        )
        for variable, key in _keys()
        if (problem := _key_problem(key))
    ]


@register(Tags.security, deploy=True)
def check_debug_and_hosts(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Refuse debug pages, which show settings, and wildcard hosts, which callers could choose."""
    found: list[CheckMessage] = []
    if settings.DEBUG:
        found.append(Error("WMS2_DEBUG is on.", hint="Unset WMS2_DEBUG.", id="wms2.E013"))
    if wide := [host for host in settings.ALLOWED_HOSTS if "*" in host or host == "."]:
        hint = "Set WMS2_ALLOWED_HOSTS to the names users type into the browser."
        found.append(Error(f"WMS2_ALLOWED_HOSTS contains {wide[0]}.", hint=hint, id="wms2.E014"))
    return found


@register(Tags.security, deploy=True)
def check_service_urls(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Require TLS for addresses that get credentials or data, outside the lab."""
    if settings.LAB:
        return []
    return [
        Error(
            f"{variable} is not reached by https.",
            hint=f"Set {variable} to an address that begins with https://.",
            id="wms2.E015",
        )
        for variable, url in _urls()
        if url and urlsplit(url).scheme not in (("https", "syslog") if variable == AUDIT_HEAD else ("https",))
    ]


@register(Tags.security, deploy=True)
def check_proxies(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Require named proxies: otherwise all callers have the proxy's address and no certificate."""
    if settings.LAB or not settings.SECURE_SSL_REDIRECT:
        return []
    hint = "Set WMS2_TRUSTED_PROXIES to the addresses of the TLS proxy in front."
    if not settings.TRUSTED_PROXIES:
        found = "WMS2_SSL_REDIRECT is on and WMS2_TRUSTED_PROXIES is not set."
        return [Error(found, hint=hint, id="wms2.E016")]
    return [
        Error(f"WMS2_TRUSTED_PROXIES trusts all of {text}.", hint=hint, id="wms2.E016")
        for text in settings.TRUSTED_PROXIES
        if _is_wide(text)
    ]


@register(Tags.security, deploy=True)
def check_database_role(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Check that the database role WMS2 runs as cannot change the audit."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(ROLE, [AuditEvent._meta.db_table])
            role, *may = cursor.fetchone()
    except (DatabaseError, ImproperlyConfigured) as error:
        message = " ".join(str(error).split())
        return [Info(f"The database role was not checked: {message}", id="wms2.I001")]
    return [
        Error(
            f"The database role {role} {right}.",
            hint="Run WMS2 as the role that deploy/postgres/roles.sql creates, and migrate as the owner.",
            id="wms2.E017",
        )
        for right, held in zip(RIGHTS, may, strict=True)
        if held
    ]


def _keys() -> Iterator[tuple[str, str]]:
    try:
        yield "SECRET_KEY", settings.SECRET_KEY
    except ImproperlyConfigured:
        return  # reported as wms2.E001
    if settings.AUDIT_KEY != settings.SECRET_KEY:
        yield "WMS2_AUDIT_KEY", settings.AUDIT_KEY


def _key_problem(key: str) -> str:
    if PLACEHOLDER.search(key):
        return "is a placeholder"
    if len(key) < KEY_LENGTH or len(set(key)) < KEY_CHARACTERS:
        return f"is too short or has too few different characters ({len(key)}, {len(set(key))})"
    return ""


def _urls() -> Iterator[tuple[str, str]]:
    for name, url in settings.CMS_SERVICES.items():
        if name.endswith("_url"):
            yield f"WMS2_{name.upper()}", url
    yield "WMS2_OIDC_AUTHORIZE_URL", settings.OIDC_OP_AUTHORIZATION_ENDPOINT
    yield "WMS2_OIDC_TOKEN_URL", settings.OIDC_OP_TOKEN_ENDPOINT
    yield "WMS2_ALERT_WEBHOOK_URL", settings.ALERT_WEBHOOK_URL
    yield AUDIT_HEAD, settings.AUDIT_HEAD_URL


def _is_wide(text: str) -> bool:
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        return False  # reported as wms2.E006
    return network.prefixlen < WIDEST_PROXIES[network.version]
