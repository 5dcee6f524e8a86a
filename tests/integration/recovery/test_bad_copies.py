"""Unreadable files: none is read twice, and none is excluded that may have a good copy."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.utils import timezone

from dags_app.failures import repair
from dags_app.models import Workflow
from dags_app.services import ledger, production
from dags_app.states import FileState, RoundStatus
from requests_app.lifecycle import handlers
from requests_app.lifecycle.outcome import Move
from requests_app.states import RequestStatus as S
from sites_app.models import Site
from sites_app.selectors import usable_sites
from sites_app.states import SiteStatus
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


def succeed(round_: Round, index: int, site: str, *nodes: str) -> None:
    for node in nodes:
        write_record(round_.directory(index), node, site=site, category="success", exit_code=0, action="none")


def next_round_reads(round_: Round) -> list[str]:
    production.resolve_round(round_=round_.dag.round, now=timezone.now())
    pool = usable_sites(workflow=round_.workflow, now=timezone.now())
    batches = ledger.files_to_plan(workflow=round_.workflow, sites=pool)
    return [file.lfn for files in batches for file in files]


def test_a_file_that_was_read_after_all_is_not_read_again(planned: Planned) -> None:
    round_ = planned([[CERN, DESY]] * 18, jobs_per_group=3)
    x, y, z = round_.lfns_of(2)
    node = {job["files"][0]["lfn"]: name for name, job in round_.jobs_of(2).items()}
    one_bad(round_, 2, nodes=[node[x]], category="data", exit_code=8021, bad_files=[x])
    partial(round_)
    rescued(round_)
    round_.fail(2, DESY, nodes=[node[z]], category="data", exit_code=8021, bad_files=[z])
    succeed(round_, 2, DESY, node[x], node[y])
    round_.end()
    partial(round_)
    rescued(round_)
    assert round_.lfns_of(2) == [x, y]
    assert (round_.directory(2) / "group.dag.rescue001").exists(), "what was read stays read"
    round_.finish(2, DESY)
    assert next_round_reads(round_) == [z]


def test_a_group_begins_anew_without_a_file_it_has_read_in_part(planned: Planned) -> None:
    Site.objects.filter(pk=DESY).update(thresholds={"memory_mb_per_core": 1})  # too little for the group
    round_ = planned(
        [[CERN, DESY]] + [[CERN]] * 11,
        splitting_algo="EventBased",
        splitting_params={"events_per_job": 50},
        jobs_per_group=4,
    )
    cut = round_.file(f"/store/data/{round_.workflow.request_name}/000.root").lfn
    home = next(group.index for group in round_.groups if cut in round_.lfns_of(group.index))
    nodes = [name for name, job in round_.jobs_of(home).items() if job["files"][0]["lfn"] == cut]
    assert len(nodes) > 1
    one_bad(round_, home, nodes=nodes[-1:], category="data", exit_code=8021, bad_files=[cut])
    succeed(round_, home, CERN, *(node for node in round_.jobs_of(home) if node != nodes[-1]))
    partial(round_)
    rescued(round_)
    assert cut not in round_.lfns_of(home)
    assert not (round_.directory(home) / "group.dag.rescue001").exists(), "what it read of it is not merged"
    round_.finish(home)
    assert next_round_reads(round_) == [cut]


def test_files_behind_a_storage_that_is_down_are_tried_again(planned: Planned) -> None:
    round_ = planned([[CERN]] * 20 + [[DESY]] * 2)
    (down,) = round_.reading(DESY)
    unopened = round_.lfns_of(down)
    for name, job in round_.jobs_of(down).items():
        lfn = job["files"][0]["lfn"]
        round_.fail(down, DESY, nodes=[name], category="data", exit_code=8020, bad_files=[lfn])
    for group in round_.groups:
        if group.index != down:
            round_.finish(group.index)
    round_.end()
    assert partial(round_).to is S.QUEUED
    assert round_.dag.round.status == RoundStatus.RESOLVED
    assert {round_.file(lfn).state for lfn in unopened} == {FileState.ATTEMPTED}
    assert sorted(next_round_reads(round_)) == unopened


@pytest.mark.parametrize("state", ["draining", "unknown"])
def test_a_copy_at_a_site_out_of_use_keeps_a_file_from_being_given_up(planned: Planned, state: str) -> None:
    elsewhere = DESY if state == "draining" else "T2_XX_Unheard_Disk"
    Site.objects.filter(pk=DESY).update(status=SiteStatus.DRAINING)
    round_ = planned([[CERN, elsewhere]] * 12)
    bad, good = round_.lfns_of(0)
    node = next(name for name, job in round_.jobs_of(0).items() if job["files"][0]["lfn"] == bad)
    one_bad(round_, 0, nodes=[node], category="data", exit_code=8022, bad_files=[bad])
    assert partial(round_).to is S.RESUBMITTING
    rescued(round_)
    assert (round_.file(bad).state, round_.lfns_of(0)) == (FileState.ATTEMPTED, [good])


def test_a_file_that_is_never_read_ends_in_a_hold_that_names_it(planned: Planned) -> None:
    round_ = planned([[PURDUE]] * 2 + [[CERN]] * 20)
    (down,) = round_.reading(PURDUE)
    lfn = round_.lfns_of(down)[0]
    attempts = []
    for _ in range(6):
        (index,) = round_.reading(PURDUE)
        for name, job in round_.jobs_of(index).items():
            blamed = [job["files"][0]["lfn"]]
            round_.fail(index, PURDUE, nodes=[name], category="data", exit_code=8020, bad_files=blamed)
        for group in round_.groups:
            if group.index != index:
                round_.finish(group.index)
        round_.end()
        Workflow.objects.filter(pk=round_.workflow.pk).update(chosen_hold_threshold=1.1)  # else held at once
        assert partial(round_).to is S.QUEUED
        attempts.append(round_.file(lfn).attempts)
        if attempts[-1] < 6:
            pool = usable_sites(workflow=round_.workflow, now=timezone.now())
            production.plan_round(workflow=round_.workflow, sites=pool, priority=0)
    assert attempts == [1, 2, 3, 4, 5, 6]
    planning = handlers.on_planning(round_.move(S.PLANNING), timezone.now())
    assert isinstance(planning, Move)
    assert (planning.to, lfn in planning.changes["hold_evidence"]["files"]) == (S.HELD, True)


def test_a_replica_lost_after_its_job_has_read_it_does_not_move_the_group(planned: Planned) -> None:
    round_ = planned([[CERN, DESY]] * 12)
    read, unread = round_.lfns_of(0)
    node = {job["files"][0]["lfn"]: name for name, job in round_.jobs_of(0).items()}
    one_bad(round_, 0, nodes=[node[unread]])
    succeed(round_, 0, CERN, node[read])
    pool = usable_sites(workflow=round_.workflow, now=timezone.now())
    round_.workflow.input_files.filter(lfn=read).update(locations=[DESY])
    (stays,) = repair.decide_repairs(dag=round_.dag, sites=pool)
    assert (stays.restart, CERN in stays.sites) == (False, True)
    round_.workflow.input_files.filter(lfn=unread).update(locations=[DESY])
    (moves,) = repair.decide_repairs(dag=round_.dag, sites=pool)
    assert (moves.restart, moves.sites) == (True, {DESY})
