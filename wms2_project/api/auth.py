"""API tokens: made once, shown once, stored as a hash, checked in constant work."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db.models import Q
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request as HttpRequest

from wms2_project.models import ApiToken

PREFIX = "wms2_"
_NOTE_USE_EVERY = timedelta(minutes=1)  # a row written per API call would be most of our writes


def digest_of(clear_text: str) -> str:
    """What is stored. The token is 256 random bits, so a plain hash cannot be guessed back."""
    return hashlib.sha256(clear_text.encode()).hexdigest()


def new_token() -> str:
    """The clear text of a new token."""
    return PREFIX + secrets.token_urlsafe(32)


def issue_token(*, user: User, name: str, clear_text: str = "", expires_at: datetime | None = None) -> str:
    """Give the user a token of this name (replacing an older one) and return its clear text, once."""
    clear_text = clear_text or new_token()
    values = {"digest": digest_of(clear_text), "expires_at": expires_at, "revoked_at": None}
    ApiToken.objects.update_or_create(user=user, name=name, defaults=values)
    return clear_text


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer wms2_…`."""

    def authenticate(self, request: HttpRequest) -> tuple[User, ApiToken] | None:
        """The user behind the token; None when no token was sent."""
        words = get_authorization_header(request).decode("latin-1").split()
        if not words or words[0].lower() != "bearer":
            return None
        if len(words) != 2:
            raise AuthenticationFailed("The Authorization header must read: Bearer <token>.")
        now = timezone.now()
        alive = Q(expires_at__isnull=True) | Q(expires_at__gt=now)
        token = (
            ApiToken.objects.select_related("user")
            .filter(alive, digest=digest_of(words[1]), revoked_at__isnull=True, user__is_active=True)
            .first()
        )
        if token is None:
            raise AuthenticationFailed("This token is unknown, expired or revoked; ask for a new one.")
        if token.last_used_at is None or now - token.last_used_at > _NOTE_USE_EVERY:
            ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
        return token.user, token

    def authenticate_header(self, request: HttpRequest) -> str:
        """What a 401 asks for."""
        return "Bearer"
