"""Roles. Every view names the role each method needs; a view that names none is denied.

Roles are Django groups of the same name; each includes the ones below it. Superusers are admins. The group
`site_admin:T2_CH_CERN` makes its members admins of that site only. The group `member:higgs` is not a role:
its members may submit requests whose `Group` is higgs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from enum import IntEnum
from importlib import import_module
from typing import Any, ClassVar

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.models import AnonymousUser, User
from django.db import Error as DatabaseError
from django.db import close_old_connections
from django.http import HttpRequest as DjangoRequest
from rest_framework.permissions import BasePermission
from rest_framework.request import Request as HttpRequest

from wms2_project.grammar import Name, matches

logger = logging.getLogger(__name__)


class Role(IntEnum):
    """Roles, each with the permissions of the lower ones."""

    ANONYMOUS = 0
    VIEWER = 1
    REQUESTOR = 2
    SITE_ADMIN = 3
    OPERATOR = 4
    ADMIN = 5


GROUPS = {role.name.lower(): role for role in Role if role is not Role.ANONYMOUS}
OWN_SITE = "site_admin:"
MEMBER = "member:"
MAX_GROUP = 100  # characters of a request's group


def is_role(name: str) -> bool:
    """Return whether this names a role, the role of one site's admin, or the membership of a group."""
    site, group = name.removeprefix(OWN_SITE), name.removeprefix(MEMBER)
    return (
        name in GROUPS
        or (name.startswith(OWN_SITE) and matches(Name.SITE, site))
        or (name.startswith(MEMBER) and matches(Name.WORD, group) and len(group) <= MAX_GROUP)
    )


def role_of(user: User | AnonymousUser) -> Role:
    """Return the user's highest role; ANONYMOUS if the account has none."""
    if not user.is_authenticated or not user.is_active:
        return Role.ANONYMOUS
    if getattr(user, "granted_roles", None) is None and user.is_superuser:
        return Role.ADMIN
    names = (name for name in _names(user) if is_role(name) and not name.startswith(MEMBER))
    return max((GROUPS[name.partition(":")[0]] for name in names), default=Role.ANONYMOUS)


def sites_of(user: User | AnonymousUser) -> frozenset[str]:
    """Return the sites the user administers."""
    names = _names(user) if user.is_authenticated else frozenset()
    return frozenset(name.removeprefix(OWN_SITE) for name in names if name.startswith(OWN_SITE))


def groups_of(user: User | AnonymousUser) -> frozenset[str]:
    """Return the groups for which the user may submit requests."""
    names = _names(user) if user.is_authenticated else frozenset()
    return frozenset(name.removeprefix(MEMBER) for name in names if name.startswith(MEMBER))


def _names(user: User | AnonymousUser) -> frozenset[str]:
    """Return the names of the user's roles, from the bearer token or the groups. Read once per call."""
    granted: frozenset[str] | None = getattr(user, "granted_roles", None)
    if granted is not None:
        return granted
    if "_wms2_groups" not in user.__dict__:
        know_groups(user, user.groups.values_list("name", flat=True))
    known: frozenset[str] = user.__dict__["_wms2_groups"]
    return known


def know_groups(user: User | AnonymousUser, names: Iterable[str]) -> None:
    """Set the user's groups, if they were read with the user. This saves a query."""
    user.__dict__["_wms2_groups"] = frozenset(names)


def operates(user: User | AnonymousUser) -> bool:
    return role_of(user) >= Role.OPERATOR


def may_steer_site(user: User | AnonymousUser, site: str) -> bool:
    """Return whether the user may operate the site: operators every site, site admins their own."""
    return operates(user) or site in sites_of(user)


class RolePermission(BasePermission):
    """Compares the caller's role with the view's `roles` for this method. No entry denies access."""

    def has_permission(self, request: HttpRequest, view: Any) -> bool:
        method = request.method or ""
        if method not in view.allowed_methods:
            return True  # DRF answers 405
        needed = role_needed(view, method)
        return needed is not None and role_of(request.user) >= needed


class WithRoles:
    """Mixin with the role each HTTP method needs."""

    roles: ClassVar[dict[str, Role]] = {}
    for_jobs: ClassVar[bool] = False  # called by jobs with tokens of their own, and closed to people


def role_needed(view: Any, method: str) -> Role | None:
    """Return the role this method needs, or None if the method is closed to all."""
    roles: dict[str, Role] = getattr(view, "roles", {})
    if method in ("OPTIONS", "HEAD"):  # they reveal no more than the view's least protected method
        return roles.get("GET", min(roles.values(), default=None))
    return roles.get(method)


def actor_of(request: DjangoRequest | HttpRequest) -> str:
    """Return the caller's name in the audit."""
    return f"user:{request.user.get_username()}"


def session_role(session_key: str) -> Role:
    """Return the role of the session's user; ANONYMOUS if there is no such session or no database."""
    asked = DjangoRequest()
    asked.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    try:
        return role_of(get_user(asked))
    except DatabaseError:
        logger.exception("the session cannot be read")
        return Role.ANONYMOUS
    finally:
        close_old_connections()
