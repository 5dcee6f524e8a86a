"""Correct reports of all planned jobs are accepted, with and without a filter."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from dags_app.planning.layout import build_manifest
from dags_app.planning.plan import build_generation_plan, build_plan
from dags_app.planning.types import EventBudget, FileSpec, Plan, PlanSpec
from dags_app.states import SplittingAlgo as Algo
from sandbox.manifest import read_group_manifest
from tests.job_world import RUN, SITE
from tests.unit.planning.factories import HINTS, spec
from tests.unit.planning.test_layout import LAYOUT

if TYPE_CHECKING:
    from tests.job_world import World

PLANS: dict[str, tuple[Algo, dict[str, Any]]] = {
    "whole files": (Algo.FILE_BASED, {"files_per_job": 2}),
    "events": (Algo.EVENT_BASED, {"events_per_job": 17}),
    "lumis": (Algo.LUMI_BASED, {"lumis_per_job": 3}),
    "lumis by events": (Algo.EVENT_AWARE_LUMI_BASED, {"events_per_job": 25}),
    "some runs": (Algo.FILE_BASED, {"files_per_job": 2, "run_whitelist": [RUN]}),
    "generated": (Algo.EVENT_BASED, {"events_per_job": 15, "events_per_lumi": 4}),
    "generated, lumis by group": (
        Algo.EVENT_BASED,
        {"events_per_job": 15, "events_per_lumi": 4, "lumi_mode": "per_group"},
    ),
}


def plan_of(world: World, planned: PlanSpec, *, generated: bool) -> Plan:
    if generated:
        budget = EventBudget(first_event=101, first_lumi=11, events=50)
        return build_generation_plan(spec=planned, budget=budget, sites=frozenset({SITE}), estimate=HINTS)
    files = []
    for number in range(4):
        made = world.add_file(f"f{number}", 40, first=1 + 40 * number)
        lumis = ((RUN, 1 + 4 * number, 4 + 4 * number),)
        facts = (made["lfn"], 40, made["size_bytes"], frozenset({SITE}), made["adler32"], lumis)
        files.append(FileSpec(*facts))
    return build_plan(spec=planned, files=files, estimate=HINTS)


@pytest.mark.parametrize("efficiency", [1, 0.3])
@pytest.mark.parametrize("name", PLANS)
def test_correct_reports_of_planned_jobs_are_accepted(world: World, name: str, efficiency: float) -> None:
    algo, params = PLANS[name]
    planned = spec(algo, **params)
    plan = plan_of(world, planned, generated=name.startswith("generated"))
    world.payload = {"toy": {"filter_efficiency": efficiency}}
    group = plan.groups[0]
    document = build_manifest(group, planned, LAYOUT, cores=1)
    world.jobs = document["jobs"]
    world.plan()
    document |= {"storage": f"{world.root}/storage/{{site}}", "group": world.group.name}
    (world.group / "jobs.json").write_text(json.dumps(document))

    for node in [*world.jobs, "merge", "cleanup"]:
        assert world.post(node, world.run(node)) == 0, world.record(node)["classification"]["reason"]
    manifest = read_group_manifest(world.group / "merge_output.json")
    assert manifest.events_read == sum(job.events for job in group.jobs)
    if not name.startswith("generated") and name in ("whole files", "events"):
        assert document["lumis"], "the plan knows the lumis of its files"
