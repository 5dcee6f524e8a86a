"""Monitoring of all DAGs: wake requests with changes, remove abandoned DAGs, report jobs without progress."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import datetime
from uuid import UUID

from dags_app.models import DAG
from dags_app.services import schedds
from dags_app.services.control import remove_dag, request_stop
from dags_app.services.manifests import BadManifest
from dags_app.services.monitoring import Seen, observe_dags
from dags_app.services.production import newest_dag
from dags_app.states import LIVE_DAG, ScheddStatus
from requests_app.lifecycle.dag_edits import follow_edits_of_held
from requests_app.lifecycle.stalling import report_hanging, report_stalls
from requests_app.models import Alert, Request
from requests_app.services.alerts import Kept, close_others, raise_alert
from requests_app.services.outputs import collect
from requests_app.services.sampling import record_samples
from requests_app.services.stopping import stop_request
from requests_app.states import SWEPT, TERMINAL, RequestStatus, may_move
from wms2_project.access.causes import cause_of
from wms2_project.errors import Conflict, TransientError, Wms2Error
from wms2_project.leases import wake
from wms2_project.locks import try_lock
from wms2_project.observation.logs import bind

logger = logging.getLogger(__name__)
SILENT = "schedd_unreachable"
UNREADABLE = "dag_unreadable"
NOT_REMOVED = "dag_not_removed"


def watch_dags(*, now: datetime) -> int:
    """Observe every live DAG. Return the number of woken requests. Only one runs at a time.

    Errors of one part are raised after all other parts have run.
    """
    with try_lock("watch dags") as held:
        if not held:
            return 0
        troubles: list[Exception] = []
        seen, kept = Seen(), dict[str, Collection[Request]]()
        with _apart(troubles):
            seen = observe_dags(now=now)
            kept |= report_unreadable(seen)
        for act in (record_samples, follow_edits_of_held):
            with _apart(troubles):
                act(now=now)
        for report in (remove_abandoned, report_stalls, report_hanging, follow_schedds):
            with _apart(troubles):
                kept |= report(now=now)
        with _apart(troubles):
            close_others(kept)
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
    except Exception as error:  # noqa: BLE001 — it is raised at the end
        troubles.append(error)


def report_unreadable(seen: Seen) -> Kept:
    """Open an alert while the status files of a DAG cannot be read; return the alerts that stay open."""
    blind = list(Request.objects.filter(workflow__in=seen.unreadable).exclude(status__in=sorted(TERMINAL)))
    for request in blind:
        message = f"the DAG cannot be monitored: {seen.unreadable[request.workflow_id]}"
        raise_alert(request=request, kind=UNREADABLE, message=message)
    return {UNREADABLE: [*blind, *Request.objects.filter(workflow__in=seen.unknown)]}


def collect_held(workflows: Collection[UUID], *, now: datetime) -> None:
    """Collect outputs of held and queued requests, whose jobs may still run."""
    waiting = Request.objects.filter(
        workflow__in=workflows, status__in=[RequestStatus.HELD, RequestStatus.QUEUED]
    )
    for request in waiting.select_related("workflow"):
        dag = newest_dag(workflow=request.workflow)
        try:
            if dag is not None:
                collect(dag, now)
        except BadManifest as bad:  # the group is planned again after the release
            logger.warning("%s is not collected: %s", dag, bad)
        except Exception:  # as in advance: one failing request must not block the others
            logger.exception("%s is not collected", dag)


def remove_abandoned(*, now: datetime) -> Kept:
    """Remove live DAGs of ended requests. Open an alert if a removal is refused; return those that stay."""
    ended = Request.objects.filter(status__in=sorted(TERMINAL))
    refused: dict[UUID, str] = {}
    live = DAG.objects.filter(status__in=sorted(LIVE_DAG), workflow__in=ended.values("workflow"))
    for dag in live.select_related("workflow").order_by("created_at"):
        # Planning may have created the DAG after the request ended, so the stop must be noted again.
        dag = request_stop(workflow=dag.workflow, reason="the request has ended") or dag
        if not schedds.may_be_asked(dag.schedd_name, now=now):
            continue
        try:
            remove_dag(dag=dag, reason=dag.stop_reason, resumable=False)
        except (TransientError, OSError) as error:  # submission in progress, or schedd or disk unavailable
            logger.warning("%s is not removed yet: %s", dag.token, error)
        except Wms2Error as error:
            refused[dag.workflow_id] = f"{dag.token} is still running: {error}"
    reported = list(ended.filter(workflow__in=refused))
    for request in reported:
        raise_alert(request=request, kind=NOT_REMOVED, message=refused[request.workflow_id])
    return {NOT_REMOVED: reported}


def follow_schedds(*, now: datetime) -> Kept:
    """Empty schedds that are drained or fenced, and report silent ones; return the alerts that stay open."""
    known = schedds.schedd_rows()
    stop_drained(known, now=now)
    return alert_silence(known, now=now)


def alert_silence(known: schedds.Schedds, *, now: datetime) -> Kept:
    """Open an alert on the requests of a schedd that has been unreachable for too long; return those that
    stay. Nothing else changes.
    """
    silent = schedds.silent_schedds(known, now=now)
    if not silent:
        return {SILENT: []}
    alerted = Alert.objects.filter(kind=SILENT, closed_at__isnull=True)
    concerned = Request.objects.filter(workflow__in=schedds.workflows_on(silent), status__in=sorted(SWEPT))
    names = ", ".join(f"{row.name} since {row.silent_since:%F %T}" for row in silent)
    for request in concerned.exclude(pk__in=alerted.values("request")):
        raise_alert(
            request=request, kind=SILENT, message=f"no answer from {names}; jobs may still be running"
        )
    return {SILENT: list(concerned)}


def stop_drained(known: schedds.Schedds, *, now: datetime) -> None:
    """Stop the requests of a fenced or drained schedd; they resume at another one."""
    for schedd in schedds.to_be_emptied(known, now=now):
        fenced = schedd.status == ScheddStatus.FENCED
        actor, how = ("system:fence", "fenced") if fenced else ("system:drain", "drained")
        with bind(request_id=cause_of(schedd.name, now=now).request_id):
            for request in Request.objects.filter(workflow__in=schedds.workflows_on([schedd])):
                stop_if_possible(request, actor=actor, reason=f"schedd {how}: {schedd.reason}")


def stop_if_possible(request: Request, *, actor: str, reason: str) -> None:
    """Stop a request whose jobs cannot go on; it resumes when they can. Repeating it has no effect."""
    if not may_move(RequestStatus(request.status), RequestStatus.STOPPING):
        return  # already stopping, or ended
    try:
        stop_request(request=request, actor=actor, reason=reason)
    except Conflict as conflict:  # moved in the meantime; the next check decides
        logger.info("not stopped: %s", conflict)
