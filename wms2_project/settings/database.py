"""PostgreSQL, the only supported database: others ignore SKIP LOCKED silently."""

from __future__ import annotations

from wms2_project.settings.environment import env

STATEMENT_TIMEOUT_MS = env.int("WMS2_STATEMENT_TIMEOUT_MS", default=30_000)
DATABASES = {"default": env.db("DATABASE_URL")}
if DATABASES["default"]["ENGINE"] == "django.db.backends.postgresql":
    DATABASES["default"]["ENGINE"] = "wms2_project.postgresql"
DATABASES["default"] |= {
    "CONN_MAX_AGE": 300,
    "CONN_HEALTH_CHECKS": True,  # reconnect after a restart of PostgreSQL instead of failing a call
    "OPTIONS": {
        "connect_timeout": 5,
        "options": f"-c statement_timeout={STATEMENT_TIMEOUT_MS}"
        " -c idle_in_transaction_session_timeout=60000"
        " -c plan_cache_mode=force_generic_plan",  # what is prepared by name is planned once in a session
    },
}
