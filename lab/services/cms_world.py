"""The simulated CMS services: ReqMgr2, DBS, Rucio and CRIC on one port."""

from __future__ import annotations

import sys

from lab.files import keep_secret
from lab.grid.description import grid_file
from lab.service import Service, answers
from lab.services import Ground, Provided
from lab.services.grid import GRID, chosen_storage


def build(ground: Ground) -> Provided:
    layout, port = ground.layout, ground.ports.pick("cms_world")
    state = layout.data / "cms_world"
    state.mkdir(mode=0o700, exist_ok=True)
    url = f"http://127.0.0.1:{port}"
    password = keep_secret(layout.data / "rucio.secret")
    # Rucio's protocols take precedence over WMS2_STORAGE_PREFIX: with plain directories it must not name the
    # servers.
    grid = grid_file(layout.data) if chosen_storage() == GRID else None
    argv = [sys.executable, "-m", "lab.cms_world", "--port", str(port), "--state", str(state)]
    service = Service(
        name="cms_world",
        argv=[*argv, "--grid", str(grid)] if grid is not None and grid.exists() else argv,
        ready=answers(f"{url}/lab/health"),
        log=layout.log / "cms_world.log",
        cwd=layout.app,
        env={"WMS2_LAB_RUCIO_PASSWORD": password},
    )
    settings = {
        "WMS2_LAB_CMS_URL": url,
        "WMS2_REQMGR2_URL": f"{url}/reqmgr2",
        "WMS2_CONFIG_CACHE_URL": f"{url}/couchdb/reqmgr_config_cache",
        "WMS2_DBS_URL": f"{url}/dbs/DBSReader",
        "WMS2_DBS_WRITER_URL": f"{url}/dbs/DBSWriter",
        "WMS2_RUCIO_URL": f"{url}/rucio",
        "WMS2_RUCIO_AUTH_URL": f"{url}/rucio",
        "WMS2_RUCIO_ACCOUNT": "wms2",
        "WMS2_RUCIO_USERNAME": "wms2",
        "WMS2_RUCIO_PASSWORD": password,
        "WMS2_CRIC_URL": f"{url}/cric",
    }
    return Provided((service,), settings)
