"""The credentials of WMS2 and of its jobs. Files are read when they are needed, so they can be renewed."""

from __future__ import annotations

from django.core.exceptions import ImproperlyConfigured

from wms2_project.settings.environment import LAB, env

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
