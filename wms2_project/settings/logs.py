"""Structured logs on standard error: one line per event, with the request name when there is one."""

from __future__ import annotations

from wms2_project.settings.environment import env

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": "wms2_project.logs.LineFormatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": env.str("WMS2_LOG_LEVEL", default="INFO")},
    "loggers": {
        "django.server": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
        "celery.beat": {"level": "WARNING"},  # one line a second for ever says nothing
    },
}
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
