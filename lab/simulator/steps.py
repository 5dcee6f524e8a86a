"""Faults between steps: actions of operators, killed daemons, wrong clocks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial

from django.db import connection
from django.utils import timezone

from condor.dagtext import OUTER_DAG
from dags_app.services import monitoring
from dags_app.services.control import DagAction, act_on_dag
from dags_app.services.production import newest_dag
from lab.simulator.faults import ENDINGS, STEPS, Fault, Kind
from lab.simulator.injection import Injection
from lab.simulator.laboratory import SITES
from requests_app.models import Request
from requests_app.services.editing import change_request
from requests_app.services.failing import fail_request
from requests_app.services.stopping import abort_request, stop_request
from requests_app.states import TERMINAL
from sites_app.models import Site
from sites_app.services.sites import drain_site
from wms2_project.errors import Wms2Error

ACTOR = "user:olga"
REASON = "simulated"
HOST_SKEW_SEC = 1500.0  # of a host with a wrong clock; monitoring of hosts detects larger errors
Act = Callable[[Injection, Fault, Request], None]


def before_step(injection: Injection, status: str) -> None:
    """Apply the faults of this step. `status` is the status of the request before it."""
    injection.counts.steps += 1
    for fault in injection.due((*STEPS, *ENDINGS), injection.counts.steps, status):
        request = Request.objects.select_related("workflow").get()
        if request.status not in TERMINAL:
            with suppress(Wms2Error):  # refused in the present state, with a reason
                injection.run(partial(ACTS[fault.kind], injection, fault, request))


def _kill_dagman(injection: Injection, _fault: Fault, _request: Request) -> None:
    for token in sorted(injection.lab.schedd.runs)[:1]:
        injection.lab.schedd.kill_dagman(token)


def _hide_manifest(injection: Injection, fault: Fault, _request: Request) -> None:
    injection.lab.jobs.hide_sec = abs(fault.amount)


def _truncate(injection: Injection, _fault: Fault, _request: Request) -> None:
    for run in list(injection.lab.schedd.runs.values())[:1]:
        path = run.directory / f"{OUTER_DAG}.status"
        if path.exists():
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
            run.changed = True


def _stuck_rule(injection: Injection, _fault: Fault, _request: Request) -> None:
    with injection.lab.cms.answers.store.transaction() as db:
        db.execute("UPDATE rucio_rules SET state = 'STUCK' WHERE state = 'REPLICATING'")


def _lose_rule(injection: Injection, _fault: Fault, _request: Request) -> None:
    with injection.lab.cms.answers.store.transaction() as db:
        db.execute("DELETE FROM rucio_rules WHERE state = 'REPLICATING'")


def _skew(injection: Injection, fault: Fault, _request: Request) -> None:
    injection.lab.clock.skew_sec = max(min(fault.amount, HOST_SKEW_SEC), -HOST_SKEW_SEC)


def _pause(injection: Injection, fault: Fault, _request: Request) -> None:
    injection.lab.move_to(injection.lab.clock.now + abs(fault.amount))


def _restart(_injection: Injection, _fault: Fault, _request: Request) -> None:
    connection.close()
    monitoring._known.clear()


def _stop(_injection: Injection, _fault: Fault, request: Request) -> None:
    stop_request(request=request, actor=ACTOR, reason=REASON)


def _stop_and_hold(_injection: Injection, _fault: Fault, request: Request) -> None:
    stop_request(request=request, actor=ACTOR, reason=REASON, hold=True)


def _hold_dag(injection: Injection, fault: Fault, request: Request) -> None:
    dag = newest_dag(workflow=request.workflow)
    if dag is None:
        return
    act_on_dag(dag=dag, action=DagAction.HOLD, actor=ACTOR, reason=REASON)

    def release() -> None:
        if injection.lab.schedd.runs.get(dag.token):
            injection.lab.schedd.release_dag(dag.token, reason=REASON)

    injection.lab.clock.after(abs(fault.amount), release)


def _remove_dag(_injection: Injection, _fault: Fault, request: Request) -> None:
    dag = newest_dag(workflow=request.workflow)
    if dag is not None:
        act_on_dag(dag=dag, action=DagAction.REMOVE, actor=ACTOR, reason=REASON)


def _priority(_injection: Injection, _fault: Fault, request: Request) -> None:
    changes = {"priority": request.priority + 1000}
    change_request(request=request, actor=ACTOR, reason=REASON, changes=changes)


def _drain(_injection: Injection, fault: Fault, _request: Request) -> None:
    site = Site.objects.get(pk=SITES[fault.at % len(SITES)])
    until = timezone.now() + timedelta(seconds=abs(fault.amount))
    drain_site(site=site, until=until, reason=REASON, actor=ACTOR)


def _abort(_injection: Injection, _fault: Fault, request: Request) -> None:
    abort_request(request=request, actor=ACTOR, reason=REASON)


def _fail(_injection: Injection, _fault: Fault, request: Request) -> None:
    fail_request(request=request, actor=ACTOR, reason=REASON, now=timezone.now())


ACTS: dict[Kind, Act] = {
    Kind.KILL_DAGMAN: _kill_dagman,
    Kind.HIDE_MANIFEST: _hide_manifest,
    Kind.TRUNCATE: _truncate,
    Kind.STUCK_RULE: _stuck_rule,
    Kind.LOSE_RULE: _lose_rule,
    Kind.SKEW: _skew,
    Kind.PAUSE: _pause,
    Kind.RESTART: _restart,
    Kind.STOP: _stop,
    Kind.STOP_AND_HOLD: _stop_and_hold,
    Kind.HOLD_DAG: _hold_dag,
    Kind.REMOVE_DAG: _remove_dag,
    Kind.PRIORITY: _priority,
    Kind.DRAIN: _drain,
    Kind.ABORT: _abort,
    Kind.FAIL: _fail,
}
