"""A pilot that fails is tried once more; what it cannot read is excluded, and the estimates are believed."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from dags_app.services import pilot, production
from dags_app.states import DAGKind, FileState, RoundKind
from requests_app.lifecycle import handlers
from requests_app.lifecycle.outcome import Move, Outcome, Wait
from requests_app.states import RequestStatus as S
from sites_app.selectors import usable_sites
from tests.integration.factories import make_file, make_request, make_workflow
from tests.integration.recovery.conftest import CERN, DESY, Round

pytestmark = pytest.mark.django_db


@pytest.fixture
def measuring(sites: None) -> Round:
    """A request whose pilot is planned; every file is at one site only."""
    workflow = make_workflow(splitting_params={"files_per_job": 1})
    for number in range(3):
        make_file(
            workflow, lfn=f"/store/data/pilot/{number}.root", locations=[CERN], lumis=[[1, number, number]]
        )
    pool = usable_sites(workflow=workflow, now=timezone.now())
    plan = pilot.decide_pilot(workflow=workflow, sites=pool)
    production.write_round(workflow=workflow, plan=plan, kind=RoundKind.PILOT, priority=0)
    return Round(make_request(workflow=workflow, status=S.PILOT_RUNNING))


def look(round_: Round) -> Outcome:
    return handlers.on_pilot_running(round_.move(S.PILOT_RUNNING), timezone.now())


def end(round_: Round, **values: Any) -> None:
    round_.fail(0, **values)
    round_.end()


def test_it_is_tried_once_more_and_then_held_with_the_evidence(measuring: Round) -> None:
    end(measuring, category="transient", exit_code=99996)
    assert isinstance(look(measuring), Wait)
    assert measuring.dag.kind == DAGKind.RESCUE
    end(measuring, category="transient", exit_code=99996)
    held = look(measuring)
    assert isinstance(held, Move)
    assert held.to is S.HELD
    assert held.changes["hold_evidence"]["counts"][0]["exit_code"] == 99996
    assert held.reason.startswith(f"the pilot ended partial twice; most often 99996 at {CERN}: ")


def test_without_readable_input_the_estimates_are_believed(measuring: Round) -> None:
    (lfn,) = measuring.lfns_of(0)
    end(measuring, category="data", exit_code=8021, bad_files=[lfn])
    moved = look(measuring)
    assert isinstance(moved, Move)
    assert moved.to is S.PLANNING
    assert measuring.file(lfn).state == FileState.EXCLUDED
    assert not pilot.is_wanted(workflow=measuring.workflow, urgent=False)


def test_what_concerns_every_job_is_held_at_once(measuring: Round) -> None:
    end(measuring, action="abort_dag", category="permanent", exit_code=71104)
    held = look(measuring)
    assert isinstance(held, Move)
    assert (held.to, "71104" in held.reason) == (S.HELD, True)


def test_another_copy_is_tried_first(measuring: Round) -> None:
    (lfn,) = measuring.lfns_of(0)
    measuring.workflow.input_files.filter(lfn=lfn).update(locations=[CERN, DESY])
    end(measuring, category="data", exit_code=8021, bad_files=[lfn])
    assert isinstance(look(measuring), Wait)
    assert measuring.file(lfn).state == FileState.ASSIGNED
