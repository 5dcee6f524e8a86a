"""Secrets, hosts, cookies and headers; trusted proxies, token issuers and console login at an issuer."""

from __future__ import annotations

import re

from wms2_project.settings.environment import LAB, env

DEBUG = env.bool("WMS2_DEBUG", default=False)
SECRET_KEY = env.str("SECRET_KEY")
AUDIT_KEY = env.str("WMS2_AUDIT_KEY", default=SECRET_KEY)  # keep it when SECRET_KEY changes
JOB_TOKEN_KEY = env.str("WMS2_JOB_TOKEN_KEY", default=SECRET_KEY)  # tokens of running runners end with it
# Where the head of the audit is sent: https://… (POST) or syslog://host:port; empty: to the log only
AUDIT_HEAD_URL = env.str("WMS2_AUDIT_HEAD_URL", default="")
ALLOWED_HOSTS = env.list("WMS2_ALLOWED_HOSTS", default=["127.0.0.1", "localhost", "testserver"])
CSRF_FAILURE_VIEW = "wms2_project.api.errors.stale_form"
CSRF_TRUSTED_ORIGINS = env.list("WMS2_CSRF_TRUSTED_ORIGINS", default=[])

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "/admin/login/"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = not LAB  # the lab speaks plain HTTP on loopback
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_SSL_REDIRECT = env.bool("WMS2_SSL_REDIRECT", default=not LAB)
SECURE_REDIRECT_EXEMPT = [r"^api/v1/(livez|readyz)$"]  # probes reach the container without the proxy
SECURE_HSTS_SECONDS = 0 if LAB else 31_536_000
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = not LAB
SECURE_CONTENT_TYPE_NOSNIFF = True
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 1_000_000

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
