"""Policy for running requests while the output storage of a site is full."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from django.db.models import OuterRef, Subquery

from dags_app.models import MergeGroup
from dags_app.states import RoundStatus
from requests_app import admission
from requests_app.models import Request
from requests_app.services.stopping import stop_request
from requests_app.states import RequestStatus, StoragePolicy
from sites_app.models import Site
from sites_app.services.site_settings import measure_storage, storage_used
from wms2_project.errors import Conflict, IllegalTransition, StaleVersion

logger = logging.getLogger(__name__)
ACTOR = "system:admission"


def check_storage() -> Request | None:
    """Measure the storage of all sites. With the policy `hold`, hold one request if a storage is full."""
    measure_storage()
    config = admission.limits()
    limit = config.storage_critical_fraction
    usage = {name: storage_used(data) for name, data in Site.objects.values_list("name", "config_data")}
    full = {name: used for name, used in usage.items() if used is not None and used > limit}
    if config.storage_policy != StoragePolicy.HOLD or not full:
        return None
    return _hold_lowest(full, limit)


def _hold_lowest(full: Mapping[str, float], limit: float) -> Request | None:
    """Stop the lowest-ranked active request that writes to a full site, and hold it. Return it, or None.

    Of equal ranks the youngest is held. It keeps its finished groups and continues after a release.
    """
    there = MergeGroup.objects.filter(
        site__in=list(full), round__workflow=OuterRef("workflow"), round__status=RoundStatus.PLANNED
    )
    active = Request.objects.filter(status=RequestStatus.ACTIVE).annotate(
        full_site=Subquery(there.order_by("site").values("site")[:1])
    )
    writing = active.filter(full_site__isnull=False).select_related("workflow")
    lowest = writing.order_by("rank", "-created_at").first()
    if lowest is None:
        return None
    site = str(lowest.full_site)
    reason = (
        f"output storage of {site} is {full[site]:.0%} full, above {limit:.0%}: of the active requests that"
        " write there, the one with the lowest rank is held; free space, then release it"
    )
    try:
        return stop_request(request=lowest, actor=ACTOR, reason=reason, hold=True)
    except (Conflict, IllegalTransition, StaleVersion) as changed:
        logger.info("%s was not held: %s", lowest, changed)
        return None
