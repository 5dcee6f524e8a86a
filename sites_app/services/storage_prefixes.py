"""Where the sites' storage is, as Rucio knows it."""

from __future__ import annotations

import logging
from time import monotonic

from dags_app.adapters import rucio
from sites_app.models import Site
from sites_app.selectors import storage_at
from sites_app.states import CricState
from wms2_project.errors import ServiceRejected

logger = logging.getLogger(__name__)
UPDATE_SEC = 120.0  # within the time limit of a task


def update_prefixes() -> int:
    """Read the URL prefixes of each site's output storage from Rucio; return how many sites changed.

    Running DAGs keep the prefixes that they were planned with. What Rucio refuses at one storage does not
    affect the others; if it does not answer, the error is raised and the rest stays as it is.
    """
    changed, began = 0, monotonic()
    active = Site.objects.filter(cric_state=CricState.ACTIVE).order_by("name")
    for name, known in list(active.values_list("name", "storage_prefixes")):
        if monotonic() - began > UPDATE_SEC:
            logger.warning("storage prefixes: no time left for %s and the sites after it", name)
            break
        try:
            found = list(rucio().storage_prefixes(storage_at(name)))
        except ServiceRejected as error:
            logger.warning("the storage prefixes of %s are not updated: %s", name, error)
            continue
        if found != known:
            changed += Site.objects.filter(pk=name).update(storage_prefixes=found)
    return changed
