"""Trusted proxies, token issuers and console login at an issuer."""

from __future__ import annotations

import re

from wms2_project.settings.environment import env

# Addresses or networks of proxies whose headers name the caller's address or certificate.
TRUSTED_PROXIES = env.list("WMS2_TRUSTED_PROXIES", default=[])
X509_DN_HEADER = env.str("WMS2_X509_DN_HEADER", default="X-SSL-Client-S-DN")
X509_VERIFY_HEADER = env.str("WMS2_X509_VERIFY_HEADER", default="X-SSL-Client-Verify")

OIDC_ISSUERS = env.list("WMS2_OIDC_ISSUERS", default=[])
OIDC_AUDIENCES = env.list("WMS2_OIDC_AUDIENCES", default=[])
OIDC_ALGORITHMS = env.list("WMS2_OIDC_ALGORITHMS", default=["RS256", "ES256"])
OIDC_SCOPE = env.str("WMS2_OIDC_SCOPE", default="")
OIDC_ROLES = env.list("WMS2_OIDC_ROLES", default=[])
# Validity of roles granted by an issuer: limits sessions and API tokens.
OIDC_ROLES_HOURS = env.int("WMS2_OIDC_ROLES_HOURS", default=12)
OIDC_TIMEOUT_SEC = env.float("WMS2_OIDC_TIMEOUT_SEC", default=5.0)

# Console login at an issuer, with the setting names of mozilla-django-oidc. Off without a client id.
OIDC_LOGIN_ISSUER = env.str("WMS2_OIDC_LOGIN_ISSUER", default="")
OIDC_RP_CLIENT_ID = env.str("WMS2_OIDC_CLIENT_ID", default="")
OIDC_RP_CLIENT_SECRET = env.str("WMS2_OIDC_CLIENT_SECRET", default="")
OIDC_OP_AUTHORIZATION_ENDPOINT = env.str("WMS2_OIDC_AUTHORIZE_URL", default="")
OIDC_OP_TOKEN_ENDPOINT = env.str("WMS2_OIDC_TOKEN_URL", default="")
OIDC_OP_USER_ENDPOINT = ""  # not needed: the identity token has all claims
OIDC_RP_SCOPES = env.str("WMS2_OIDC_LOGIN_SCOPES", default="openid profile")
OIDC_CALLBACK_CLASS = "wms2_project.access.sso.LoginCallback"
OIDC_USE_PKCE = True
OIDC_TIMEOUT = OIDC_TIMEOUT_SEC
OIDC_EXEMPT_URLS = [re.compile(r"^/api/")]  # API clients cannot follow a login renewal
LOGIN_REDIRECT_URL_FAILURE = "/admin/login/"
AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.ModelBackend"]
if OIDC_RP_CLIENT_ID:
    AUTHENTICATION_BACKENDS.append("wms2_project.access.sso.SingleSignOn")
