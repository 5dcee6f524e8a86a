"""The inputs of benchmarks have the declared sizes and properties."""

from __future__ import annotations

from pathlib import Path

from benchmarks import dataset
from benchmarks.dagfiles import NODES_AROUND_JOBS, dag_layout, status_text
from benchmarks.planning import ESTIMATE, algorithm, ledger_rows, parameters, plan_spec
from condor.dagfile import dag_entries
from condor.statusfile import read_status
from condor.types import NodeState
from dags_app.planning.plan import build_plan

FILES = 600


def test_every_file_has_its_lumis_and_no_lumi_is_in_two_files() -> None:
    lumis = [lumi for number in range(FILES) for lumi in dataset.lumis_of(number)]

    assert len(lumis) == FILES * dataset.LUMIS_PER_FILE
    assert len(set(lumis)) == len(lumis)


def test_the_mask_refuses_some_lumis_of_every_run_and_takes_most() -> None:
    mask = dataset.mask_of(FILES)
    good = {(int(run), lumi) for run, ranges in mask.items() for a, b in ranges for lumi in range(a, b + 1)}
    lumis = {lumi for number in range(FILES) for lumi in dataset.lumis_of(number)}

    for run in {run for run, _ in lumis}:
        own = {lumi for lumi in lumis if lumi[0] == run}
        assert 0.9 * len(own) < len(own & good) < len(own)


def test_the_plan_covers_every_selected_lumi_once() -> None:
    params = parameters(FILES)
    spec = plan_spec(algorithm(), params)

    plan = build_plan(spec=spec, files=ledger_rows(FILES), estimate=ESTIMATE)

    planned = [
        (run, lumi)
        for group in plan.groups
        for job in group.jobs
        for run, first, last in job.mask or ()
        for lumi in range(first, last + 1)
    ]
    lumis = {lumi for number in range(FILES) for lumi in dataset.lumis_of(number)}
    good = {
        (int(run), lumi)
        for run, ranges in params["lumi_mask"].items()
        for first, last in ranges
        for lumi in range(first, last + 1)
    }
    assert len(planned) == len(set(planned))
    assert lumis & good <= set(planned) <= good


def test_the_layout_has_the_requested_number_of_nodes() -> None:
    layout = dag_layout(2000, per_group=100)

    groups = [entry for entry in dag_entries(layout) if entry.path.endswith("group.dag")]
    nodes = sum((entry.content or b"").count(b"\nJOB ") for entry in groups)

    assert (len(groups), nodes) == (20, 2000)
    assert NODES_AROUND_JOBS == 3


def test_the_status_file_reads_as_one_of_dagmans(tmp_path: Path) -> None:
    path = tmp_path / "workflow.dag.status"
    path.write_text(status_text(100, done=40))

    reading = read_status(path)

    assert reading is not None
    states = list(reading.status.nodes.values())
    assert (reading.status.nodes_done, len(states), states.count(NodeState.DONE)) == (40, 100, 40)
