"""A pilot whose numbers still change is followed by a larger one, while there is time and input for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from condor.fake import FakeSchedd
from dags_app.models import DAG
from dags_app.services import pilot, production
from dags_app.states import DAGStatus, GroupStatus, RoundKind, RoundStatus
from requests_app.lifecycle import handlers
from requests_app.lifecycle.outcome import Move, Outcome, Wait
from requests_app.states import RequestStatus as S
from sites_app.selectors import usable_sites
from tests.integration.factories import make_file, make_request, make_workflow
from tests.integration.recovery.factories import CERN, Round

pytestmark = pytest.mark.django_db
FIRST = (10, 20, 40, 80)


@pytest.fixture
def measuring(sites: None, settings: Any, fake_schedd: FakeSchedd) -> Callable[..., Round]:
    """Return a request whose first pilot is planned."""
    settings.PILOT_INITIAL_EVENTS, settings.PILOT_TIME_BUDGET_SEC, settings.PILOT_MAX_ROUNDS = 10, 1000, 6

    def make(*, events: int = 1000) -> Round:
        workflow = make_workflow(
            splitting_algo="EventAwareLumiBased", splitting_params={"events_per_job": 100}, cores=4
        )
        for number in range(3):
            lumis = [[1, number * 100 + 1, number * 100 + 100]]
            make_file(workflow, events=events, lumis=lumis, locations=[CERN])
        pool = usable_sites(workflow=workflow, now=timezone.now())
        plan = pilot.decide_pilot(workflow=workflow, sites=pool)
        production.write_round(workflow=workflow, plan=plan, kind=RoundKind.PILOT, priority=0)
        return Round(make_request(workflow=workflow, status=S.PILOT_RUNNING))

    return make


def complete(round_: Round, *windows: int, converged: bool = False, sec_per_event: float = 1.0) -> Outcome:
    """Finish the pilot with measurements of these windows; return the outcome."""
    report = {
        "iterations": [{"events": n, "wall_time_sec": n * sec_per_event} for n in windows],
        "recommended": {
            "events_per_job": 100, "memory_mb": 900, "time_per_job_sec": 9, "output_size_per_event_kb": 1,
        },
        "converged": converged,
    }  # fmt: skip
    round_.dag.round.groups.update(status=GroupStatus.COLLECTED, metrics={"pilot": report})
    DAG.objects.filter(pk=round_.dag.pk).update(
        status=DAGStatus.COMPLETED, submitted_at=timezone.now(), completed_at=timezone.now()
    )
    return look(round_)


def look(round_: Round) -> Outcome:
    return handlers.on_pilot_running(round_.move(S.PILOT_RUNNING), timezone.now())


def test_windows_go_on_in_a_larger_pilot_until_the_numbers_settle(measuring: Callable[..., Round]) -> None:
    made = measuring()

    unsettled = complete(made, *FIRST)
    assert isinstance(unsettled, Wait)
    assert made.dag.round.status == RoundStatus.RESOLVED
    look(made)

    larger = made.dag
    assert (larger.round.number, larger.round.kind, larger.round.jobs) == (1, RoundKind.PILOT, 1)
    assert larger.round.input_events == 480
    plan = json.loads((Path(larger.submit_dir) / "mg_000000" / "jobs.json").read_text())
    assert (plan["pilot"]["initial_events"], plan["pilot"]["time_budget_sec"]) == (160, 850)

    settled = complete(made, 160, 320, converged=True)
    assert isinstance(settled, Move)
    assert settled.to is S.PLANNING
    workflow = made.workflow
    assert workflow.pilot_metrics is not None
    assert [one["events"] for one in workflow.pilot_metrics["iterations"]] == [*FIRST, 160, 320]
    assert not pilot.is_wanted(workflow=workflow, urgent=False)


def test_a_pilot_that_settled_is_the_only_one(measuring: Callable[..., Round]) -> None:
    settled = complete(measuring(), *FIRST, converged=True)

    assert isinstance(settled, Move)
    assert settled.to is S.PLANNING


def test_it_stops_when_the_next_windows_do_not_fit_into_the_time_left(
    measuring: Callable[..., Round],
) -> None:
    spent = complete(measuring(), *FIRST, sec_per_event=3.0)

    assert isinstance(spent, Move)
    assert spent.to is S.PLANNING


def test_it_stops_when_no_file_holds_the_next_windows(measuring: Callable[..., Round]) -> None:
    stopped = complete(measuring(events=400), *FIRST)

    assert isinstance(stopped, Move)
    assert stopped.to is S.PLANNING


def test_pilots_end_at_their_maximum_number(measuring: Callable[..., Round], settings: Any) -> None:
    settings.PILOT_MAX_ROUNDS = 1

    stopped = complete(measuring(), *FIRST)

    assert isinstance(stopped, Move)
    assert stopped.to is S.PLANNING


def test_a_larger_pilot_that_failed_is_not_followed_by_another(measuring: Callable[..., Round]) -> None:
    made = measuring()
    complete(made, *FIRST)
    look(made)
    made.dag.round.groups.update(status=GroupStatus.FAILED)
    production.resolve_round(round_=made.dag.round, now=timezone.now())

    assert not pilot.is_wanted(workflow=made.workflow, urgent=False)


def test_a_pilot_runs_on_the_cores_of_the_request(measuring: Callable[..., Round]) -> None:
    made = measuring()

    directory = Path(made.dag.submit_dir) / "mg_000000"
    assert json.loads((directory / "jobs.json").read_text())["cores"] == 4
    assert 'CPUS="4"' in (directory / "group.dag").read_text()


def test_the_smallest_file_that_has_enough_events_is_measured(measuring: Callable[..., Round]) -> None:
    workflow = measuring().workflow
    small = make_file(workflow, events=20, lumis=[[2, 1, 2]], locations=[CERN])
    large = make_file(workflow, events=5000, lumis=[[3, 1, 100]], locations=[CERN])

    plan = pilot.decide_pilot(workflow=workflow, sites=usable_sites(workflow=workflow, now=timezone.now()))

    (window,) = plan.groups[0].jobs[0].files
    assert window.file.lfn not in {small.lfn, large.lfn}
