"""Apply changes of priority and usable sites to a running DAG."""

from __future__ import annotations

import logging
from datetime import datetime

from dags_app.models import DAG
from dags_app.services import control
from dags_app.services.schedds import is_silent
from dags_app.states import IN_QUEUE
from requests_app.lifecycle.gate_result import Gate, Verdict, passed
from requests_app.lifecycle.snapshot import Snapshot
from requests_app.models import Request
from requests_app.services.alerts import close_alerts, raise_alert
from requests_app.states import RequestStatus as S
from wms2_project.errors import Wms2Error
from wms2_project.words import counted

logger = logging.getLogger(__name__)
STRANDED = "groups_without_site"  # kind of the alert


def follow_edits(snapshot: Snapshot, dag: DAG) -> None:
    """Apply the current priority and usable sites to the DAG if they changed. Alert on groups without a
    site.
    """
    request, version = snapshot.request, snapshot.workflow.version  # read together with the priority
    if not control.lags_behind(dag=dag, sites=snapshot.sites, version=version):
        return
    stranded = control.apply_edits(dag=dag, priority=request.priority, sites=snapshot.sites, version=version)
    if stranded:
        message = (
            f"{counted(len(stranded), 'group')} without a usable site, the first is {stranded[0]}:"
            " site lists, drains and bans exclude every site"
        )
        raise_alert(request=request, kind=STRANDED, message=message)
    else:
        close_alerts(request=request, kind=STRANDED)


def follow_edits_of_held(*, now: datetime) -> None:
    """Apply changes to running DAGs of held and queued requests, which no handler processes."""
    running = DAG.objects.filter(status__in=sorted(IN_QUEUE)).values("workflow")
    rows = Request.objects.filter(workflow__in=running, status__in=[S.HELD, S.QUEUED])
    for request in rows.select_related("workflow"):
        snapshot = Snapshot(request, now)
        dag = snapshot.queued_dag
        if dag is None or dag.stop_requested_at is not None or is_silent(dag.schedd_name, snapshot.schedds):
            continue
        try:
            follow_edits(snapshot, dag)
        except Wms2Error as error:  # retried at the next check; the other requests are unaffected
            logger.warning("%s: edits are not applied yet: %s", request, error)


def landings(snapshot: Snapshot) -> Gate:
    """Block while groups have no usable site. DAGMan defers their landing jobs."""
    edited = snapshot.stranded if snapshot.queued_dag is not None else None
    if edited is None:
        return passed("landings", "every group has a usable site")
    groups = edited.detail["landings_without_site"]
    return Gate(
        "landings",
        Verdict.BLOCK,
        f"{counted(len(groups), 'group')} without a usable site: site lists, drains, bans and data locations"
        " exclude every site",
        {"groups": groups, "usable_sites": edited.detail.get("sites", [])},
        since=edited.at,
        remedy="Enable a site, lift a ban or extend the site lists. The groups then start automatically",
    )
