"""API tokens. The clear text is shown once; only its hash is stored."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.utils import timezone

from wms2_project.access import audit
from wms2_project.access.roles import know_groups
from wms2_project.models import X509, ApiToken

PREFIX = "wms2_"
NOTE_USE_EVERY = timedelta(minutes=1)  # one write per API call would be most of the writes


def digest_of(clear_text: str) -> str:
    """Return the stored hash. A plain hash is safe, because the token has 256 random bits."""
    return hashlib.sha256(clear_text.encode()).hexdigest()


def new_token() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def issue_token(
    *,
    user: User,
    name: str,
    actor: str,
    reason: str,
    clear_text: str = "",
    expires_at: datetime | None = None,
) -> str:
    """Create a token and return its clear text. An older token of the same name stops working.

    The token of an account whose roles come from an issuer expires with them, regardless of the requested
    date.
    """
    clear_text = clear_text or new_token()
    if user.identities.exclude(issuer=X509).exists():
        expires_at = min(filter(None, (expires_at, roles_last_until(timezone.now()))))
    values = {
        "digest": digest_of(clear_text),
        "created_at": timezone.now(),
        "expires_at": expires_at,
        "revoked_at": None,
        "last_used_at": None,
    }
    ends = expires_at.isoformat() if expires_at else None
    with transaction.atomic():
        ApiToken.objects.update_or_create(user=user, name=name, defaults=values)
        audit.record(
            actor=actor, action="issue token", target=_target(user, name), reason=reason, expires_at=ends
        )
    return clear_text


def roles_last_until(now: datetime) -> datetime:
    """Return the end of the validity of roles from an issuer."""
    return now + timedelta(hours=settings.OIDC_ROLES_HOURS)


def revoke_token(*, token: ApiToken, actor: str, reason: str) -> None:
    """Revoke the token with immediate effect. Repeating it changes nothing."""
    audit.need_reason(reason)
    with transaction.atomic():
        live = ApiToken.objects.filter(pk=token.pk, revoked_at__isnull=True)
        if live.update(revoked_at=timezone.now()):
            target = _target(token.user, token.name)
            audit.record(actor=actor, action="revoke token", target=target, reason=reason)


# Raw SQL because every API call runs it: building the query with the ORM takes longer than executing it.
# The columns are in the order of the models, as from_db requires.
_LIVE = """
SELECT t.id, t.user_id, t.expires_at, t.last_used_at, u.id, u.is_superuser, u.username, u.is_active,
       ARRAY(SELECT g.name FROM auth_user_groups m JOIN auth_group g ON g.id = m.group_id
              WHERE m.user_id = u.id)
  FROM wms2_project_apitoken t JOIN auth_user u ON u.id = t.user_id
 WHERE t.digest = %(digest)s AND t.revoked_at IS NULL AND u.is_active
   AND (t.expires_at IS NULL OR t.expires_at > %(now)s)"""


def token_of(clear_text: str, *, now: datetime) -> ApiToken | None:
    """Return the valid token with this text and record its use; None if it is unknown, expired or revoked."""
    with connection.cursor() as cursor:
        cursor.execute(_LIVE, {"digest": digest_of(clear_text), "now": now})
        row = cursor.fetchone()
    if row is None:
        return None
    token = ApiToken.from_db("default", ["id", "user_id", "expires_at", "last_used_at"], row[:4])
    token.user = User.from_db("default", ["id", "is_superuser", "username", "is_active"], row[4:8])
    know_groups(token.user, row[8])
    if token.last_used_at is None or now - token.last_used_at > NOTE_USE_EVERY:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token


def _target(user: User, name: str) -> str:
    return f"token {name} of {user.get_username()}"[:250]
