"""Bring what people change while a DAG runs to its jobs: the priority, and the sites it may land at."""

from __future__ import annotations

import logging
from datetime import datetime

from dags_app.models import DAG
from dags_app.services import control
from dags_app.services.schedds import silent_since
from dags_app.states import IN_QUEUE
from requests_app.alerts import close_alerts, raise_alert
from requests_app.lifecycle.gate import Gate, Verdict, passed
from requests_app.lifecycle.look import Look
from requests_app.models import Request
from requests_app.states import RequestStatus as S
from wms2_project.errors import Wms2Error
from wms2_project.words import counted

logger = logging.getLogger(__name__)
STRANDED = "groups_without_site"  # the alert


def follow_edits(look: Look, dag: DAG) -> None:
    """Apply what changed since the last time. Drains, bans and their ends are noticed here, not announced."""
    request, version = look.request, look.workflow.version  # read together with the priority
    if not control.lags_behind(dag=dag, sites=look.sites, version=version):
        return
    stranded = control.apply_edits(dag=dag, priority=request.priority, sites=look.sites, version=version)
    if stranded:
        told = f"{counted(len(stranded), 'group')} may land nowhere, the first is {stranded[0]}"
        raise_alert(request=request, kind=STRANDED, message=f"{told}: site lists, drains and bans leave none")
    else:
        close_alerts(request=request, kind=STRANDED)


def follow_edits_of_held(*, now: datetime) -> None:
    """The same for requests that no handler looks at while their jobs run on."""
    running = DAG.objects.filter(status__in=sorted(IN_QUEUE)).values("workflow")
    rows = Request.objects.filter(workflow__in=running, status__in=[S.HELD, S.QUEUED])
    for request in rows.select_related("workflow"):
        look = Look(request, now)
        dag = look.queued_dag
        if dag is None or dag.stop_requested_at is not None or silent_since(dag.schedd_name):
            continue
        try:
            follow_edits(look, dag)
        except Wms2Error as error:  # it is tried again at the next look; the others have their turn
            logger.warning("%s: edits are not applied yet: %s", request, error)


def landings(look: Look) -> Gate:
    """May every group land somewhere? DAGMan puts those off that may not; this gate says so."""
    edited = look.stranded if look.queued_dag is not None else None
    if edited is None:
        return passed("landings", "every group may land at a usable site")
    groups = edited.detail["landings_without_site"]
    return Gate(
        "landings",
        Verdict.BLOCK,
        f"{counted(len(groups), 'group')} may land nowhere: site lists, drains, bans and data leave no site",
        {"groups": groups, "usable_sites": edited.detail.get("sites", [])},
        since=edited.at,
        remedy="Enable a site, lift a ban or widen the site lists: they start by themselves then",
    )
