"""Authentication of API calls: API tokens, issuers' bearer tokens, certificates verified by a proxy."""

from __future__ import annotations

from functools import cache

from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import PermissionDenied
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request as HttpRequest

from wms2_project.access.bearer import Bearer, BearerPolicy, BearerRefused, parse_role_rule, read_bearer
from wms2_project.access.issuer_keys import IssuerKeys
from wms2_project.access.people import person_of_bearer, person_of_certificate
from wms2_project.access.proxies import certificate_dn
from wms2_project.access.throttles import refusal
from wms2_project.access.tokens import PREFIX, token_of
from wms2_project.models import ApiToken


@cache
def issuer_keys() -> IssuerKeys:
    """Return the issuer keys cached in this process."""
    return IssuerKeys(timeout_sec=settings.OIDC_TIMEOUT_SEC)


def bearer_policy() -> BearerPolicy:
    """Build the policy for issuers' bearer tokens from the settings."""
    return BearerPolicy(
        issuers=tuple(settings.OIDC_ISSUERS),
        audiences=tuple(settings.OIDC_AUDIENCES),
        algorithms=tuple(settings.OIDC_ALGORITHMS),
        scope=settings.OIDC_SCOPE,
        roles=tuple(parse_role_rule(rule) for rule in settings.OIDC_ROLES),
    )


class TokenAuthentication(BaseAuthentication):
    """Authenticates `Authorization: Bearer …`: an API token (`wms2_…`) or a token of a known issuer."""

    def authenticate(self, request: HttpRequest) -> tuple[User, ApiToken | Bearer] | None:
        """Return the user of the token; None if none was sent."""
        words = get_authorization_header(request).decode("latin-1").split()
        if not words or words[0].lower() != "bearer":
            return None
        if len(words) != 2:
            raise refusal(request, "The Authorization header must be `Bearer <token>`.")
        if words[1].startswith(PREFIX) or not settings.OIDC_ISSUERS:
            return _by_api_token(request, words[1])
        return _by_bearer(request, words[1])

    def authenticate_header(self, request: HttpRequest) -> str:
        """Return the scheme named in the `WWW-Authenticate` header of a 401."""
        return "Bearer"


def _by_api_token(request: HttpRequest, text: str) -> tuple[User, ApiToken]:
    token = token_of(text, now=timezone.now())
    if token is None:
        raise refusal(request, "This token is unknown, expired or revoked. Create a new one.")
    return token.user, token


def _by_bearer(request: HttpRequest, text: str) -> tuple[User, Bearer]:
    try:
        bearer = read_bearer(text, policy=bearer_policy(), keys=issuer_keys())
    except BearerRefused as refused:
        raise refusal(request, str(refused)) from refused
    user = person_of_bearer(bearer, now=timezone.now())
    if user is None:
        raise refusal(request, "This account is deactivated. Ask an admin.")
    return user, bearer


class CertificateAuthentication(BaseAuthentication):
    """Authenticates the client certificate whose subject a trusted proxy passes on."""

    def authenticate(self, request: HttpRequest) -> tuple[User, str] | None:
        """Return the user linked to the certificate; None if no trusted proxy names one."""
        dn = certificate_dn(request._request)
        if not dn:
            return None
        user = person_of_certificate(dn, now=timezone.now())
        if user is None:
            raise refusal(request, f"No account is linked to {dn}. Ask an admin to link this certificate.")
        # Browsers send the certificate with calls from any page: refuse writes from pages of other sites.
        if request.method not in SAFE_METHODS and request.headers.get("Sec-Fetch-Site") in _FOREIGN:
            raise PermissionDenied("Cross-site calls with a client certificate are refused.")
        return user, dn


_FOREIGN = ("cross-site", "same-site")
