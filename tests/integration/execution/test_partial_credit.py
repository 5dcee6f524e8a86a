"""Files that several groups read: credited by ranges, and only the rest is planned again."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from dags_app.models import DAG, InputFile, MergeGroup, Workflow
from dags_app.planning.types import SitePool
from dags_app.selectors import InputLedger, ledger_of
from dags_app.services import ledger, production
from dags_app.services.estimating import asked_spec
from dags_app.services.pilot import decide_pilot
from dags_app.states import DAGKind, DAGStatus, FileState, GroupStatus, RoundKind
from tests.integration.factories import make_file, make_group, make_request, make_round, make_workflow

pytestmark = pytest.mark.django_db
SITES = SitePool(names=frozenset({"T1_US_FNAL"}), by_storage={"T1_US_FNAL_Disk": frozenset({"T1_US_FNAL"})})
Read = Counter[tuple[str, int, int]]


@pytest.fixture(autouse=True)
def _submit_root(settings: Any, tmp_path: Path) -> None:
    settings.SUBMIT_ROOT = str(tmp_path / "dags")


def lumi_workflow(*, files: int = 3, lumis: int = 10, **values: Any) -> Workflow:
    """Return files of ten lumis of ten events each; jobs of three lumis, two jobs to a group."""
    defaults = {
        "splitting_algo": "LumiBased",
        "splitting_params": {"lumis_per_job": 3},
        "jobs_per_group": 2,
    }
    workflow = make_workflow(**(defaults | values))
    for number in range(files):
        make_file(
            workflow,
            lfn=f"/store/data/Run2031A/{number}.root",
            events=10 * lumis,
            lumis=[[1, number * lumis + 1, (number + 1) * lumis]],
            locations=["T1_US_FNAL_Disk"],
        )
    return workflow


def plan(workflow: Workflow) -> DAG:
    decided = production.decide_plan(workflow=workflow, sites=SITES)
    return production.write_round(workflow=workflow, plan=decided, kind=RoundKind.PRODUCTION, priority=0)


def collect(dag: DAG, *indexes: int) -> None:
    """Record the groups in the tables, as `record_group` does."""
    for group in dag.round.groups.filter(index__in=indexes):
        group.status, group.events_read = GroupStatus.COLLECTED, group.input_events
        group.save()
        ledger.credit_group(group=group)


def finish(dag: DAG) -> None:
    dag.round.groups.exclude(status=GroupStatus.COLLECTED).update(status=GroupStatus.FAILED)
    DAG.objects.filter(pk=dag.pk).update(status=DAGStatus.PARTIAL, completed_at=timezone.now())
    production.resolve_round(round_=dag.round, now=timezone.now())


def read_by(dag: DAG) -> Read:
    """Return the lumis that jobs of the collected groups read, by their manifests; events are run 0."""
    read: Read = Counter()
    for group in dag.round.groups.filter(status=GroupStatus.COLLECTED):
        manifest = json.loads((Path(dag.submit_dir) / group.name / "jobs.json").read_text())
        for job in manifest["jobs"].values():
            for file in job["files"]:
                mask = job["mask"] if file["mask"] is None else file["mask"]
                ranges = {"0": [[file["first_event"], file["last_event"]]]} if mask is None else mask
                own = InputFile.objects.get(workflow=dag.workflow, lfn=file["lfn"])
                for run, parts in ranges.items():
                    for first, last in parts:
                        read.update(
                            (file["lfn"], int(run), one)
                            for one in range(first, last + 1)
                            if run == "0" or any(low <= one <= high for _, low, high in own.lumis)
                        )
    return read


def test_a_lumi_based_dataset_has_groups_that_cut_files() -> None:
    workflow = lumi_workflow()
    dag = plan(workflow)
    spans = list(workflow.input_files.order_by("lfn").values_list("first_group", "last_group"))
    assert (dag.round.groups.count(), spans) == (5, [(0, 1), (1, 3), (3, 4)])
    group = dag.round.groups.get(index=1)
    assert group.parts == {
        "/store/data/Run2031A/0.root": [[1, 7, 10]],
        "/store/data/Run2031A/1.root": [[1, 11, 12]],
    }


def test_a_file_waits_for_its_readers_only() -> None:
    workflow = lumi_workflow(files=1)
    round_ = make_round(workflow)
    shared = {"/store/data/Run2031A/0.root": [[1, 1, 5]]}
    groups = [make_group(round_, parts=parts) for parts in (shared, {}, shared)]
    workflow.input_files.update(round=round_, first_group=0, last_group=2, state=FileState.ASSIGNED)
    for group, state in zip(groups[::2], (FileState.ASSIGNED, FileState.PROCESSED), strict=True):
        group.status = GroupStatus.COLLECTED
        group.save()
        ledger.credit_group(group=group)
        assert workflow.input_files.get().state == state


def test_crediting_a_group_looks_at_its_own_files_only() -> None:
    workflow, per_group, groups = make_workflow(), 8, 500
    round_ = make_round(workflow)
    MergeGroup.objects.bulk_create(
        MergeGroup(round=round_, index=index, jobs=1, parts={lfn(index): [], lfn(index + 1): []})
        for index in range(groups)
    )
    InputFile.objects.bulk_create(
        InputFile(
            workflow=workflow, lfn=lfn(number / per_group), size_bytes=1, events=1, round=round_,
            first_group=max(number // per_group - (number % per_group == 0), 0),
            last_group=number // per_group, state=FileState.ASSIGNED,
        )
        for number in range(groups * per_group)
    )  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE dags_app_inputfile, dags_app_mergegroup")
    with CaptureQueriesContext(connection) as seen:
        ledger.credit_group(group=MergeGroup.objects.get(round=round_, index=groups // 2))
    (update,) = (one["sql"] for one in seen if one["sql"].strip().startswith("UPDATE dags_app_inputfile"))
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {update}")
        (explained,) = cursor.fetchone() or ()
    assert rows_seen(explained[0]["Plan"]) < 10 * per_group


def lfn(place: float) -> str:
    """Return the name of a file; the first file of a group is also the last of the group before."""
    return f"/store/data/Run2031A/{place:09.3f}.root"


def rows_seen(node: dict[str, Any]) -> float:
    """Return the number of rows that all scans of the query plan read, including filtered ones."""
    removed = sum(count for name, count in node.items() if name.startswith("Rows Removed"))
    own = (node["Actual Rows"] + removed) * node["Actual Loops"] if "Scan" in node["Node Type"] else 0
    return float(own + sum(rows_seen(part) for part in node.get("Plans", [])))


def test_a_file_is_processed_when_all_its_groups_are_collected() -> None:
    workflow = lumi_workflow()
    dag = plan(workflow)
    collect(dag, 0)
    assert not workflow.input_files.filter(state=FileState.PROCESSED).exists()
    collect(dag, 1)
    assert workflow.input_files.get(state=FileState.PROCESSED).lfn.endswith("0.root")


def test_only_failed_input_is_read_again() -> None:
    workflow = lumi_workflow()
    first = plan(workflow)
    collect(first, 0, 1, 4)
    finish(first)
    rows = {row.lfn[-6:]: row for row in workflow.input_files.all()}
    assert [rows[name].state for name in sorted(rows)] == ["processed", "attempted", "attempted"]
    assert (rows["1.root"].done, rows["1.root"].attempts) == ([[1, 11, 12]], 1)
    second = plan(workflow)
    collect(second, *second.round.groups.values_list("index", flat=True))
    finish(second)
    assert set(workflow.input_files.values_list("state", flat=True)) == {FileState.PROCESSED}
    read = read_by(first) + read_by(second)
    assert set(read.values()) == {1}
    assert len(read) == 30
    assert ledger.work_left(workflow=workflow) == ""


def test_a_rescued_group_is_credited_as_if_it_had_never_failed() -> None:
    workflow = lumi_workflow()
    dag = plan(workflow)
    collect(dag, 0, 2, 3, 4)
    MergeGroup.objects.filter(round=dag.round, index=1).update(status=GroupStatus.FAILED)
    DAG.objects.filter(pk=dag.pk).update(status=DAGStatus.PARTIAL, completed_at=timezone.now())
    dag.refresh_from_db()
    production.prepare_dag(parent=dag, kind=DAGKind.RESCUE)
    collect(dag, 1)
    finish(dag)
    assert list(workflow.input_files.values_list("state", "attempts")) == [(FileState.PROCESSED, 1)] * 3


@pytest.mark.parametrize("algo", ["LumiBased", "EventAwareLumiBased", "EventBased"])
def test_adaptive_rounds_that_end_within_files_read_everything_once(algo: str, settings: Any) -> None:
    settings.FIRST_ROUND_GROUPS, settings.GROUPS_PER_ROUND = 1, 2
    params = {"lumis_per_job": 3, "events_per_job": 30}
    workflow = lumi_workflow(files=2, splitting_algo=algo, splitting_params=params, adaptive=True)
    read: Read = Counter()
    for _ in range(10):
        if not ledger.work_left(workflow=workflow):
            break
        dag = plan(workflow)
        collect(dag, *dag.round.groups.values_list("index", flat=True))
        finish(dag)
        read += read_by(dag)
    assert (len(read), set(read.values())) == (200 if algo == "EventBased" else 20, {1})
    assert set(workflow.input_files.values_list("state", "attempts")) == {(FileState.PROCESSED, 1)}


def test_a_large_file_cut_by_events_is_credited_by_events() -> None:
    params = {"events_per_job": 10}
    workflow = lumi_workflow(files=1, splitting_algo="EventBased", splitting_params=params)
    first = plan(workflow)
    collect(first, 0, 2, 4)
    finish(first)
    row = workflow.input_files.get()
    assert (row.state, row.done) == ("attempted", [[0, 0, 19], [0, 40, 59], [0, 80, 99]])
    second = plan(workflow)
    collect(second, 0, 1)
    finish(second)
    read = read_by(first) + read_by(second)
    assert (len(read), set(read.values())) == (100, {1})
    assert workflow.input_files.get().state == FileState.PROCESSED


def test_lumis_in_two_files_are_credited_for_each() -> None:
    workflow = lumi_workflow(files=0)
    for name in ("a", "b"):
        make_file(workflow, lfn=f"/store/{name}.root", lumis=[[1, 1, 12]], locations=["T1_US_FNAL_Disk"])
    first = plan(workflow)
    collect(first, 1, 2)
    finish(first)
    second = plan(workflow)
    collect(second, *second.round.groups.values_list("index", flat=True))
    finish(second)
    read = read_by(first) + read_by(second)
    assert (len(read), set(read.values())) == (24, {1})


@pytest.mark.parametrize(
    ("algo", "stop", "read", "states"),
    [
        ("LumiBased", {"total_lumis": 13}, 13, ["assigned", "assigned", "excluded"]),
        ("EventAwareLumiBased", {"total_events": 130}, 13, ["assigned", "assigned", "excluded"]),
        ("EventBased", {"total_events": 130}, 130, ["assigned", "assigned", "excluded"]),
    ],
)
@pytest.mark.parametrize("way", ["at once", "adaptive", "pilot"])
def test_an_early_stop_is_exact(
    algo: str, stop: dict[str, int], read: int, states: list[str], way: str, settings: Any
) -> None:
    settings.FIRST_ROUND_GROUPS, settings.GROUPS_PER_ROUND = 1, 1
    params = {"lumis_per_job": 3, "events_per_job": 30} | stop
    workflow = lumi_workflow(splitting_algo=algo, splitting_params=params, adaptive=way == "adaptive")
    ledger.stop_early(workflow=workflow, spec=asked_spec(workflow), sites=SITES)
    seen: Read = Counter()
    if way == "pilot":
        decided = decide_pilot(workflow=workflow, sites=SITES)
        dag = production.write_round(workflow=workflow, plan=decided, kind=RoundKind.PILOT, priority=0)
        collect(dag, 0)
        finish(dag)
        seen += read_by(dag)
    for number in range(12):
        if not ledger.work_left(workflow=workflow):
            break
        dag = plan(workflow)
        if number == 0:  # one round of them fails
            if way == "at once":
                assert sorted(workflow.input_files.values_list("state", flat=True)) == states
            finish(dag)
            continue
        collect(dag, *dag.round.groups.values_list("index", flat=True))
        finish(dag)
        seen += read_by(dag)
    assert (seen.total(), set(seen.values())) == (read, {1})
    beyond = workflow.input_files.get(state=FileState.EXCLUDED)
    assert beyond.excluded_reason == f"beyond {next(iter(stop))}"


ALGORITHMS = {
    "FileBased": {"files_per_job": 2},
    "LumiBased": {"lumis_per_job": 3},
    "EventAwareLumiBased": {"events_per_job": 300},
    "EventBased": {"events_per_job": 300},
}


@pytest.mark.parametrize("algo", ALGORITHMS)
@pytest.mark.parametrize("runs", [1, 2])
def test_a_pilot_reads_no_more_than_it_measures_and_production_the_rest(
    algo: str, runs: int, settings: Any
) -> None:
    settings.PILOT_INITIAL_EVENTS = 10
    workflow = make_workflow(splitting_algo=algo, splitting_params=ALGORITHMS[algo])
    for number in range(3):  # of a hundred lumis of ten events each
        lumis = [[run, number * 100 + 1, number * 100 + 100 // runs] for run in range(1, runs + 1)]
        make_file(workflow, events=1000, lumis=lumis, locations=["T1_US_FNAL_Disk"])
    decided = decide_pilot(workflow=workflow, sites=SITES)
    assert (decided.jobs, decided.events) == (1, 150)
    dag = production.write_round(workflow=workflow, plan=decided, kind=RoundKind.PILOT, priority=0)
    collect(dag, 0)
    finish(dag)
    seen, unit = read_by(dag), 1 if algo == "EventBased" else 10
    assert seen.total() * unit == 150
    assert set(workflow.input_files.values_list("state", "attempts")) == {(FileState.FRESH, 0)}
    dag = plan(workflow)
    collect(dag, *dag.round.groups.values_list("index", flat=True))
    finish(dag)
    assert set(workflow.input_files.values_list("state", flat=True)) == {FileState.PROCESSED}
    (cut,) = {lfn for lfn, _, _ in seen}
    later = Counter({key: times for key, times in read_by(dag).items() if key[0] == cut})
    assert (later.total() * unit, (seen & later).total()) == (850, 0)


@pytest.mark.parametrize(
    ("algo", "values", "events"),
    [
        ("FileBased", {"lumis": []}, 1000),  # no lumis or events to split by
        ("LumiBased", {"lumis": [[1, 1, 1]]}, 1000),
        ("FileBased", {"lumis": [[1, 1, 2]], "events": 100}, 100),
        ("EventBased", {"lumis": []}, 150),
    ],
)
def test_a_pilot_takes_a_file_whole_where_it_cannot_be_cut(
    algo: str, values: dict[str, Any], events: int, settings: Any
) -> None:
    settings.PILOT_INITIAL_EVENTS = 10
    workflow = make_workflow(splitting_algo=algo)
    make_file(workflow, **({"events": 1000, "locations": ["T1_US_FNAL_Disk"]} | values))
    decided = decide_pilot(workflow=workflow, sites=SITES)
    assert (decided.jobs, decided.events) == (1, events)


def test_a_pilot_by_events_finds_what_a_mask_leaves(settings: Any) -> None:
    settings.PILOT_INITIAL_EVENTS = 10
    params = {"events_per_job": 100, "lumi_mask": {"1": [[90, 100]]}}
    workflow = make_workflow(splitting_algo="EventBased", splitting_params=params)
    make_file(workflow, events=1000, lumis=[[1, 1, 100]], locations=["T1_US_FNAL_Disk"])
    (group,) = decide_pilot(workflow=workflow, sites=SITES).groups
    assert [(w.first_event, w.last_event) for job in group.jobs for w in job.files] == [(0, 999)]


def test_the_ledger_lists_the_missing_parts_of_half_done_files(viewer: APIClient) -> None:
    workflow = lumi_workflow()
    request = make_request(workflow=workflow)
    dag = plan(workflow)
    collect(dag, 0, 1, 4)
    running = viewer.get(f"/api/v1/requests/{request.request_name}/ledger").json()
    finish(dag)
    ended = viewer.get(f"/api/v1/requests/{request.request_name}/ledger").json()
    for body in (running, ended):
        assert body["asked"] == {"files": 3, "events": 300}
        assert body["states"]["processed"] == {
            "files": 1,
            "events": 180,
            "lumis": {"1": [[1, 12], [25, 30]]},
        }
        assert body["missing"] == {"files": 2, "events": 120, "lumis": {"1": [[13, 24]]}}
        assert [one["missing"] for one in body["half_done_files"]] == [[[1, 13, 20]], [[1, 21, 24]]]
    assert (running["states"]["assigned"]["files"], ended["states"]["attempted"]["files"]) == (2, 2)


def test_the_ledger_lists_input_beyond_an_early_stop() -> None:
    workflow = lumi_workflow(splitting_params={"lumis_per_job": 3, "total_lumis": 13})
    ledger.stop_early(workflow=workflow, spec=asked_spec(workflow), sites=SITES)
    found = ledger_of(workflow=workflow)
    assert isinstance(found, InputLedger)
    assert (found.asked.files, found.asked.events) == (3, 300)
    assert found.missing.lumis == {"1": [[1, 13]]}
    assert found.states["excluded"].lumis == {"1": [[14, 30]]}
