"""Report the status of imported requests to ReqMgr2. Off by default.

Only statuses known to ReqMgr2 are reported. The last reported status is stored after ReqMgr2 accepted it. A
failed report is retried with backoff and blocks nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import F, OuterRef, Q, Subquery

from cms.reqmgr2 import Assignment
from dags_app.adapters import reqmgr2
from outputs_app.models import ReqMgr2Report
from requests_app.models import Request
from requests_app.states import STATUSES, TERMINAL
from requests_app.states import RequestStatus as S
from sites_app.models import Site
from wms2_project.errors import Wms2Error
from wms2_project.leases import backoff_seconds
from wms2_project.locks import try_lock

logger = logging.getLogger(__name__)
FROM_REQMGR2 = "reqmgr2"
BATCH = 100
KEEP_TRYING = timedelta(days=7)
REPORTED_AS = {status: one.reqmgr2 for status, one in STATUSES.items() if one.reqmgr2}


def report_statuses(*, now: datetime) -> None:
    """Report every changed status to ReqMgr2."""
    if not settings.REQMGR2_WRITE_BACK:
        return
    with try_lock("reqmgr2 reports") as held:
        for request in _unreported(now) if held else ():
            _report(request, now)


def _unreported(now: datetime) -> Sequence[Request]:
    """Return open and recently ended requests with an unreported status, each kind by its own index."""
    reports = ReqMgr2Report.objects.filter(workflow=OuterRef("workflow"))
    requests = Request.objects.filter(source=FROM_REQMGR2).annotate(
        reported=Subquery(reports.values("reported")), due=Subquery(reports.values("next_check_at"))
    )
    changed = Q(reported__isnull=True) | ~Q(reported=F("status"))
    due = requests.filter(changed, Q(due__isnull=True) | Q(due__lte=now)).order_by("status_since")
    still_open = list(due.filter(status__in=sorted(REPORTED_AS.keys() - TERMINAL))[:BATCH])
    ended = due.filter(status__in=sorted(TERMINAL), status_since__gte=now - KEEP_TRYING)
    return still_open + list(ended[: BATCH - len(still_open)])


def _assignment(request: Request) -> Assignment:
    """Return the assignment of an unassigned request to WMS2, so that no agent takes it."""
    sites = request.workflow.site_whitelist or Site.objects.order_by("name").values_list("name", flat=True)
    return Assignment(team=settings.REQMGR2_TEAM, sites=tuple(sites))


def _report(request: Request, now: datetime) -> None:
    row, _ = ReqMgr2Report.objects.get_or_create(workflow=request.workflow, defaults={"next_check_at": now})
    try:
        reqmgr2().bring_to(
            request.request_name, REPORTED_AS[S(request.status)], assignment=_assignment(request)
        )
    except Wms2Error as error:
        logger.warning("status of %s was not reported to ReqMgr2: %s", request.request_name, error)
        row.attempt += 1
        row.last_error = str(error)[:4000]
        row.next_check_at = now + timedelta(seconds=backoff_seconds(row.attempt))
    else:
        row.reported, row.attempt, row.last_error, row.next_check_at = request.status, 0, "", now
    row.save()
