"""Console login at an issuer: mozilla-django-oidc runs the code flow, this module interprets the token."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import requests
from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import SuspiciousOperation
from django.http import HttpResponse
from django.utils import timezone
from mozilla_django_oidc.auth import OIDCAuthenticationBackend
from mozilla_django_oidc.views import OIDCAuthenticationCallbackView

from wms2_project.access.authentication import bearer_policy, issuer_keys
from wms2_project.access.bearer import BearerPolicy, meaning_of, verified_claims
from wms2_project.access.people import sign_in
from wms2_project.access.tokens import roles_last_until
from wms2_project.errors import Wms2Error

logger = logging.getLogger(__name__)


class SingleSignOn(OIDCAuthenticationBackend):  # type: ignore[misc]
    """Takes roles from the issuer's groups at each login and renewal; refuses accounts without one."""

    def authenticate(self, request: Any, **kwargs: Any) -> User | None:
        """Return the user of the issuer's code; None if the login fails."""
        try:
            user: User | None = super().authenticate(request, **kwargs)
        except (requests.RequestException, Wms2Error) as error:
            logger.warning("single sign-on failed: %s: %s", type(error).__name__, error)
            return None
        return user

    def verify_token(self, token: str, **kwargs: Any) -> dict[str, Any]:
        """Return the claims of the identity token, which must be issued for WMS2 and for this login."""
        claims = verified_claims(token, policy=_policy(), keys=issuer_keys())
        if not kwargs.get("nonce") or claims.get("nonce") != kwargs["nonce"]:
            raise SuspiciousOperation("the identity token is not for this login")
        return claims

    def get_or_create_user(self, access_token: str, id_token: str, payload: dict[str, Any]) -> User | None:
        """Return the account with the roles of the token."""
        bearer = meaning_of(payload, policy=_policy())
        if not bearer.roles:
            raise SuspiciousOperation(f"{bearer.subject} has no role here")
        return sign_in(bearer, now=timezone.now())


class LoginCallback(OIDCAuthenticationCallbackView):  # type: ignore[misc]
    """The page to which the issuer redirects the browser."""

    def login_success(self) -> HttpResponse:
        """Start the session. It expires with the roles, because API calls by cookie never renew them."""
        answer: HttpResponse = super().login_success()
        self.request.session.set_expiry(roles_last_until(timezone.now()))
        return answer


def _policy() -> BearerPolicy:
    return replace(
        bearer_policy(),
        issuers=(settings.OIDC_LOGIN_ISSUER,),
        audiences=(settings.OIDC_RP_CLIENT_ID,),
        scope="",
    )
