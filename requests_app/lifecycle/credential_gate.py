"""The credentials of jobs: gate before a submission, renewal while jobs run, and alert before one ends."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings

from dags_app.services.credentials import (
    JOB_PROXY,
    ending_workflows,
    expiring_files,
    expiring_tokens,
    renew_tokens,
    submission_obstacle,
)
from requests_app.lifecycle.gate_result import Gate, Verdict, passed
from requests_app.lifecycle.monitoring import stop_if_possible
from requests_app.lifecycle.snapshot import Snapshot
from requests_app.models import Request
from requests_app.services.alerts import raise_site_alerts
from requests_app.states import SWEPT
from wms2_project.locks import try_lock
from wms2_project.wakeups import CREDENTIAL, wake_waiting

EXPIRING = "credential_expiring"


def credential(snapshot: Snapshot) -> Gate:
    """Block while jobs of a new DAG would start without a usable credential. Queued DAGs are unaffected."""
    if snapshot.queued_dag is not None:
        return passed(CREDENTIAL, "the DAG is in the queue")
    obstacle = submission_obstacle(workflow=snapshot.workflow, now=snapshot.now)
    if obstacle is None:
        needed = settings.TOKEN_ISSUER or settings.JOB_PROXY
        return passed(CREDENTIAL, "jobs get their credential" if needed else "jobs get no credential")
    return Gate(
        CREDENTIAL,
        Verdict.BLOCK,
        obstacle.message,
        {"token_issuer": settings.TOKEN_ISSUER, "job_proxy": settings.JOB_PROXY},
        since=obstacle.since or snapshot.request.status_since,
        remedy=obstacle.remedy,
    )


def keep_credentials(*, now: datetime) -> None:
    """Renew the tokens of jobs, and keep an open alert for every credential that ends soon.

    One runs at a time.

    DAGs whose credential is about to expire anyway are stopped cleanly. Requests that waited for the proxy of
    jobs are woken when it is renewed; those that waited for a token are woken by its renewal.
    """
    with try_lock("credentials") as held:
        if not held:
            return
        renew_tokens(now=now, seconds=settings.CREDENTIALS_LOOK_SEC)
        problems = expiring_files(now=now) | expiring_tokens(now=now)
        raise_site_alerts(kind=EXPIRING, messages=problems)
        for reason, workflows in ending_workflows(now=now).items():
            for request in Request.objects.filter(workflow__in=workflows):
                stop_if_possible(request, actor="system:credentials", reason=reason)
        waiting = Request.objects.filter(status__in=sorted(SWEPT), wait_gate=CREDENTIAL)
        if settings.JOB_PROXY and JOB_PROXY not in problems and waiting.exists():
            wake_waiting(CREDENTIAL)
