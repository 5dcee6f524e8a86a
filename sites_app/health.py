"""Health checks of the sources of sites: CRIC, the slots of the pool and Rucio."""

from __future__ import annotations

from sites_app.services.sources import COLLECTOR, CRIC, RUCIO, failing_sources
from wms2_project.observation.health import Part, register_local

_PARTS = {CRIC: "site_sync", COLLECTOR: "site_slots", RUCIO: "site_storage"}


def _sources() -> list[Part]:
    failing = failing_sources()
    return [
        Part(part, works=source not in failing, detail=failing.get(source, ""))
        for source, part in _PARTS.items()
    ]


register_local(_sources)
