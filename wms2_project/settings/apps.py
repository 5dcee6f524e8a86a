"""Installed applications, middleware, templates and static files."""

from __future__ import annotations

from pathlib import Path

from wms2_project.settings.environment import LAB, env
from wms2_project.settings.security import OIDC_RP_CLIENT_ID

INSTALLED_APPS = [
    "unfold",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_filters",
    "django_celery_beat",
    "wms2_project",
    "dags_app",
    "sites_app",
    "outputs_app",
    "requests_app",
    "chains_app",
    "console",
]
if LAB:
    INSTALLED_APPS.append("lab.fleet")  # manage.py seed_fleet

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "wms2_project.middleware.ContentSecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "wms2_project.middleware.RequestIdMiddleware",
    "wms2_project.middleware.ObservingMiddleware",
    "wms2_project.middleware.JobCallMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
if OIDC_RP_CLIENT_ID:
    MIDDLEWARE.append("mozilla_django_oidc.middleware.SessionRefresh")

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [Path(__file__).parents[1] / "templates"],  # some replace templates of unfold
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

ROOT_URLCONF = "wms2_project.urls"
WSGI_APPLICATION = "wms2_project.wsgi.application"
APPEND_SLASH = False  # the REST paths have no trailing slash; /admin/ redirects by its own route
LANGUAGE_CODE = "en"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"  # Django exports TZ, which DAGMan uses in its logs
STATIC_URL = "/static/"
STATIC_ROOT = env.str("WMS2_STATIC_ROOT", default=None)
WHITENOISE_USE_FINDERS = True  # serve static files of installed packages without collectstatic
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
