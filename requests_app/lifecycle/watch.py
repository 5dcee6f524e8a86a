"""Monitoring, seen from above: one look at all DAGs; requests with news are woken, abandoned DAGs removed."""

from __future__ import annotations

import logging
from datetime import datetime

from dags_app.models import DAG
from dags_app.services.control import remove_dag
from dags_app.services.monitoring import observe_dags
from dags_app.states import LIVE_DAG
from requests_app.models import Request
from requests_app.states import SWEPT, TERMINAL
from wms2_project.errors import ScheddUnreachable
from wms2_project.leases import wake
from wms2_project.locks import try_lock

logger = logging.getLogger(__name__)


def watch_dags(*, now: datetime) -> int:
    """Observe every live DAG; answer how many requests were woken. One watcher at a time."""
    with try_lock("watch dags") as held:
        if not held:
            return 0
        try:
            news = observe_dags(now=now)
            remove_abandoned()
        except ScheddUnreachable as error:
            logger.warning("no news: %s", error)
            return 0
    return wake(Request.objects.filter(workflow__in=news, status__in=sorted(SWEPT)))


def remove_abandoned() -> None:
    """A DAG whose request has ended must not run on, however the two came apart."""
    ended = Request.objects.filter(status__in=sorted(TERMINAL)).values("workflow")
    for dag in DAG.objects.filter(status__in=sorted(LIVE_DAG), workflow__in=ended):
        remove_dag(dag=dag, reason=dag.stop_reason or "the request has ended")
