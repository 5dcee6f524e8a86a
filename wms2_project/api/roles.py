"""Who may call what: every view names the role each method needs; a view that names none is denied.

Roles are Django groups of the same name; each includes the ones below it. Superusers are admins.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, ClassVar

from django.contrib.auth.models import AnonymousUser, User
from rest_framework.permissions import BasePermission
from rest_framework.request import Request as HttpRequest


class Role(IntEnum):
    """What a person may do, from looking on to everything."""

    ANONYMOUS = 0
    VIEWER = 1
    REQUESTOR = 2
    OPERATOR = 3
    ADMIN = 4


GROUPS = {role.name.lower(): role for role in Role if role is not Role.ANONYMOUS}


def role_of(user: User | AnonymousUser) -> Role:
    """The highest role the user's groups give; any logged-in user may at least look."""
    if not user.is_authenticated or not user.is_active:
        return Role.ANONYMOUS
    if user.is_superuser:
        return Role.ADMIN
    names = user.groups.values_list("name", flat=True)
    return max((GROUPS[name] for name in names if name in GROUPS), default=Role.VIEWER)


class RolePermission(BasePermission):
    """Compares the caller's role with the view's `roles` for this method. No entry means no."""

    def has_permission(self, request: HttpRequest, view: Any) -> bool:
        """May this caller use this method of this view at all?"""
        needed = role_needed(view, request.method or "")
        return needed is not None and role_of(request.user) >= needed


class WithRoles:
    """Mixed into a view: which role each HTTP method needs."""

    roles: ClassVar[dict[str, Role]] = {}


def role_needed(view: Any, method: str) -> Role | None:
    """The role this method needs, or None if nobody may call it."""
    if method in ("OPTIONS", "HEAD"):
        method = "GET" if "GET" in getattr(view, "roles", {}) else "POST"
    roles: dict[str, Role] = getattr(view, "roles", {})
    if not roles and type(view).__module__.startswith("drf_spectacular"):
        return Role.ANONYMOUS  # the schema and its pages say nothing that the documentation does not
    return roles.get(method)


def actor_of(request: HttpRequest) -> str:
    """How the audit names the caller."""
    return f"user:{request.user.get_username()}"
