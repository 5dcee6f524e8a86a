"""Monte Carlo requests whose filter passes less than they declare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from dags_app.models import Workflow
from dags_app.services import ledger, pilot, production
from dags_app.states import DAGStatus, GroupStatus, RoundKind, SplittingAlgo
from requests_app.lifecycle import handlers
from requests_app.lifecycle.outcome import Move, Outcome
from requests_app.lifecycle.recovering import hold_for_yield
from requests_app.services.releasing import release_request
from requests_app.states import RequestStatus
from sites_app.selectors import usable_sites
from tests.integration.factories import make_request, make_workflow
from tests.integration.recovery.factories import CERN, Round

pytestmark = pytest.mark.django_db
Generating = Callable[..., Round]


@pytest.fixture
def generating(sites: None) -> Generating:
    """Return a request for 100 generated events of which half should pass, ten to a job."""

    def make(**values: Any) -> Round:
        workflow = make_workflow(
            splitting_algo=SplittingAlgo.EVENT_BASED,
            splitting_params={"events_per_job": 10},
            input_dataset=None,
            **({"jobs_per_group": 2, "total_events": 100, "filter_efficiency": 0.5} | values),
        )
        return Round(make_request(workflow=workflow, status=RequestStatus.ACTIVE))

    return make


def run_round(made: Round, *, passing: float) -> Outcome:
    """Plan the next round and finish it with this fraction of passing events; return the outcome."""
    workflow = made.workflow
    pool = usable_sites(workflow=workflow, now=timezone.now())
    production.plan_round(workflow=workflow, sites=pool, priority=0)
    _collect(made, passing)
    return handlers.on_active(made.move(RequestStatus.ACTIVE), timezone.now())


def _collect(made: Round, passing: float) -> None:
    written = int(made.dag.round.input_events * passing)
    for group in made.groups:
        group.events_written, written = min(written, group.input_events), max(written - group.input_events, 0)
        group.status, group.site = GroupStatus.COLLECTED, CERN
        group.save()
        ledger.credit_group(group=group)
    made.end(DAGStatus.COMPLETED)


def held(outcome: Outcome) -> dict[str, Any]:
    assert isinstance(outcome, Move)
    assert outcome.to is RequestStatus.HELD, outcome
    return dict(outcome.changes["hold_evidence"])


def test_a_filter_that_passes_nothing_is_held_with_the_numbers(generating: Generating) -> None:
    made = generating(adaptive=True)
    evidence = held(run_round(made, passing=0.0))
    assert (evidence["events_generated"], evidence["events_written"], evidence["events_expected"]) == (
        20, 0, 10,
    )  # fmt: skip
    assert "0 of 20 generated events passed the filter" in evidence["reason"]


def test_a_declared_efficiency_far_too_high_is_held_once_and_then_measured(generating: Generating) -> None:
    made = generating()
    evidence = held(run_round(made, passing=0.02))
    assert evidence["filter_efficiency_measured"] == pytest.approx(0.02, rel=0.2)
    release_request(
        request=made.move(RequestStatus.HELD), actor="operator:ana", reason="it is so", now=timezone.now()
    )
    outcomes = [run_round(made, passing=0.02)]
    assert made.dag.round.input_events == evidence["next_round_events"] > 5_000
    while made.workflow.produced_events < 100:
        outcomes.append(run_round(made, passing=0.02))
    assert len(outcomes) <= 3
    assert not any("filter" in one.reason for one in outcomes if isinstance(one, Move))


def test_a_release_after_nothing_passed_plans_one_more_round(generating: Generating) -> None:
    made = generating(adaptive=True, total_events=1000)
    held(run_round(made, passing=0.0))
    released = release_request(
        request=made.move(RequestStatus.HELD), actor="operator:ana", reason="fixed", now=timezone.now()
    )
    assert released.status == RequestStatus.QUEUED
    going_on = run_round(made, passing=0.5)
    assert isinstance(going_on, Move)
    assert going_on.to is RequestStatus.QUEUED
    held(run_round(made, passing=0.0))


def test_deciding_again_about_a_resolved_round_gives_the_same_decision(generating: Generating) -> None:
    made = generating()
    first = run_round(made, passing=0.0)
    again = handlers.on_active(made.move(RequestStatus.ACTIVE), timezone.now())
    assert held(first) == held(again)


def test_a_poor_yield_that_suffices_is_no_reason_to_hold(generating: Generating) -> None:
    made = generating(total_events=1)
    Workflow.objects.filter(pk=made.workflow.pk).update(produced_events=1)
    assert hold_for_yield(made.workflow) is None


def test_a_pilot_of_which_nothing_passed_is_held_before_the_large_round(
    generating: Generating,
) -> None:
    made = generating()
    workflow = made.workflow
    pool = usable_sites(workflow=workflow, now=timezone.now())
    plan = pilot.decide_pilot(workflow=workflow, sites=pool)
    production.write_round(workflow=workflow, plan=plan, kind=RoundKind.PILOT, priority=0)
    _collect(made, 0.0)
    report = {
        "iterations": [{"events": 5, "wall_time_sec": 1.0}],
        "recommended": {
            "events_per_job": 10, "memory_mb": 100, "time_per_job_sec": 1, "output_size_per_event_kb": 0,
        },
    }  # fmt: skip
    made.dag.round.groups.update(metrics={"pilot": report})
    held(handlers.on_pilot_running(made.move(RequestStatus.PILOT_RUNNING), timezone.now()))
