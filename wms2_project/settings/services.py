"""External services: addresses, credentials and message brokers.

Addresses have no defaults, which could write to a wrong catalogue. Credential files are read when they are
needed, so they can be renewed.
"""

from __future__ import annotations

from django.core.exceptions import ImproperlyConfigured

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

# Towards Rucio, and towards DBS, ReqMgr2 and CRIC where they take tokens; certificates are in CMS_SERVICES
RUCIO_AUTH = env.str("WMS2_RUCIO_AUTH", default="userpass")
if RUCIO_AUTH not in ("userpass", "x509", "x509_proxy", "token"):
    raise ImproperlyConfigured(
        f"WMS2_RUCIO_AUTH is {RUCIO_AUTH!r}; set it to userpass, x509, x509_proxy or token"
    )
SERVICE_TOKEN_FILE = env.str("WMS2_SERVICE_TOKEN_FILE", default="")
RUCIO_TOKEN_FILE = env.str("WMS2_RUCIO_TOKEN_FILE", default=SERVICE_TOKEN_FILE)

# Jobs: tokens of an issuer, one per workflow. Without an issuer jobs get none
TOKEN_ISSUER = env.str("WMS2_TOKEN_ISSUER", default="")
TOKEN_URL = env.str("WMS2_TOKEN_URL", default="")
TOKEN_CLIENT_ID = env.str("WMS2_TOKEN_CLIENT_ID", default="")
TOKEN_CLIENT_SECRET_FILE = env.str("WMS2_TOKEN_CLIENT_SECRET_FILE", default="")
TOKEN_CA_FILE = env.str("WMS2_TOKEN_CA_FILE", default="")
TOKEN_AUDIENCE = env.str("WMS2_TOKEN_AUDIENCE", default="https://wlcg.cern.ch/jwt/v1/any")
TOKEN_LIFETIME_SEC = env.int("WMS2_TOKEN_LIFETIME_SEC", default=3600)
TOKEN_TIMEOUT_SEC = env.float("WMS2_TOKEN_TIMEOUT_SEC", default=10.0)
CREDENTIAL_DIR = env.str("WMS2_CREDENTIAL_DIR", default="")

# Jobs: one X.509 proxy for all of them, where storage takes no tokens
JOB_PROXY = env.str("WMS2_JOB_PROXY", default="")

# How long before its end a certificate, proxy or token file is reported
CREDENTIAL_WARN_SEC = env.float("WMS2_CREDENTIAL_WARN_SEC", default=6 * 3600.0)
# How long before the end of its jobs' credential a DAG is stopped; at most an eighth of the credential's life
CREDENTIAL_STOP_SEC = env.float("WMS2_CREDENTIAL_STOP_SEC", default=600.0)
CREDENTIALS_LOOK_SEC = 120.0  # time limit of one task that renews tokens; the next one continues
CREDENTIALS_INTERVAL_SEC = env.float("WMS2_CREDENTIALS_INTERVAL_SEC", default=2.0 if LAB else 30.0)

# Message brokers from which announcements of datasets are read: amqp:// and amqps:// (RabbitMQ) or redis://
INTAKE_AMQP_URL = env.str("WMS2_INTAKE_AMQP_URL", default="")
INTAKE_AMQP_QUEUE = env.str("WMS2_INTAKE_AMQP_QUEUE", default="")
INTAKE_AMQP_EXCHANGE = env.str("WMS2_INTAKE_AMQP_EXCHANGE", default="")
INTAKE_AMQP_ROUTING_KEY = env.str("WMS2_INTAKE_AMQP_ROUTING_KEY", default="#")
# stomp:// and stomp+ssl://, with user, password and virtual host
INTAKE_STOMP_URL = env.str("WMS2_INTAKE_STOMP_URL", default="")
INTAKE_STOMP_DESTINATION = env.str("WMS2_INTAKE_STOMP_DESTINATION", default="")
INTAKE_CA_FILE = env.str("WMS2_INTAKE_CA_FILE", default="")
# Events of Rucio that announce a dataset
INTAKE_EVENT_TYPES = [one.lower() for one in env.list("WMS2_INTAKE_EVENT_TYPES", default=["close"])]
# Closed datasets of Rucio that no message announced: names with `*`; empty: Rucio is not polled
INTAKE_POLL_NAMES = env.list("WMS2_INTAKE_POLL_NAMES", default=[])
INTAKE_POLL_INTERVAL_SEC = env.float("WMS2_INTAKE_POLL_INTERVAL_SEC", default=3600.0)
INTAKE_POLL_DAYS = env.float("WMS2_INTAKE_POLL_DAYS", default=7.0)
