"""Groups may share a file: with failures in any round, all input is read exactly once in the end."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags_app.planning.coverage import (
    account_of,
    cuts_by_events,
    every_event,
    left_of,
    narrowed,
    part_read,
    read_plan,
    settle_file,
)
from dags_app.planning.early_stop import early_stop, narrow, without_early_stop
from dags_app.planning.lumis import normalised, subtract
from dags_app.planning.plan import build_plan
from dags_app.planning.selection import Selection
from dags_app.planning.types import FileSpec, Plan, PlanSpec
from dags_app.states import FileState, SplittingAlgo
from sandbox.lumis import Ranges, count
from tests.unit.planning.factories import HINTS, file, files, spec
from tests.unit.planning.factories import params as any_params

# Jobs of an event each would make rounds without end where a round is one of them.
params = any_params.map(lambda drawn: drawn | {"events_per_job": drawn["events_per_job"] + 20})
Read = Counter[tuple[str, int, int]]  # lfn, run, lumi; or lfn, 0, event


@dataclass
class Ledger:
    """The tables in miniature: the rules are those of `services/ledger.py`, the decisions the real ones."""

    files: dict[str, FileSpec]
    by_events: bool
    state: dict[str, FileState] = field(default_factory=dict)
    attempts: Counter[str] = field(default_factory=Counter)
    read: Read = field(default_factory=Counter)

    def to_plan(self, state: FileState) -> list[FileSpec]:
        return [f for f in self.files.values() if self.state.get(f.lfn, FileState.FRESH) == state]

    def run(self, plan: Plan, collected: set[int]) -> None:
        """Run a round: these groups finish, the others fail permanently."""
        reading = read_plan(plan, by_events=self.by_events)
        for group in plan.groups:
            if group.index in collected:
                for job in group.jobs:
                    for window in job.files:
                        part = part_read(window, job, by_events=self.by_events)
                        self.read.update(singles(window.file.lfn, part))
        for lfn, first, last in reading.spans:
            self.attempts[lfn] += 1
            spanned = set(range(first, last + 1))
            if lfn not in reading.unfinished and spanned <= collected:
                self.state[lfn] = FileState.PROCESSED
            elif first == last and lfn not in reading.unfinished:
                self.state[lfn] = FileState.ATTEMPTED
            else:
                self._settle(
                    lfn, [(own[lfn], i in collected) for i, own in reading.parts.items() if lfn in own]
                )

    def _settle(self, lfn: str, parts: list[tuple[Ranges, bool]]) -> None:
        left = left_of(self.files[lfn], by_events=self.by_events)
        self.state[lfn], covered = settle_file(left, parts)
        self.attempts[lfn] -= self.state[lfn] == FileState.FRESH
        self.files[lfn] = narrowed(self.files[lfn], subtract(left, covered), by_events=self.by_events)


def singles(lfn: str, ranges: Ranges) -> Read:
    return Counter((lfn, run, one) for run, first, last in ranges for one in range(first, last + 1))


def wanted_of(inputs: list[FileSpec], given_params: dict[str, Any], *, by_events: bool) -> Read:
    selection = Selection.of(given_params)
    wanted: Read = Counter()
    for one in inputs:
        chosen = selection.wanted(normalised(one.lumis))
        if by_events:
            chosen = every_event(one.events) if chosen or selection.everything else ()
        wanted += singles(one.lfn, chosen)
    return wanted


def selected(inputs: list[FileSpec], given_params: dict[str, Any]) -> list[FileSpec]:
    """Return the files as the ledger does, with the selected part of each."""
    selection = Selection.of(given_params)
    if selection.everything:
        return inputs
    return [replace(one, mask=selection.wanted(normalised(one.lumis))) for one in inputs]


def rounds(ledger: Ledger, small: PlanSpec, limit: int | None, chance: random.Random) -> int:
    """Run rounds until no work is left; fewer groups fail in later rounds."""
    done = 0
    while True:
        for state in (FileState.FRESH, FileState.ATTEMPTED):
            plan = build_plan(spec=small, files=ledger.to_plan(state), estimate=HINTS, limit_groups=limit)
            if plan.groups:
                break
        else:
            return done
        done += 1
        kept = {group.index for group in plan.groups if chance.random() < done / 4}
        ledger.run(plan, kept)
        assert done < 1000


algos = st.sampled_from(list(SplittingAlgo))
limits = st.sampled_from([None, 1, 2])


@given(files, params, algos, limits, st.integers(1, 3), st.randoms(use_true_random=False))
def test_all_selected_input_is_read_once_over_rounds_in_which_groups_fail(
    inputs: list[FileSpec],
    given_params: dict[str, Any],
    algo: SplittingAlgo,
    limit: int | None,
    jobs_per_group: int,
    chance: random.Random,
) -> None:
    by_events = cuts_by_events(algo)
    ledger = Ledger({one.lfn: one for one in selected(inputs, given_params)}, by_events)
    small = replace(spec(algo, **given_params), jobs_per_group=jobs_per_group)
    rounds(ledger, small, limit, chance)
    assert ledger.read == wanted_of(inputs, given_params, by_events=by_events)


@given(files, params, algos, limits, st.integers(1, 40), st.randoms(use_true_random=False))
def test_an_early_stop_is_exact_over_any_rounds(
    inputs: list[FileSpec],
    given_params: dict[str, Any],
    algo: SplittingAlgo,
    limit: int | None,
    total: int,
    chance: random.Random,
) -> None:
    by_events = cuts_by_events(algo)
    totals = {"total_files": total % 4 + 1, "total_lumis": total, "total_events": 5 * total}
    asked = replace(spec(algo, **given_params | totals), jobs_per_group=2)
    offered = selected(inputs, given_params)
    ledger = Ledger({one.lfn: one for one in narrow(asked, offered)}, by_events)
    rounds(ledger, without_early_stop(asked), limit, chance)
    at_once = Ledger({one.lfn: one for one in offered}, by_events)
    plan = build_plan(spec=asked, files=offered, estimate=HINTS)
    at_once.run(plan, {group.index for group in plan.groups})
    assert ledger.read == at_once.read
    if algo == SplittingAlgo.LUMI_BASED and not given_params["apply_lumi_correction"]:
        wanted = wanted_of(inputs, given_params, by_events=False)
        assert ledger.read.total() == min(total, wanted.total())
    if algo == SplittingAlgo.EVENT_BASED:
        wanted = wanted_of(inputs, given_params, by_events=True)
        assert ledger.read.total() == min(5 * total, wanted.total())


def lumi_file(number: int, lumis: int) -> FileSpec:
    first = number * lumis + 1
    return replace(file(number, events=10 * lumis), lumis=((1, first, first + lumis - 1),))


def lumi_plan(inputs: list[FileSpec], limit: int | None = None) -> Plan:
    small = replace(spec(SplittingAlgo.LUMI_BASED, lumis_per_job=3), jobs_per_group=2)
    return build_plan(spec=small, files=inputs, estimate=HINTS, limit_groups=limit)


def test_lumi_based_jobs_that_cross_files_still_make_many_groups() -> None:
    plan = lumi_plan([lumi_file(number, 10) for number in range(12)])
    assert [len(group.jobs) for group in plan.groups] == [2] * 20


def test_only_the_failed_part_of_a_file_is_planned_again() -> None:
    inputs = [lumi_file(0, 12)]
    ledger = Ledger({one.lfn: one for one in inputs}, by_events=False)
    plan = lumi_plan(inputs)
    assert [group.index for group in plan.groups] == [0, 1]
    ledger.run(plan, {1})
    (again,) = ledger.to_plan(FileState.ATTEMPTED)
    assert (again.mask, ledger.state[again.lfn], ledger.attempts[again.lfn]) == (
        ((1, 1, 6),),
        FileState.ATTEMPTED,
        1,
    )
    assert [job.mask for group in lumi_plan([again]).groups for job in group.jobs] == [
        ((1, 1, 3),),
        ((1, 4, 6),),
    ]


def test_a_round_that_ends_within_a_file_is_no_attempt_at_the_rest() -> None:
    inputs = [lumi_file(0, 100)]
    ledger = Ledger({one.lfn: one for one in inputs}, by_events=False)
    ledger.run(lumi_plan(inputs, limit=1), {0})
    (again,) = ledger.to_plan(FileState.FRESH)
    assert (again.mask, ledger.state[again.lfn], ledger.attempts[again.lfn]) == (
        ((1, 7, 100),),
        FileState.FRESH,
        0,
    )


@pytest.mark.parametrize(
    ("parts", "state", "covered"),
    [
        ([(((1, 1, 9),), True)], FileState.PROCESSED, 9),
        ([(((1, 1, 4),), True), (((1, 5, 9),), True)], FileState.PROCESSED, 9),
        ([(((1, 1, 4),), True), (((1, 5, 9),), False)], FileState.ATTEMPTED, 4),
        ([(((1, 1, 4),), True)], FileState.FRESH, 4),
        ([(((1, 1, 9),), False)], FileState.ATTEMPTED, 0),
    ],
)
def test_a_file_is_settled_by_its_parts(
    parts: list[tuple[Ranges, bool]], state: FileState, covered: int
) -> None:
    settled, read = settle_file(((1, 1, 9),), parts)
    assert (settled, count(read)) == (state, covered)


def test_an_account_counts_requested_selected_and_remaining_input() -> None:
    account = account_of(
        lumis=((1, 1, 20),),
        events=100,
        wanted=((1, 1, 10),),
        done=((1, 1, 4),),
        selection=Selection.of({"lumi_mask": {"1": [[1, 15]]}}),
        by_events=False,
    )
    assert (count(account.asked), count(account.wanted), account.left) == (15, 10, ((1, 5, 10),))


def test_the_early_stop_is_the_algorithms_own() -> None:
    assert early_stop(SplittingAlgo.LUMI_BASED, {"total_lumis": 3, "total_events": 7}) == "total_lumis"
    assert early_stop(SplittingAlgo.FILE_BASED, {"total_lumis": 3, "total_files": 0}) == ""
