"""A failed pilot is retried once; files it cannot read are excluded, and estimates are used."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from dags_app.failures import repair
from dags_app.models import Workflow
from dags_app.services import pilot, production
from dags_app.states import DAGKind, DAGStatus, FileState, RoundKind
from requests_app.lifecycle import handlers
from requests_app.lifecycle.outcome import Move, Outcome, Wait
from requests_app.models import Request
from requests_app.services.releasing import Modifications, release_request
from requests_app.states import RequestStatus as S
from sites_app.models import SiteBan
from sites_app.selectors import usable_sites
from tests.dagfiles import allowed_sites
from tests.integration.factories import make_file, make_request, make_workflow
from tests.integration.recovery.factories import CERN, DESY, PURDUE, Round

pytestmark = pytest.mark.django_db
PILOT = {
    "iterations": [{"events": 5, "wall_time_sec": 1.0}],
    "recommended": {
        "events_per_job": 10, "memory_mb": 100, "time_per_job_sec": 1, "output_size_per_event_kb": 1,
    },
}  # fmt: skip


@pytest.fixture
def measuring(sites: None) -> Round:
    """Return a request whose pilot is planned; every file is at one site only."""
    return measure([CERN])


def measure(locations: list[str]) -> Round:
    workflow = make_workflow(splitting_params={"files_per_job": 1}, input_resolved_at=timezone.now())
    for number in range(3):
        lfn = f"/store/data/{workflow.request_name}/{number}.root"
        make_file(workflow, lfn=lfn, locations=locations, lumis=[[1, number, number]])
    pool = usable_sites(workflow=workflow, now=timezone.now())
    plan = pilot.decide_pilot(workflow=workflow, sites=pool)
    production.write_round(workflow=workflow, plan=plan, kind=RoundKind.PILOT, priority=0)
    return Round(make_request(workflow=workflow, status=S.PILOT_RUNNING))


def look(round_: Round) -> Outcome:
    return handlers.on_pilot_running(round_.move(S.PILOT_RUNNING), timezone.now())


def end(round_: Round, **values: Any) -> None:
    round_.fail(0, **values)
    round_.end()


def test_a_failed_pilot_is_retried_once_and_then_held_with_the_evidence(measuring: Round) -> None:
    end(measuring, category="transient", exit_code=99996)
    assert isinstance(look(measuring), Wait)
    assert measuring.dag.kind == DAGKind.RESCUE
    end(measuring, category="transient", exit_code=99996)
    held = look(measuring)
    assert isinstance(held, Move)
    assert held.to is S.HELD
    assert held.changes["hold_evidence"]["counts"][0]["exit_code"] == 99996
    assert held.reason.startswith(f"the pilot ended partial twice; most often 99996 at {CERN}: ")


def test_without_readable_input_the_estimates_are_used(measuring: Round) -> None:
    (lfn,) = measuring.lfns_of(0)
    end(measuring, category="data", exit_code=8021, bad_files=[lfn])
    moved = look(measuring)
    assert isinstance(moved, Move)
    assert moved.to is S.PLANNING
    assert measuring.file(lfn).state == FileState.EXCLUDED
    assert not pilot.is_wanted(workflow=measuring.workflow, urgent=False)


def test_a_failure_of_every_job_is_held_at_once(measuring: Round) -> None:
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


def repair_round(round_: Round) -> None:
    repair.repair_dag(dag=round_.dag, sites=usable_sites(workflow=round_.workflow, now=timezone.now()))


@pytest.mark.usefixtures("sites")
@pytest.mark.parametrize(
    ("category", "exit_code"), [("infrastructure", 71102), ("permanent", 8001), ("transient", 99996)]
)
def test_a_retried_pilot_runs_at_another_site(category: str, exit_code: int) -> None:
    round_ = measure([CERN, DESY])
    end(round_, category=category, exit_code=exit_code)
    assert isinstance(look(round_), Wait)
    repair_round(round_)
    assert allowed_sites(round_.directory(0)) == {DESY}
    assert not (round_.directory(0) / "elected_site.inc").exists(), "it lands anew"


def test_the_second_try_stays_where_no_other_site_can_read_its_input(measuring: Round) -> None:
    end(measuring)
    assert isinstance(look(measuring), Wait)
    repair_round(measuring)
    assert allowed_sites(measuring.directory(0)) == {CERN}


@pytest.mark.usefixtures("sites")
def test_a_site_at_which_pilots_of_three_requests_failed_is_banned_for_all() -> None:
    for _ in range(3):
        round_ = measure([CERN, DESY])
        end(round_, exit_code=71102)
        assert isinstance(look(round_), Wait)
    assert [ban.site_id for ban in SiteBan.objects.filter(workflow__isnull=True)] == [CERN]


@pytest.mark.usefixtures("sites")
def test_a_pilot_that_succeeded_elsewhere_counts_against_the_site_of_its_first_try() -> None:
    for sender in ("ana", "bob", "eva"):
        round_ = measure([CERN, DESY])
        round_.move(S.PILOT_RUNNING, submitted_by=sender)
        end(round_, category="permanent", exit_code=8001)
        assert isinstance(look(round_), Wait)
        round_.finish(0, DESY)
        report = {"pilot": PILOT}
        round_.dag.round.groups.update(metrics=report)
        round_.end(DAGStatus.COMPLETED)
        moved = look(round_)
        assert isinstance(moved, Move)
        assert moved.to is S.PLANNING
    assert [ban.site_id for ban in SiteBan.objects.filter(workflow__isnull=True)] == [CERN]


def fail_twice(round_: Round) -> None:
    for site in (CERN, DESY):
        end(round_, site=site, category="transient", exit_code=99996)
        look(round_)
    round_.move(S.HELD)


def release(round_: Round, **changes: Any) -> Outcome:
    """Release the request and run its next step."""
    row = Request.objects.select_related("workflow").get(pk=round_.request.pk)
    release_request(
        request=row,
        actor="user:olga",
        reason="again",
        now=timezone.now(),
        modifications=Modifications(**changes),
    )
    Workflow.objects.filter(pk=row.workflow_id).update(located_at=timezone.now())  # its files are in no Rucio
    return handlers.on_queued(round_.move(S.QUEUED), timezone.now())


@pytest.mark.usefixtures("sites")
@pytest.mark.parametrize(
    ("changes", "to"),
    [
        ({}, S.PILOT_RUNNING),
        ({"memory_mb": 2100}, S.PILOT_RUNNING),
        ({"time_per_event_sec": 2.0}, S.PLANNING),
    ],
    ids=["nothing", "more memory", "the operator's estimate"],
)
def test_a_release_after_a_failed_pilot_measures_again_without_an_estimate(
    changes: dict[str, Any], to: S
) -> None:
    round_ = measure([CERN, DESY])
    fail_twice(round_)
    moved = release(round_, **changes)
    assert isinstance(moved, Move)
    assert moved.to is to


@pytest.mark.usefixtures("sites", "fake_schedd")
def test_the_pilot_after_a_release_is_a_new_round_at_a_site_where_none_has_failed() -> None:
    round_ = measure([CERN, DESY, PURDUE])
    fail_twice(round_)
    release(round_)
    look(round_)
    assert (round_.dag.round.number, round_.dag.round.kind) == (1, RoundKind.PILOT)
    assert allowed_sites(round_.directory(0)) == {PURDUE}


@pytest.mark.usefixtures("sites", "fake_schedd")
def test_the_pilot_after_a_release_uses_a_site_again_where_no_other_is_left() -> None:
    round_ = measure([CERN, DESY])
    fail_twice(round_)
    release(round_)
    look(round_)
    assert round_.dag.round.number == 1
    assert allowed_sites(round_.directory(0)) == {CERN, DESY}
