"""A round with failures: rescued, repaired or held, with the diagnosis in a few rows."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from django.utils import timezone

from dags_app.failures import repair
from dags_app.models import BadReplica, FailureCluster, Workflow
from dags_app.services import production
from dags_app.services.ledger import files_to_plan
from dags_app.states import DAGKind, DAGStatus, FileState, RoundStatus
from requests_app.lifecycle import handlers
from requests_app.lifecycle.outcome import Move
from requests_app.states import RequestStatus as S
from sites_app.models import Site, SiteBan
from sites_app.selectors import usable_sites
from tests.dagfiles import allowed_sites
from tests.integration.factories import make_file, make_round, make_workflow
from tests.integration.recovery.factories import (
    CERN,
    DESY,
    PURDUE,
    Round,
    one_bad,
    partial,
    rescued,
    write_record,
)

pytestmark = pytest.mark.django_db
Planned = Callable[..., Round]


def test_a_corrupt_file_is_excluded_by_name_and_the_rest_continues(planned: Planned) -> None:
    round_ = planned([[CERN]] * 12)
    bad, good = round_.lfns_of(2)
    node = next(name for name, job in round_.jobs_of(2).items() if job["files"][0]["lfn"] == bad)
    one_bad(round_, 2, nodes=[node], category="data", exit_code=8022, bad_files=[bad])
    assert partial(round_).to is S.RESUBMITTING
    rescued(round_)
    assert (round_.file(bad).state, round_.file(good).state) == (FileState.EXCLUDED, FileState.ASSIGNED)
    assert f"could not be read at {CERN}" in round_.file(bad).excluded_reason
    assert round_.lfns_of(2) == [good]
    assert node not in (round_.directory(2) / "group.dag").read_text()
    assert round_.groups[2].jobs == 1
    assert (round_.directory(2) / "group.dag.rescue001").exists(), "what is done stays done"
    assert (round_.dag.kind, round_.dag.total_nodes) == (DAGKind.RESCUE, 11 + 3 * 6)


@pytest.mark.parametrize(
    ("kind", "message"), [(None, "round 0 submitted: 6 groups, 12 jobs"),
                       (DAGKind.RESCUE, "rescue of round 0 submitted: 1 of 6 groups"),
                       (DAGKind.RESUME, "resume of round 0 submitted: 1 of 6 groups")]
)  # fmt: skip
@pytest.mark.usefixtures("fake_schedd")
def test_a_submission_reports_the_groups_that_continue(
    planned: Planned, kind: DAGKind | None, message: str
) -> None:
    round_ = planned([[CERN]] * 12)
    if kind is not None:
        one_bad(round_, 2)
        production.prepare_dag(parent=round_.dag, kind=kind)
    moved = handlers.on_planning(round_.move(S.PLANNING), timezone.now())
    assert isinstance(moved, Move)
    assert (moved.to, moved.reason) == (S.ACTIVE, message)


def test_a_rescue_keeps_finished_nodes_and_a_restart_does_not(planned: Planned) -> None:
    round_ = planned([[CERN, DESY]] * 4)
    round_.fail(0)
    round_.fail(1)
    round_.dag.round.groups.update(nodes_done=1, nodes_failed=2, site=CERN)
    round_.end()
    production.prepare_dag(parent=round_.dag, kind=DAGKind.RESCUE)
    assert [(one.nodes_done, one.nodes_failed) for one in round_.groups] == [(1, 0), (1, 0)]
    Site.objects.filter(name=CERN).update(status="draining")
    repair.repair_dag(dag=round_.dag, sites=usable_sites(workflow=round_.workflow, now=timezone.now()))
    assert [(one.nodes_done, one.site) for one in round_.groups] == [(0, ""), (0, "")]


def test_a_group_left_without_input_leaves_the_dag(planned: Planned) -> None:
    round_ = planned([[CERN]] * 12)
    both = round_.lfns_of(1)
    for group in round_.groups:
        if group.index not in (1, 3):
            round_.finish(group.index)
    for node, job in round_.jobs_of(1).items():
        lfn = job["files"][0]["lfn"]
        round_.fail(1, nodes=[node], category="data", exit_code=8021, bad_files=[lfn])
    round_.fail(3, category="transient", exit_code=99996)
    round_.end()
    Workflow.objects.filter(pk=round_.workflow.pk).update(chosen_hold_threshold=0.5)
    assert partial(round_).to is S.RESUBMITTING
    rescued(round_)
    outer = (round_.directory(0).parent / "workflow.dag").read_text()
    assert "mg_000001" not in outer
    assert "mg_000003" in outer
    assert {round_.file(lfn).state for lfn in both} == {FileState.EXCLUDED}
    assert [group.index for group in round_.groups] == [0, 2, 3, 4, 5]


def test_when_nothing_readable_is_left_the_round_ends_without_a_rescue(planned: Planned) -> None:
    round_ = planned([[CERN]] * 12)
    for node, job in round_.jobs_of(0).items():
        round_.fail(0, nodes=[node], category="data", exit_code=8021, bad_files=[job["files"][0]["lfn"]])
    for index in range(1, 6):
        round_.finish(index)
    round_.end()
    moved = partial(round_)
    assert moved.to is S.QUEUED
    assert round_.dag.round.status == RoundStatus.RESOLVED
    planning = handlers.on_planning(round_.move(S.PLANNING), timezone.now())
    assert isinstance(planning, Move)
    assert planning.to is S.ACTIVE
    active = handlers.on_active(round_.move(S.ACTIVE), timezone.now())
    assert not (isinstance(active, Move) and active.to is S.PARTIAL), "it must not go round in circles"


def test_a_file_with_another_copy_is_tried_there_before_it_is_given_up(planned: Planned) -> None:
    round_ = planned([[CERN, DESY]] * 2 + [[CERN]] * 10)
    bad, good = round_.lfns_of(0)
    nodes = [node for node, job in round_.jobs_of(0).items() if job["files"][0]["lfn"] == bad]
    one_bad(round_, 0, nodes=nodes, category="data", exit_code=8021, bad_files=[bad])
    assert partial(round_).to is S.RESUBMITTING
    rescued(round_)
    assert allowed_sites(round_.directory(0)) == {DESY}
    assert not (round_.directory(0) / "elected_site.inc").exists()
    assert round_.file(bad).state == FileState.ASSIGNED
    round_.fail(0, DESY, nodes=nodes, category="data", exit_code=8021, bad_files=[bad])
    round_.end()
    assert partial(round_).to is S.RESUBMITTING
    rescued(round_)
    assert round_.file(bad).state == FileState.EXCLUDED
    assert f"{CERN}, {DESY}" in round_.file(bad).excluded_reason
    assert round_.lfns_of(0) == [good]
    assert round_.dag.round.dags.filter(kind=DAGKind.RESCUE).count() == 2


def test_another_request_avoids_a_copy_that_could_not_be_read(planned: Planned) -> None:
    round_ = planned([[CERN, DESY]] * 2 + [[CERN]] * 10)
    bad, good = round_.lfns_of(0)
    one_bad(round_, 0, category="data", exit_code=8021, bad_files=[bad])
    partial(round_)
    other = make_workflow()
    for lfn in (bad, good):
        make_file(other, lfn=lfn, locations=[CERN, DESY])
    pool = usable_sites(workflow=other, now=timezone.now())
    found = {file.lfn: file.sites for file in next(files_to_plan(workflow=other, sites=pool))}
    assert found == {bad: {DESY}, good: {CERN, DESY}}


def test_when_every_copy_is_reported_bad_the_one_not_tried_here_comes_next(planned: Planned) -> None:
    round_ = planned([[CERN, DESY]] * 2 + [[CERN]] * 10)
    bad, good = round_.lfns_of(0)
    one_bad(round_, 0, category="data", exit_code=8021, bad_files=[bad])
    partial(round_)
    other = make_workflow()
    for lfn in (bad, good):
        make_file(other, lfn=lfn, locations=[CERN, DESY])
    BadReplica.objects.create(workflow=other, round=make_round(other), lfn=bad, site=DESY, exit_code=8021)
    round_.workflow.input_files.filter(lfn=bad).update(state=FileState.FRESH)

    for workflow, expected in ((round_.workflow, {DESY}), (other, {CERN})):
        pool = usable_sites(workflow=workflow, now=timezone.now())
        found = {file.lfn: file.sites for file in next(files_to_plan(workflow=workflow, sites=pool))}
        assert found[bad] == expected


def test_one_bad_site_is_banned_and_its_group_begins_anew_elsewhere(planned: Planned) -> None:
    round_ = planned([[PURDUE, DESY]] * 4 + [[CERN]] * 20, request_name="one_bad_site")
    round_.fail(0, PURDUE)
    round_.fail(1, PURDUE)
    for index in range(2, 12):
        round_.finish(index)
    round_.end()
    assert partial(round_).to is S.RESUBMITTING
    ban = SiteBan.objects.get()
    assert (ban.site_id, ban.workflow.request_name, ban.created_by) == (
        PURDUE, "one_bad_site", "system:banning",
    )  # fmt: skip
    assert ban.failure_data["infrastructure"] == 4
    rescued(round_)
    for index in (0, 1):
        assert allowed_sites(round_.directory(index)) == {DESY}
        assert PURDUE not in (round_.directory(index) / "group.dag").read_text()
        assert not (round_.directory(index) / "group.dag.rescue001").exists()
    assert PURDUE not in (round_.directory(2) / "group.dag").read_text()


def test_bringing_a_dag_up_to_date_happens_once(planned: Planned) -> None:
    round_ = planned([[CERN, DESY]] * 12)
    one_bad(round_, 0)
    partial(round_)
    rescued(round_)
    landed = round_.directory(0) / "elected_site.inc"
    landed.write_text(f"elected_site = {PURDUE}\n")  # as if DAGMan were running by now
    pool = usable_sites(workflow=round_.workflow, now=timezone.now())
    repair.repair_dag(dag=round_.dag, sites=pool)
    assert landed.exists()


@pytest.mark.parametrize(("category", "exit_code"), [("data", 8020), ("permanent", 99310)])
def test_a_merge_that_lost_its_inputs_restarts_its_group(
    planned: Planned, category: str, exit_code: int
) -> None:
    round_ = planned([[CERN]] * 12)
    for node in round_.jobs_of(4):
        write_record(round_.directory(4), node, category="success", exit_code=0, action="none")
    one_bad(round_, 4, nodes=["merge"], category=category, exit_code=exit_code, message="of one file")
    partial(round_)
    rescued(round_)
    assert not (round_.directory(4) / "group.dag.rescue001").exists()
    assert len(round_.jobs_of(4)) == 2


def test_too_many_failures_are_held_with_the_evidence(planned: Planned) -> None:
    round_ = planned([[CERN]] * 20)
    for index in range(10):
        round_.fail(index) if index < 3 else round_.finish(index)
    round_.end()
    moved = partial(round_)
    assert moved.to is S.HELD
    result = moved.changes["hold_evidence"]
    assert (result["failure_ratio"], len(result["failed_groups"])) == (0.3, 3)
    assert result["counts"] == [
        {"category": "infrastructure", "site": CERN, "exit_code": 60307, "jobs": 6},
    ]
    assert result["samples"][0]["log_tail"].startswith("the last lines of proc_")
    assert result["tried"]["dags"][0]["kind"] == "first"
    assert json.dumps(result)
    cluster = FailureCluster.objects.get()
    assert (cluster.jobs, cluster.jobs_at_site, cluster.groups) == (
        6, 20, ["mg_000000", "mg_000001", "mg_000002"],
    )  # fmt: skip
    partial(round_)
    assert FailureCluster.objects.count() == 1, "kept once however often it is looked at"


def test_rescues_run_out_and_resumes_do_not_count(planned: Planned) -> None:
    round_ = planned([[CERN]] * 12)
    one_bad(round_, 0, category="permanent", exit_code=8001)
    for _ in range(3):
        assert partial(round_).to is S.RESUBMITTING
        rescued(round_)
        round_.end(DAGStatus.STOPPED)
        production.prepare_dag(parent=round_.dag, kind=DAGKind.RESUME)
        round_.end()
    moved = partial(round_)
    assert moved.to is S.HELD
    assert "after 3 rescues" in moved.reason
    kinds = [dag["kind"] for dag in moved.changes["hold_evidence"]["tried"]["dags"]]
    assert kinds == ["first"] + ["rescue", "resume"] * 3
    chain, dag = [], round_.dag
    while dag is not None:
        chain.append(dag)
        dag = dag.parent
    assert len(chain) == 7, "every further DAG knows the one before"


def test_an_aborted_dag_is_held_at_once_with_the_proof(planned: Planned) -> None:
    round_ = planned([[CERN]] * 12)
    one_bad(round_, 0, action="abort_dag", category="permanent", exit_code=71105, message="manifest empty")
    moved = partial(round_)
    assert moved.to is S.HELD
    assert "71105" in moved.reason
    assert "manifest empty" in moved.changes["hold_evidence"]["proof"]


def test_a_group_that_no_site_can_run_any_more_is_held(planned: Planned) -> None:
    round_ = planned([[PURDUE]] * 4 + [[CERN]] * 20)
    there = round_.reading(PURDUE)
    for group in round_.groups:
        round_.fail(group.index, PURDUE) if group.index in there else round_.finish(group.index)
    round_.end()
    moved = partial(round_)
    assert moved.to is S.HELD
    assert "no usable site can run 2 groups" in moved.reason
    assert moved.changes["hold_evidence"]["tried"]["banned_sites"] == [PURDUE]


def test_copies_that_proved_bad_count_against_their_site(planned: Planned) -> None:
    round_ = planned([[PURDUE, DESY]] * 4 + [[CERN]] * 20)
    for index in (0, 1):
        for node, job in round_.jobs_of(index).items():
            lfn = job["files"][0]["lfn"]
            round_.fail(index, PURDUE, nodes=[node], category="data", exit_code=8021, bad_files=[lfn])
    for index in range(2, 12):
        round_.finish(index)
    round_.end()
    partial(round_)
    assert not SiteBan.objects.exists(), "perhaps the files are bad"
    assert BadReplica.objects.count() == 4
    rescued(round_)
    for index in (0, 1):
        round_.finish(index, DESY)
    round_.end(DAGStatus.COMPLETED)
    handlers.on_active(round_.move(S.ACTIVE), timezone.now())
    assert SiteBan.objects.get().site_id == PURDUE
