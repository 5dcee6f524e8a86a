"""Pull requests in the lifecycle: find input, plan rounds of runners, hold when they fail, finish.

A pull round needs no collection, rescue or resume: runners recorded what they made, and what they did not
process is lent to the runners of the next round.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from django.conf import settings
from django.db import transaction

from dags_app.failures.runner_records import removed_runners
from dags_app.models import DAG, Round
from dags_app.pull.ending import expire_runners, refund_runner
from dags_app.pull.rounds import Waiting, count_runners, plan_pull_round, waiting_sets
from dags_app.services import ledger, production
from dags_app.states import DAGStatus, RoundStatus
from requests_app.lifecycle.gate_result import Gate, Verdict, passed
from requests_app.lifecycle.outcome import Move, Outcome, Wait, hold
from requests_app.lifecycle.recovering import learn
from requests_app.lifecycle.snapshot import Snapshot
from requests_app.services import finding
from requests_app.services.runners.calls import note_end
from requests_app.services.runners.geography import atlas
from requests_app.states import RequestStatus as S
from sites_app.models import Site
from sites_app.selectors import banned
from wms2_project.wakeups import DATA
from wms2_project.words import counted

MAX_NAMED = 20


def plan_round(snapshot: Snapshot) -> DAG:
    """Plan the next pull round."""
    finding.find_files(workflow=snapshot.workflow, now=snapshot.now)
    return plan_pull_round(
        workflow=snapshot.workflow,
        sites=snapshot.sites,
        priority=snapshot.request.priority,
        edited=_edited(),
    )


def _edited() -> Mapping[tuple[str, str], int]:
    return atlas().geography.edited


def follow_input(snapshot: Snapshot) -> None:
    """Search for new files and new places of files while the request runs."""
    if finding.is_due(workflow=snapshot.workflow, now=snapshot.now):
        finding.find_files(workflow=snapshot.workflow, now=snapshot.now)


def stopped_lending(snapshot: Snapshot) -> Move | None:
    """Hold the request if too many runners of its round failed, unless it was released since."""
    dag = snapshot.dag
    if dag is None or dag.round.status == RoundStatus.RESOLVED:
        return None
    round_ = Round.objects.get(pk=dag.round_id)
    if round_.lending_stopped_at is None:
        return None
    released = snapshot.request.transitions.filter(from_status=S.HELD).last()
    if released is not None and released.at >= round_.lending_stopped_at:
        return None
    runners = count_runners(dag)
    return hold(round_.lending_stopped_reason, round=round_.number, runners=runners, dag=dag.token)


def end_round(snapshot: Snapshot, dag: DAG) -> Outcome | None:
    """Resolve a round whose DAG has ended. Return a hold if none of its runners got a file to process.

    The failures of its runners are recorded first, unless the DAG was stopped. Runners that an operator
    removed are no failures, and their files get their attempts back.
    """
    stopped = dag.status in (DAGStatus.STOPPED, DAGStatus.REMOVED)
    if not stopped and dag.round.status == RoundStatus.PLANNED:
        learn(snapshot.request, dag, snapshot.now)
    removed = removed_runners(dag=dag)
    with transaction.atomic():
        production.resolve_round(round_=dag.round, now=snapshot.now, stopped=stopped)
        for runner in removed:
            refund_runner(runner=runner, message="an operator removed its job")
    lent = dag.round.runners.filter(files_lent__gt=0).exists()
    if lent or stopped or not ledger.work_left(workflow=snapshot.workflow):
        return None
    runners = dag.round.runners.count()
    return hold(
        f"none of the {counted(dag.round.jobs, 'job')} of round {dag.round.number} was lent a file"
        f" ({counted(runners, 'runner')} requested one)",
        dag=dag.token,
        submit_dir=dag.submit_dir,
    )


def wait_for_input(snapshot: Snapshot) -> Wait | None:
    """Return Wait while all known input is processed and more may appear."""
    growing = finding.may_grow(workflow=snapshot.workflow, now=snapshot.now)
    if growing:
        return Wait(settings.POLL_INTERVAL_SEC, growing, DATA)
    if snapshot.workflow.input_from_id is None:
        return None
    # Outputs that were confirmed between the last search and the end of the producer
    found = finding.find_files(workflow=snapshot.workflow, now=snapshot.now)
    return Wait(0, f"{counted(found, 'file')} added at the end of the input", DATA) if found else None


def places(snapshot: Snapshot) -> Gate:
    """Block while no usable site may read any of the files that wait; name where they are."""
    sets = waiting_sets(workflow=snapshot.workflow, sites=snapshot.sites, edited=_edited())
    unread = [one for one in sets if not one.sites]
    if not unread:
        return passed(DATA, "every waiting file may be read by a usable site")
    message = "; ".join(_describe(snapshot, one) for one in unread[:MAX_NAMED])
    evidence = {"sets": [{"storages": one.storages, "files": one.files} for one in unread[:MAX_NAMED]]}
    if len(unread) < len(sets):
        return passed(DATA, f"{message}; the other files are processed first", **evidence)
    placed = any(one.storages for one in unread)  # files without a replica are looked up again
    remedy = "Lift the ban, create a replica, allow a site, or raise max_distance in a new version"
    return Gate(
        DATA,
        Verdict.BLOCK,
        f"no usable site may read a file within the distance {snapshot.workflow.max_distance}: {message}",
        evidence,
        since=snapshot.request.status_since,
        remedy=remedy if placed else "Create a replica. Rucio is queried again automatically",
        needs_operator=placed,
    )


def _describe(snapshot: Snapshot, one: Waiting) -> str:
    files = counted(one.files, "file")
    if not one.storages:
        return f"{files} {'are' if one.files > 1 else 'is'} at no storage"
    where = f"{files} {'are' if one.files > 1 else 'is'} at {' and '.join(one.storages)} only"
    sites = sorted(snapshot.sites.holding(frozenset(one.storages)))
    shut = sorted(set(sites) & banned(workflow=snapshot.workflow, now=snapshot.now))
    if shut:
        return f"{where}, and {', '.join(shut)} {'is' if len(shut) == 1 else 'are'} banned"
    closed = list(
        Site.objects.filter(pk__in=sites).exclude(pk__in=snapshot.sites.names).values_list("pk", flat=True)
    )
    return f"{where}, and {', '.join(closed)} may not be used" if closed else where


def end_leases(*, now: datetime) -> int:
    """Free the files of runners without a heartbeat; return how many runners were ended."""
    lost = expire_runners()
    for round_ in {runner.round for runner in lost}:
        note_end(round_=round_, workflow=round_.workflow)
    return len(lost)
