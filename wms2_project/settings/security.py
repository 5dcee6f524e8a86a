"""Secrets, hosts, cookies and headers."""

from __future__ import annotations

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
