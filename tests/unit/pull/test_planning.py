"""The plan of a pull round: batches of at most 1,000 runners."""

from __future__ import annotations

import pytest

from dags_app.planning.types import Estimate
from dags_app.pull.planning import build_pull_plan

SITES = frozenset({"T2_CH_CERN", "T1_US_FNAL"})


@pytest.mark.parametrize(
    ("runners", "batches"),
    [(1, [1]), (999, [999]), (1000, [1000]), (1001, [1000, 1]), (2500, [1000, 1000, 500])],
)
def test_runners_are_planned_in_batches(runners: int, batches: list[int]) -> None:
    plan = build_pull_plan(runners=runners, sites=SITES, estimate=Estimate(1.0, 2000, 1.0, "hints"))

    assert [len(group.jobs) for group in plan.groups] == batches
    assert [group.first_job for group in plan.groups] == [1000 * index for index in range(len(batches))]
    assert {job.sites for group in plan.groups for job in group.jobs} == {SITES}
    assert not [job for group in plan.groups for job in group.jobs if job.files]
