"""PostgreSQL, the truth. Nothing else is supported: others silently drop SKIP LOCKED."""

from __future__ import annotations

from wms2_project.settings.environment import env

DATABASES = {"default": env.db("DATABASE_URL")}
DATABASES["default"] |= {
    "CONN_MAX_AGE": 300,
    "CONN_HEALTH_CHECKS": True,  # a restarted PostgreSQL costs one reconnect, not one failed request
    "OPTIONS": {
        "connect_timeout": 5,
        "options": f"-c statement_timeout={env.int('WMS2_STATEMENT_TIMEOUT_MS', default=30_000)}"
        " -c idle_in_transaction_session_timeout=60000",
    },
}
