"""Addresses of the external services. They have no defaults, which could write to a wrong catalogue."""

from __future__ import annotations

from wms2_project.settings.environment import LAB, env, parse_json

CMS_SERVICES = {
    "reqmgr2_url": env.str("WMS2_REQMGR2_URL", default=""),
    "config_cache_url": env.str("WMS2_CONFIG_CACHE_URL", default=""),
    "dbs_url": env.str("WMS2_DBS_URL", default=""),
    "dbs_writer_url": env.str("WMS2_DBS_WRITER_URL", default=""),
    "rucio_url": env.str("WMS2_RUCIO_URL", default=""),
    "rucio_auth_url": env.str("WMS2_RUCIO_AUTH_URL", default=""),
    "rucio_account": env.str("WMS2_RUCIO_ACCOUNT", default=""),
    "rucio_username": env.str("WMS2_RUCIO_USERNAME", default=""),
    "rucio_password": env.str("WMS2_RUCIO_PASSWORD", default=""),
    "cric_url": env.str("WMS2_CRIC_URL", default=""),
    "client_cert": env.str("WMS2_CLIENT_CERT", default=""),
    "client_key": env.str("WMS2_CLIENT_KEY", default=""),  # empty: in the file of the certificate
    "ca_bundle": env.str("WMS2_CA_BUNDLE", default=""),
}

# Timeout of one call; rate limit and circuit breaker of all workers together, per service
SERVICE_TIMEOUT_SEC = env.float("WMS2_SERVICE_TIMEOUT_SEC", default=45.0)
IMPORT_DBS_SEC = env.float("WMS2_IMPORT_DBS_SEC", default=3.0)
SERVICE_CALLS_PER_SEC = env.int("WMS2_SERVICE_CALLS_PER_SEC", default=200 if LAB else 20)
BREAKER_FAILURES = env.int("WMS2_BREAKER_FAILURES", default=5)
BREAKER_PAUSE_SEC = env.float("WMS2_BREAKER_PAUSE_SEC", default=2.0 if LAB else 30.0)

SUBMIT_ROOT = env.str("WMS2_SUBMIT_ROOT", default="")
ARCHIVE_ROOT = env.str("WMS2_ARCHIVE_ROOT", default="")  # archive/ in the submit root if empty
STATE_DIR = env.str("WMS2_STATE", default="")
STORAGE_PREFIX = env.str("WMS2_STORAGE_PREFIX", default="")
SITE_STORAGE = env("WMS2_SITE_STORAGE", cast=parse_json, default={})
STORAGE_CA_FILE = env.str("WMS2_STORAGE_CA_FILE", default="")
JOB_USERS = env.list("WMS2_JOB_USERS", default=[])
