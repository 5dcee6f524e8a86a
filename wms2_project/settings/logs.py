"""Logs on standard error and optional traces."""

from __future__ import annotations

from wms2_project.settings.environment import LAB, env

TRACES = env.str("WMS2_TRACES", default="")  # otlp or console; empty: none
_FORMAT = env.str("WMS2_LOG_FORMAT", default="line" if LAB else "json")
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"()": "wms2_project.observation.logs.LineFormatter"},
        "json": {"()": "wms2_project.observation.logs.JsonFormatter"},
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": _FORMAT}},
    "root": {"handlers": ["stderr"], "level": env.str("WMS2_LOG_LEVEL", default="INFO")},
    "loggers": {
        "django.server": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
        "celery.beat": {"level": "WARNING"},  # one line per second otherwise
    },
}
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
