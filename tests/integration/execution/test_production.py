"""Planning writes a complete directory, then its rows; a repetition changes nothing."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from dags_app.models import DAG, Round, Workflow
from dags_app.planning.types import SitePool
from dags_app.services import production
from dags_app.services.production import NothingToPlan, PlanRefused
from dags_app.states import DAGKind, DAGStatus, FileState
from tests.integration.factories import make_dag, make_round, make_workflow

pytestmark = pytest.mark.django_db
NOWHERE = SitePool(names=frozenset(), by_storage={})


def digests(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_a_round_is_on_disk_and_in_the_tables(workflow: Workflow, sites: SitePool) -> None:
    dag = production.plan_round(workflow=workflow, sites=sites, priority=5)
    directory = Path(dag.submit_dir)
    groups = sorted(path.name for path in directory.glob("mg_*"))
    assert groups == [group.name for group in dag.round.groups.order_by("index")]
    planned = [json.loads((directory / name / "jobs.json").read_text()) for name in groups]
    nodes = [node for manifest in planned for node in manifest["jobs"]]
    assert len(nodes) == len(set(nodes)) == dag.round.jobs == dag.node_counts["Processing"]
    assert set(workflow.input_files.values_list("state", flat=True)) == {FileState.ASSIGNED}


def test_planning_again_after_a_crash_gives_the_same_bytes(
    workflow: Workflow, sites: SitePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(production, "_record_round", crash)
        with pytest.raises(KeyboardInterrupt):
            production.plan_round(workflow=workflow, sites=sites, priority=5)
    assert not Round.objects.filter(workflow=workflow).exists()
    directory = next(path for path in Path(production.settings.SUBMIT_ROOT).iterdir() if path.is_dir())
    before = digests(directory)
    dag = production.plan_round(workflow=workflow, sites=sites, priority=5)
    assert Path(dag.submit_dir) == directory
    assert digests(directory) == before


def test_a_workflow_without_a_usable_site_is_refused_with_the_cure(workflow: Workflow) -> None:
    with pytest.raises(PlanRefused, match="Extend the site list"):
        production.plan_round(workflow=workflow, sites=NOWHERE, priority=0)


def test_files_no_usable_site_reads_are_named(workflow: Workflow) -> None:
    elsewhere = SitePool(names=frozenset({"T2_US_Purdue"}), by_storage={})
    with pytest.raises(PlanRefused, match=r"no usable site can read 8 files.*root"):
        production.plan_round(workflow=workflow, sites=elsewhere, priority=0)


def test_nothing_is_planned_twice(workflow: Workflow, sites: SitePool) -> None:
    production.plan_round(workflow=workflow, sites=sites, priority=0)
    with pytest.raises(NothingToPlan):
        production.plan_round(workflow=workflow, sites=sites, priority=0)


def test_a_workflow_has_at_most_one_running_dag() -> None:
    round_ = make_round(make_workflow())
    make_dag(round_, status=DAGStatus.RUNNING)
    with pytest.raises(IntegrityError, match="one_live_dag_per_workflow"), transaction.atomic():
        make_dag(round_, status=DAGStatus.READY)


def test_one_open_round_per_workflow() -> None:
    workflow = make_workflow()
    make_round(workflow)
    with pytest.raises(IntegrityError, match="one_open_round_per_workflow"), transaction.atomic():
        make_round(workflow)


def test_event_ranges_of_one_workflow_never_overlap() -> None:
    workflow = make_workflow(input_dataset=None, total_events=1000)
    first = make_round(workflow, first_event=1, last_event=500)
    production.resolve_round(round_=first, now=timezone.now())
    with pytest.raises(IntegrityError, match="already taken"), transaction.atomic():
        make_round(workflow, first_event=500, last_event=600)
    assert make_round(workflow, first_event=501, last_event=600).pk


def test_generated_rounds_move_the_offsets_forward(sites: SitePool) -> None:
    workflow = make_workflow(
        input_dataset=None,
        total_events=1000,
        splitting_algo="EventBased",
        splitting_params={"events_per_job": 100},
    )
    dag = production.plan_round(workflow=workflow, sites=sites, priority=0)
    workflow.refresh_from_db()
    assert (dag.round.first_event, dag.round.last_event) == (1, 1000)
    assert (workflow.next_first_event, workflow.next_first_lumi) == (1001, 11)


def test_a_rescue_is_prepared_once_and_in_the_same_directory() -> None:
    ended = make_dag(make_round(make_workflow()), status=DAGStatus.PARTIAL, completed_at=timezone.now())
    rescue = production.prepare_dag(parent=ended, kind=DAGKind.RESCUE)
    assert production.prepare_dag(parent=ended, kind=DAGKind.RESCUE).pk == rescue.pk
    assert (rescue.submit_dir, rescue.parent_id) == (ended.submit_dir, ended.pk)
    assert DAG.objects.filter(parent=ended).count() == 1


def test_files_beyond_an_early_stop_are_excluded_and_not_planned_later(
    workflow: Workflow, sites: SitePool
) -> None:
    workflow.splitting_algo = "FileBased"
    workflow.splitting_params = {"files_per_job": 1, "total_files": 3}
    dag = production.plan_round(workflow=workflow, sites=sites, priority=0)
    states = sorted(workflow.input_files.values_list("state", flat=True))
    assert (dag.round.jobs, states) == (3, ["assigned"] * 3 + ["excluded"] * 5)
    assert workflow.input_files.filter(state="excluded").first().excluded_reason == "beyond total_files"
