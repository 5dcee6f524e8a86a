"""Monitoring, seen from above: one look at all DAGs; requests with news are woken, abandoned DAGs removed,
and jobs that get nowhere are told to a person.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import datetime
from uuid import UUID

from dags_app.models import DAG
from dags_app.services import schedds
from dags_app.services.collecting import BadManifest
from dags_app.services.control import remove_dag, request_stop
from dags_app.services.monitoring import Seen, observe_dags
from dags_app.services.production import newest_dag
from dags_app.states import LIVE_DAG, ScheddStatus
from requests_app.alerts import close_others, raise_alert
from requests_app.lifecycle.edits import follow_edits_of_held
from requests_app.lifecycle.stalling import report_hanging, report_stalls
from requests_app.models import Alert, Request
from requests_app.services.collecting import collect
from requests_app.services.steering import stop_request
from requests_app.states import SWEPT, TERMINAL, RequestStatus, may_move
from wms2_project.causes import cause_of
from wms2_project.errors import Conflict, TransientError, Wms2Error
from wms2_project.leases import wake
from wms2_project.locks import try_lock
from wms2_project.logs import bind

logger = logging.getLogger(__name__)
SILENT = "schedd_unreachable"
UNREADABLE = "dag_unreadable"
NOT_REMOVED = "dag_not_removed"


def watch_dags(*, now: datetime) -> int:
    """Observe every live DAG; answer how many requests were woken. One watcher at a time.

    What goes wrong in one part is raised when all the others have had their turn.
    """
    with try_lock("watch dags") as held:
        if not held:
            return 0
        troubles: list[Exception] = []
        seen = Seen()
        with _apart(troubles):
            seen = observe_dags(now=now)
            report_unreadable(seen)
        parts = (remove_abandoned, report_stalls, report_hanging, alert_silence, stop_drained)
        for part in (*parts, follow_edits_of_held):
            with _apart(troubles):
                part(now=now)
        with _apart(troubles):
            collect_held(seen.news, now=now)
        woken = wake(Request.objects.filter(workflow__in=seen.news, status__in=sorted(SWEPT)))
    if troubles:
        raise ExceptionGroup("parts of the watch failed", troubles)
    return woken


@contextmanager
def _apart(troubles: list[Exception]) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001 — it is raised in the end
        troubles.append(error)


def report_unreadable(seen: Seen) -> None:
    """An alert while the files of a DAG cannot be read: until then nobody knows how far it is."""
    blind = list(Request.objects.filter(workflow__in=seen.unreadable).exclude(status__in=sorted(TERMINAL)))
    for request in blind:
        told = f"its DAG cannot be followed: {seen.unreadable[request.workflow_id]}"
        raise_alert(request=request, kind=UNREADABLE, message=told)
    close_others(kind=UNREADABLE, than=[*blind, *Request.objects.filter(workflow__in=seen.unknown)])


def collect_held(workflows: Collection[UUID], *, now: datetime) -> None:
    """Jobs of a held request run on, after its release too; what they finish is made safe like any output."""
    waiting = Request.objects.filter(
        workflow__in=workflows, status__in=[RequestStatus.HELD, RequestStatus.QUEUED]
    )
    for request in waiting.select_related("workflow"):
        dag = newest_dag(workflow=request.workflow)
        try:
            if dag is not None:
                collect(dag, now)
        except BadManifest as bad:  # its group is planned again when the request is released
            logger.warning("%s is not collected: %s", dag, bad)
        except Exception:  # as in advance: one request's trouble must not keep the news from the others
            logger.exception("%s is not collected", dag)


def remove_abandoned(*, now: datetime) -> None:
    """A DAG whose request has ended must not run on, however the two came apart; an alert if it does."""
    ended = Request.objects.filter(status__in=sorted(TERMINAL))
    refused: dict[UUID, str] = {}
    live = DAG.objects.filter(status__in=sorted(LIVE_DAG), workflow__in=ended.values("workflow"))
    for dag in live.select_related("workflow"):
        # A worker that was planning may have made it after the end: then nothing is noted on it yet.
        dag = request_stop(workflow=dag.workflow, reason="the request has ended") or dag
        if not schedds.may_be_asked(dag.schedd_name, now=now):
            continue
        try:
            remove_dag(dag=dag, reason=dag.stop_reason, resumable=False)
        except (TransientError, OSError) as error:  # being submitted just now; its schedd or disk is away
            logger.warning("%s is not removed yet: %s", dag.token, error)
        except Wms2Error as error:
            refused[dag.workflow_id] = f"{dag.token} runs on: {error}"
    told = list(ended.filter(workflow__in=refused))
    for request in told:
        raise_alert(request=request, kind=NOT_REMOVED, message=refused[request.workflow_id])
    close_others(kind=NOT_REMOVED, than=told)


def alert_silence(*, now: datetime) -> None:
    """Requests of a schedd that is silent for too long carry an alert, and nothing else happens to them."""
    silent = schedds.silent_schedds(now=now)
    told = Alert.objects.filter(kind=SILENT, closed_at__isnull=True)
    if not silent and not told.exists():
        return
    concerned = Request.objects.filter(workflow__in=schedds.workflows_on(silent), status__in=sorted(SWEPT))
    names = ", ".join(f"{row.name} since {row.silent_since:%F %T}" for row in silent)
    for request in concerned.exclude(pk__in=told.values("request")):
        raise_alert(request=request, kind=SILENT, message=f"no answer from {names}; its jobs may well run on")
    close_others(kind=SILENT, than=list(concerned))


def stop_drained(*, now: datetime) -> None:
    """What runs at a schedd that is fenced, or whose drain is over, is stopped and resumes elsewhere."""
    for schedd in schedds.to_be_emptied(now=now):
        fenced = schedd.status == ScheddStatus.FENCED
        actor, how = ("system:fence", "fenced") if fenced else ("system:drain", "drained")
        with bind(request_id=cause_of(schedd.name, now=now).request_id):
            for request in Request.objects.filter(workflow__in=schedds.workflows_on([schedd])):
                _stop_drained(request, actor=actor, reason=f"its schedd is {how}: {schedd.reason}")


def _stop_drained(request: Request, *, actor: str, reason: str) -> None:
    if not may_move(RequestStatus(request.status), RequestStatus.STOPPING):
        return  # it stops already, or has ended
    try:
        stop_request(request=request, actor=actor, reason=reason)
    except Conflict as conflict:  # somebody moved it meanwhile; the next look decides anew
        logger.info("not stopped: %s", conflict)
