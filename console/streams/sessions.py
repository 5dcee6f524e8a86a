"""Sessions of connected people, checked when a stream opens and all together afterwards."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.http import parse_cookie
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from wms2_project.access.roles import Role, know_groups, role_of


@dataclass(frozen=True, slots=True)
class Viewer:
    """A person with an open page."""

    session: str
    username: str
    role: Role


def session_of(cookies: str) -> str:
    """Return the session key of a Cookie header; empty if there is none."""
    return parse_cookie(cookies).get(settings.SESSION_COOKIE_NAME, "")


def viewers_of(sessions: Collection[str]) -> dict[str, Viewer]:
    """Return the people of the valid sessions, in three queries. Others are left out."""
    found = Session.objects.filter(session_key__in=sessions, expire_date__gt=timezone.now())
    store = SessionStore()
    decoded = {row.session_key: store.decode(row.session_data) for row in found}
    ids = {data[SESSION_KEY] for data in decoded.values() if SESSION_KEY in data}
    people = User.objects.filter(pk__in=ids, is_active=True, is_staff=True).prefetch_related("groups")
    by_id = {str(user.pk): user for user in people}
    viewers = {}
    for key, data in decoded.items():
        user = by_id.get(data.get(SESSION_KEY, ""))
        if user is None or not _is_current(user, data.get(HASH_SESSION_KEY, "")):
            continue
        know_groups(user, [group.name for group in user.groups.all()])
        if role_of(user) >= Role.VIEWER:
            viewers[key] = Viewer(key, user.get_username(), role_of(user))
    return viewers


def _is_current(user: User, hashed: str) -> bool:
    """Return whether the session was opened with the present password."""
    return any(
        constant_time_compare(hashed, one)
        for one in (user.get_session_auth_hash(), *user.get_session_auth_fallback_hash())
    )
