"""Lending of files: the order, and that no file is lent twice or lost."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from django.db import connection

from dags_app.models import InputFile, Runner, RunnerEvent
from dags_app.pull import allocation
from dags_app.pull.allocation import Asked, lend_files
from dags_app.pull.ending import end_round_runners, end_runner, expire_runners
from dags_app.pull.places import sync_places
from dags_app.states import FileState, RunnerOutcome, RunnerState
from tests.integration.factories import ago
from tests.integration.pull.factories import (
    CERN,
    FNAL,
    add_files,
    lend,
    make_pull_workflow,
    make_runner,
    open_round,
)

pytestmark = pytest.mark.django_db


def test_files_are_lent_nearest_first_then_oldest_first() -> None:
    workflow = make_pull_workflow(places=[[FNAL], ["T2_CH_CSCS"], [CERN], [CERN, FNAL], [CERN]])
    files = list(workflow.input_files.order_by("id"))
    expected = [files[number].pk for number in (2, 4, 3, 1, 0)]  # files of a set come together
    runner = make_runner(workflow)
    assert [one.id for one in lend(runner, count=20, max_distance=100)] == expected
    end_runner(runner=runner, outcome=RunnerOutcome.STOPPED, refund=True)
    allocation._first_fresh.clear()
    again = make_runner(workflow)
    one_by_one = [lend(again, max_distance=100)[0].id for _ in files]
    assert one_by_one == [files[number].pk for number in (2, 3, 4, 1, 0)]


def test_nothing_is_lent_beyond_the_distance() -> None:
    workflow = make_pull_workflow(places=[[FNAL], ["T2_CH_CSCS"], []])
    runner = make_runner(workflow)
    assert lend(runner, count=5) == []
    assert [one.lfn for one in lend(runner, count=5, max_distance=50)] == [
        workflow.input_files.get(locations=["T2_CH_CSCS"]).lfn
    ]


def test_fresh_files_of_every_set_come_before_attempted_ones() -> None:
    workflow = make_pull_workflow()
    add_files(workflow, [[CERN]] * 2, attempts=1, state=FileState.ATTEMPTED)
    fresh = add_files(workflow, [[CERN, FNAL], [CERN]])
    lent = lend(make_runner(workflow), count=2)
    assert {one.id for one in lent} == {file.pk for file in fresh}


def test_files_with_a_bad_copy_are_lent_last() -> None:
    workflow = make_pull_workflow(places=[[CERN]] * 3)
    bad, *good = workflow.input_files.order_by("id")
    runner = make_runner(workflow)
    assert [one.id for one in lend(runner, avoided=[bad.lfn])] == [good[0].pk]
    assert {one.id for one in lend(runner, count=5, avoided=[bad.lfn])} == {good[1].pk, bad.pk}


def test_files_without_attempts_left_and_excluded_files_are_not_lent() -> None:
    workflow = make_pull_workflow()
    add_files(workflow, [[CERN]], attempts=6, state=FileState.ATTEMPTED)
    add_files(workflow, [[CERN]], state=FileState.EXCLUDED)
    assert lend(make_runner(workflow), count=5, max_distance=100) == []


def test_only_a_running_runner_is_lent_files() -> None:
    workflow = make_pull_workflow(places=[[CERN]])
    runner = make_runner(workflow)
    end_runner(runner=runner, outcome=RunnerOutcome.LATE)
    asked = Asked(workflow.pk, runner.round_id, runner.pk, uuid4(), 1, [])
    assert lend_files(asked) is None
    assert workflow.input_files.get().state == FileState.FRESH


def test_a_returned_file_has_cost_an_attempt() -> None:
    workflow = make_pull_workflow(places=[[CERN]])
    runner = make_runner(workflow)
    lend(runner)
    end_runner(runner=runner, outcome=RunnerOutcome.FAILED, message="exit code 1")
    file = workflow.input_files.get()
    assert (file.state, file.attempts, file.runner_id) == (FileState.ATTEMPTED, 1, None)
    kinds = RunnerEvent.objects.filter(runner=runner).order_by("id").values_list("kind", flat=True)
    assert list(kinds) == ["allocated", "reset", "ended"]


def test_a_file_keeps_its_attempts_after_a_clean_stop() -> None:
    workflow = make_pull_workflow(places=[[CERN]])
    lend(make_runner(workflow))
    assert end_round_runners(round_=open_round(workflow), stopped=True) == 1
    file = workflow.input_files.get()
    assert (file.state, file.attempts) == (FileState.FRESH, 0)


def test_a_returned_file_below_the_last_one_is_lent_again() -> None:
    """Processes cache the first fresh file; files below it must not be missed."""
    workflow = make_pull_workflow(places=[[CERN]] * 3)
    first = make_runner(workflow)
    lend(first)
    lend(make_runner(workflow), count=2)
    end_runner(runner=first, outcome=RunnerOutcome.STOPPED, refund=True)
    lowest = workflow.input_files.earliest("id").pk
    assert allocation._first_fresh[first.round_id, workflow.place_sets.get().pk] > lowest
    assert len(lend(make_runner(workflow))) == 1


def test_the_lease_ends_by_the_clock_of_the_database() -> None:
    workflow = make_pull_workflow(places=[[CERN]] * 2)
    silent, alive = make_runner(workflow), make_runner(workflow)
    lend(silent)
    lend(alive)
    Runner.objects.filter(pk=silent.pk).update(heartbeat_at=ago(seconds=601))
    assert [runner.pk for runner in expire_runners()] == [silent.pk]
    silent.refresh_from_db()
    assert (silent.state, silent.outcome) == (RunnerState.ENDED, RunnerOutcome.LOST)
    assert InputFile.objects.filter(runner=alive, state=FileState.ASSIGNED).count() == 1
    assert workflow.input_files.filter(state=FileState.ATTEMPTED).count() == 1


def test_moved_files_join_the_set_of_their_new_places() -> None:
    workflow = make_pull_workflow(places=[[CERN], [FNAL]])
    workflow.input_files.filter(locations=[CERN]).update(locations=[FNAL], place_set=None)
    assert sync_places(workflow=workflow) == 1
    assert workflow.input_files.values("place_set").distinct().count() == 1
    assert sync_places(workflow=workflow) == 0


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("seed", range(3))
def test_concurrent_runners_share_the_files_without_loss(seed: int) -> None:
    """Eight sessions lend, fail and end at once: each file is held once, and none is missing at the end."""
    workflow = make_pull_workflow(places=[[CERN], [CERN, FNAL], [CERN]] * 20)
    taken: list[int] = []
    total, lock = 60, threading.Lock()

    def work(number: int) -> None:
        dice = random.Random(f"{seed} {number}")
        try:
            while True:
                runner = make_runner(workflow)
                lent = lend(runner, count=dice.randint(1, 4))
                if not lent:
                    return
                if dice.random() < 0.3:
                    end_runner(runner=runner, outcome=RunnerOutcome.STOPPED, refund=True)
                    continue
                with lock:
                    taken.extend(one.id for one in lent)
                done = InputFile.objects.filter(runner=runner, state=FileState.ASSIGNED)
                assert done.update(state=FileState.PROCESSED) == len(lent)
                end_runner(runner=runner, outcome=RunnerOutcome.PROCESSED)
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert sorted(taken) == sorted(set(taken))
    assert len(taken) == total
    assert workflow.input_files.filter(state=FileState.PROCESSED).count() == total
