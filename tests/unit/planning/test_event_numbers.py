"""Monte Carlo beyond the end of the event numbers: they start over, positions and lumis continue."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags_app.planning.plan import build_generation_plan
from dags_app.planning.splitters.event_based import LAST_EVENT_NUMBER, LAST_LUMI
from dags_app.planning.types import EventBudget, Generation, Plan
from dags_app.states import SplittingAlgo
from lab.toy.payload import generated_events
from sandbox.manifest import Generate
from tests.unit.planning.factories import HINTS, spec
from wms2_project.errors import InvalidInput

SITES = frozenset({"T1_US_FNAL"})


def generation(budget: EventBudget, *, mode: str, per_job: int, per_lumi: int) -> Plan:
    params = {"events_per_job": per_job, "events_per_lumi": per_lumi, "lumi_mode": mode}
    small = replace(spec(SplittingAlgo.EVENT_BASED, **params), jobs_per_group=3)
    return build_generation_plan(spec=small, budget=budget, sites=SITES, estimate=HINTS)


def made(plan: Plan) -> list[Generation]:
    return [job.generate for group in plan.groups for job in group.jobs if job.generate]


def on_the_worker(one: Generation) -> Generate:
    start = one.first_event if one.numbering_from is None else one.numbering_from
    return Generate(one.first_event, one.last_event, one.first_lumi, one.events_per_lumi, one.run, start)


@given(
    st.integers(-60, 60),
    st.integers(0, 3),
    st.lists(st.integers(1, 60), min_size=1, max_size=4),
    st.integers(1, 25),
    st.integers(1, 12),
    st.sampled_from(["per_job", "per_group"]),
)
def test_no_event_is_made_twice_over_rounds_across_the_end_of_the_numbers(
    offset: int, epoch: int, rounds: list[int], per_job: int, per_lumi: int, mode: str
) -> None:
    first = max(1, epoch * 2**32 + offset)
    lumi = 1
    seen: Counter[tuple[int, int, int]] = Counter()
    positions: list[int] = []
    for events in rounds:
        plan = generation(EventBudget(first, lumi, events), mode=mode, per_job=per_job, per_lumi=per_lumi)
        for one in made(plan):
            assert 1 <= one.first_event <= one.last_event <= LAST_EVENT_NUMBER
            count = one.last_event - one.first_event + 1
            positions.extend(range(one.position, one.position + count))
            found = list(generated_events(on_the_worker(one)))
            seen.update(event[:3] for event in found)
            assert {event.lumi for event in found} <= set(range(one.first_lumi, one.last_lumi + 1))
        assert plan.next_first_event is not None
        assert plan.next_first_lumi is not None
        assert plan.next_first_event > positions[-1]
        first, lumi = plan.next_first_event, plan.next_first_lumi
    assert seen.total() == len(seen) == sum(rounds)
    assert positions == sorted(set(positions))


def test_the_numbers_go_on_where_the_round_before_left_them() -> None:
    before = generation(EventBudget(2**32 - 5, 1, 20), mode="per_job", per_job=10, per_lumi=10)
    assert [(one.first_event, one.position) for one in made(before)] == [(1, 2**32 + 1), (11, 2**32 + 11)]
    assert before.next_first_event == 2**32 + 21
    after = generation(EventBudget(2**32 + 21, 3, 10), mode="per_job", per_job=10, per_lumi=10)
    assert [(one.first_event, one.first_lumi) for one in made(after)] == [(21, 3)]


def test_lumis_do_not_start_over() -> None:
    with pytest.raises(InvalidInput, match="events_per_lumi is 1"):
        generation(EventBudget(1, LAST_LUMI, 2), mode="per_job", per_job=1, per_lumi=1)
