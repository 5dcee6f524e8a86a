"""Where the outside services are. No defaults: a wrong guess would write into somebody else's catalogue."""

from __future__ import annotations

from wms2_project.settings.environment import env

CMS_SERVICES = {
    "reqmgr2_url": env.str("WMS2_REQMGR2_URL", default=""),
    "dbs_url": env.str("WMS2_DBS_URL", default=""),
    "dbs_writer_url": env.str("WMS2_DBS_WRITER_URL", default=""),
    "rucio_url": env.str("WMS2_RUCIO_URL", default=""),
    "rucio_auth_url": env.str("WMS2_RUCIO_AUTH_URL", default=""),
    "rucio_account": env.str("WMS2_RUCIO_ACCOUNT", default=""),
    "rucio_username": env.str("WMS2_RUCIO_USERNAME", default=""),
    "rucio_password": env.str("WMS2_RUCIO_PASSWORD", default=""),
    "cric_url": env.str("WMS2_CRIC_URL", default=""),
    "client_cert": env.str("WMS2_CLIENT_CERT", default=""),
    "ca_bundle": env.str("WMS2_CA_BUNDLE", default=""),
}

SUBMIT_ROOT = env.str("WMS2_SUBMIT_ROOT", default="")
STORAGE_PREFIX = env.str("WMS2_STORAGE_PREFIX", default="")
