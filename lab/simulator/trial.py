"""One simulation of a fault schedule: run it until its request has ended, and check the invariants."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from django.db import connection
from django.utils import timezone

from dags_app.models import DAG
from dags_app.states import LIVE_DAG, FileState
from lab.simulator import requests as documents
from lab.simulator.faults import Fault, Schedule
from lab.simulator.injection import Counts, Injection
from lab.simulator.invariants import violations
from lab.simulator.laboratory import Laboratory, Size, wipe
from lab.simulator.steps import before_step
from outputs_app.models import OutputBlock
from outputs_app.pipeline import MOVING
from requests_app.models import Request, StatusTransition
from requests_app.services.importing import import_request
from requests_app.services.releasing import Modifications, release_request
from requests_app.services.stopping import abort_request
from requests_app.states import TERMINAL, RequestStatus
from wms2_project.errors import Wms2Error

FAULTY_STEPS = 40  # after which no fault occurs
MAX_STEPS = 150
NO_OUTPUT = "the request produced no output files"
MAX_RELEASES = 12
RELEASE_AFTER_SEC = 3600.0
LONGEST_DAYS = 20.0
GONE_SEC = 180.0  # after the end of the request: its DAG has left the queue
SETTLED_SEC = 3 * 3600.0  # after the end of the request: its outputs are withdrawn or complete


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one simulation."""

    schedule: Schedule
    problems: tuple[str, ...]
    status: str
    hit: tuple[Fault, ...]
    counts: Counts
    virtual_sec: float

    @property
    def ok(self) -> bool:
        return not self.problems


def run_schedule(schedule: Schedule, directory: Path) -> Verdict:
    """Run the schedule in the current database, which is empty before and afterwards."""
    lab = Laboratory(
        directory / str(schedule.seed), seed=schedule.seed, laws=schedule.laws(), size=Size(slots=5)
    )
    injection = Injection(lab, schedule.faults)
    try:
        with lab.running():
            began = lab.clock.now
            _submit(lab, schedule)
            with injection.at_work():
                problems = _work_until_ended(lab, injection)
            if schedule.harmless and StatusTransition.objects.filter(to_status=RequestStatus.HELD).exists():
                problems.append("held although nothing went wrong")
            status = _status()
            problems += list(violations(lab))
        return Verdict(
            schedule, tuple(problems), status, tuple(injection.hit), injection.counts, lab.clock.now - began
        )
    finally:
        wipe()
        lab.close()


def _submit(lab: Laboratory, schedule: Schedule) -> None:
    name, random = f"sim{schedule.seed}", Random(schedule.seed)  # noqa: S311 - a simulation
    further = {"Urgent": not schedule.pilot}
    if schedule.transfers:
        _subscribe(lab)
    if schedule.generates:
        document = documents.generating(name, events=schedule.events * 3, per_job=schedule.events, **further)
    else:
        dataset = documents.add_input(
            lab.cms, f"In{schedule.seed}", files=schedule.files, events=schedule.events, random=random
        )
        document = documents.reading(name, dataset=dataset, tiers=["AOD"], **further)
    import_request(document=document, actor="user:ana", on_behalf=True)


def _subscribe(lab: Laboratory) -> None:
    documents.subscribe(lab.cms, pattern="^/.*/(AOD|GEN-SIM)$", rse="T2_DE_DESY", delay_sec=600.0)


def _work_until_ended(lab: Laboratory, injection: Injection) -> list[str]:
    """Work until the request has ended and its outputs have settled.

    Return a problem if it takes too long.
    """
    releases, ended_at, began = 0, 0.0, lab.clock.now
    status = _status()
    for step in range(MAX_STEPS):
        if step == FAULTY_STEPS:
            injection.stop()
        before_step(injection, status)
        injection.deliver_again()
        _work(lab, injection, ended=bool(ended_at))
        status = _status()
        until = float("inf")
        if status in TERMINAL:
            if not ended_at:
                injection.stop()
            ended_at = ended_at or lab.clock.now
            if _settled(lab):
                return []
            if lab.schedd.runs and lab.clock.now > ended_at + GONE_SEC:
                return [f"{status}, but its DAG still runs"]
            until = ended_at + (GONE_SEC + 30 if lab.schedd.runs else SETTLED_SEC)
            if lab.clock.now > ended_at + SETTLED_SEC:
                return [f"{status}, but its outputs or DAGs are not settled"]
        elif status == RequestStatus.HELD:
            request = Request.objects.select_related("workflow").get()
            releases += 1
            if releases > MAX_RELEASES:
                return [f"held again and again: {request.last_error}"]
            _decide(lab, injection, request)
            status = _status()
        if lab.clock.now - began > LONGEST_DAYS * 86400:
            break
        lab.advance(until=until)
    return [f"not ended after {step + 1} steps and {(lab.clock.now - began) / 86400:.1f} days"]


def _status() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT status FROM requests_app_request")
        (status,) = cursor.fetchone()
    return str(status)


def _work(lab: Laboratory, injection: Injection, *, ended: bool) -> None:
    """Run Beat's tasks, each in a worker that a fault may kill."""
    if lab.monitor_is_due() or ended:
        injection.run(lab.monitor)
    if lab.tidy_is_due():
        injection.run(lab.tidy)
    injection.run(lab.sweep)


def _decide(lab: Laboratory, injection: Injection, request: Request) -> None:
    """Decide like an operator: exclude files that always fail, abort without output, else release."""
    lab.move_to(lab.clock.now + RELEASE_AFTER_SEC)
    if request.last_error == NO_OUTPUT and not _files_left(request) and not lab.jobs.published:
        injection.run(lambda: abort_request(request=request, actor="user:olga", reason="nothing to do"))
        return
    evidence = request.hold_evidence or {}
    changes = Modifications(excluded_files=tuple(evidence.get("files", ())))  # they never succeed
    with suppress(Wms2Error):  # the schedd or the disk is unavailable: the operator retries
        injection.run(
            lambda: release_request(
                request=request, actor="user:olga", reason="again", now=timezone.now(), modifications=changes
            )
        )


def _files_left(request: Request) -> bool:
    """Return whether the request has input that was not excluded by a person."""
    return request.workflow.input_files.exclude(state=FileState.EXCLUDED).exists()


def _settled(lab: Laboratory) -> bool:
    """Return whether ended requests need no further work."""
    moving = OutputBlock.objects.filter(status__in=sorted(MOVING)).exists()
    return not (moving or lab.schedd.runs or DAG.objects.filter(status__in=sorted(LIVE_DAG)).exists())
