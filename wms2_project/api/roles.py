"""Who may call what: every view names the role each method needs; a view that names none is denied.

Roles are Django groups of the same name; each includes the ones below it. Superusers are admins.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, ClassVar

from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest as DjangoRequest
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
        method = request.method or ""
        if not hasattr(view, method.lower()):
            return True  # nothing behind it: DRF answers 405
        needed = role_needed(view, method)
        return needed is not None and role_of(request.user) >= needed


class WithRoles:
    """Mixed into a view: which role each HTTP method needs."""

    roles: ClassVar[dict[str, Role]] = {}


def role_needed(view: Any, method: str) -> Role | None:
    """The role this method needs, or None if nobody may call it."""
    roles: dict[str, Role] = getattr(view, "roles", {})
    if method in ("OPTIONS", "HEAD"):  # both tell at most what the view's least guarded method tells
        return roles.get("GET", min(roles.values(), default=None))
    return roles.get(method)


def actor_of(request: DjangoRequest | HttpRequest) -> str:
    """How the audit names the caller."""
    return f"user:{request.user.get_username()}"
