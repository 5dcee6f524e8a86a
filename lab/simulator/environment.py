"""Settings of WMS2 in a simulation, for a process that has not loaded Django yet."""

from __future__ import annotations

import os
from pathlib import Path

NOWHERE = "127.0.0.1:1"
SETTINGS = {
    "DJANGO_SETTINGS_MODULE": "wms2_project.settings",
    "SECRET_KEY": "simulation",
    "REDIS_URL": f"redis://{NOWHERE}/0",  # WMS2 works without Redis, whose content may be lost
    "WMS2_MIGRATE_DATABASE_URL": "",
    "WMS2_LAB": "1",
    "WMS2_ALLOWED_HOSTS": "localhost",
    "WMS2_PAYLOAD_PLUGINS": "lab.toy",
    "WMS2_DEFAULT_PAYLOAD": "toy",
    "WMS2_CHECK_OUTPUTS": "off",
    "WMS2_STATEMENT_TIMEOUT_MS": "0",
    "WMS2_LOG_LEVEL": "CRITICAL",
    "WMS2_TRACES": "",
    "WMS2_TOKEN_ISSUER": "",
    "WMS2_SCHEDDS": "",
    "WMS2_POLL_INTERVAL_SEC": "1800",
    "WMS2_TRANSFER_POLL_INTERVAL_SEC": "120",
    "WMS2_ERROR_BACKOFF_BASE_SEC": "5",
    "WMS2_SWEEP_INTERVAL_SEC": "5",
    "WMS2_MONITOR_INTERVAL_SEC": "30",
    "WMS2_LEASE_TTL_SEC": "30",
    "WMS2_COOLOFF_BASE_SEC": "60",
    "WMS2_MAX_WORKER_DEATHS": "1000",
    "WMS2_LOCATION_MAX_AGE_SEC": "600",
    "WMS2_LOCATION_FOLLOW_SEC": "21600",
    "WMS2_LEARN_FROM_REQUESTS": "3",
}


def configure(*, database_url: str, directory: Path, **changes: str) -> None:
    """Set the environment and load Django. Submit directories are below `directory`."""
    os.environ.update(SETTINGS | changes)
    os.environ["DATABASE_URL"] = database_url
    os.environ["WMS2_SUBMIT_ROOT"] = str(directory / "dags")
    os.environ["WMS2_STORAGE_PREFIX"] = f"{directory}/storage/{{site}}"
    for name in ("REQMGR2", "DBS", "DBS_WRITER", "CONFIG_CACHE", "RUCIO", "RUCIO_AUTH", "CRIC"):
        os.environ[f"WMS2_{name}_URL"] = "http://cms.simulated"
    import django

    django.setup()
