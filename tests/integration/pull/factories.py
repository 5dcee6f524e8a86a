"""Rows of pull workflows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any
from uuid import uuid4

from dags_app.models import InputFile, MergeGroup, Round, Runner, Workflow
from dags_app.pull.allocation import Asked, LentFile, lend_files
from dags_app.pull.distances import Geography, rank_sources
from dags_app.pull.places import sync_places
from dags_app.states import RoundKind
from tests.integration.factories import make_dag, make_group, make_round, make_workflow

CERN, FNAL = "T2_CH_CERN", "T1_US_FNAL"
GEOGRAPHY = Geography(
    {CERN: frozenset({CERN}), FNAL: frozenset({FNAL}), "T2_CH_CSCS": frozenset({"T2_CH_CSCS"})}
)
_numbers = count(1)


def make_pull_workflow(*, places: Sequence[Sequence[str]] = (), **values: Any) -> Workflow:
    """Create a pull workflow with an open round, a running DAG, a group, and a file at each place."""
    workflow = make_workflow(allocation="pull", **values)
    round_ = make_round(workflow, kind=RoundKind.PULL)
    make_dag(round_)
    make_group(round_)
    add_files(workflow, places)
    return workflow


def add_files(workflow: Workflow, places: Sequence[Sequence[str]], **values: Any) -> list[InputFile]:
    """Create files of the workflow, one at each of these places."""
    rows = [
        InputFile(
            workflow=workflow,
            lfn=f"/store/data/Run2031A/pull/{next(_numbers):06d}.root",
            size_bytes=1000,
            events=10,
            adler32="0000abcd",
            lumis=[[1, 1, 1]],
            locations=sorted(one),
            **values,
        )
        for one in places
    ]
    made = InputFile.objects.bulk_create(rows)
    sync_places(workflow=workflow)
    return made


def open_round(workflow: Workflow) -> Round:
    return workflow.rounds.latest("number")


def only_group(workflow: Workflow) -> MergeGroup:
    return open_round(workflow).groups.get()


def make_runner(workflow: Workflow, *, site: str = CERN, **values: Any) -> Runner:
    """Create a running runner of the workflow's last round."""
    number = next(_numbers)
    defaults: dict[str, Any] = {
        "workflow": workflow,
        "round": open_round(workflow),
        "group": only_group(workflow),
        "node": f"proc_{number:06d}",
        "attempt": 0,
        "instance": uuid4(),
        "htcondor_id": f"{number}.0",
        "site": site,
        "seconds_left": 3600,
    }
    runner = Runner.objects.create(**(defaults | values))
    runner.refresh_from_db()
    return runner


def lend(
    runner: Runner, count: int = 1, *, max_distance: int = 0, avoided: Sequence[str] = ()
) -> list[LentFile]:
    """Lend files to the runner as the allocator does."""
    sets = runner.workflow.place_sets.values_list("pk", "storages")
    sources = rank_sources(site=runner.site, sets=sets, geography=GEOGRAPHY, max_distance=max_distance)
    asked = Asked(runner.workflow_id, runner.round_id, runner.pk, uuid4(), count, sources, avoided)
    lent = lend_files(asked)
    assert lent is not None
    return lent
