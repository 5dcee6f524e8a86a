"""Files that no usable site can read wait by name until a replica appears; the others are planned."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from condor.fake import FakeSchedd
from dags_app.adapters import rucio
from dags_app.failures.repair import decide_repairs
from dags_app.models import DAG, BadReplica, InputFile, Workflow
from dags_app.planning.types import SitePool
from dags_app.services import locations, production
from dags_app.services.input_files import resolve_input
from dags_app.states import DAGStatus, FileState, GroupStatus
from requests_app import admission
from requests_app.lifecycle.advance import advance
from requests_app.lifecycle.locating import before_planning
from requests_app.lifecycle.snapshot import Snapshot
from requests_app.models import Request
from requests_app.states import RequestStatus as S
from sites_app.models import Site
from sites_app.selectors import usable_sites
from sites_app.services.sites import enable_site
from tests.dagfiles import allowed_sites
from tests.integration.execution.factories import add_block, lose_replicas, note_locks
from tests.integration.factories import make_request, make_site, make_workflow
from tests.stand_in import Overridden
from wms2_project.errors import ServiceUnavailable

pytestmark = pytest.mark.django_db
HERE, AWAY = "T2_CH_CERN", "T2_DE_DESY"
Asked = list[list[str]]


@pytest.fixture(autouse=True)
def _sites() -> None:
    make_site(HERE)
    make_site(AWAY, status="draining")


@pytest.fixture
def asked(adapt: Callable[..., None]) -> Asked:
    """Return a list of the names that each call looks up in Rucio."""
    calls: Asked = []
    replicas = rucio().replicas

    def noting(lfns: list[str]) -> Any:
        calls.append(list(lfns))
        return replicas(lfns)

    adapt(rucio=Overridden(rucio(), replicas=noting))
    return calls


def resolved(*blocks: tuple[str, str], status: S = S.PLANNING, **values: Any) -> Request:
    """Return a request before planning; each block has two files at one storage."""
    dataset = f"/Waiting/Data{time.time_ns()}-v1/RAW"
    for block, rse in blocks:
        add_block(dataset, block, rses=(rse,))
    values = {"splitting_params": {"files_per_job": 1}, "jobs_per_group": 1} | values
    workflow = make_workflow(input_dataset=dataset, **values)
    resolve_input(workflow=workflow, now=timezone.now())
    return make_request(workflow=workflow, status=status, urgent=True)


def replicate(request: Request, block: str, rse: str = HERE) -> None:
    add_block(request.workflow.input_dataset or "", block, rses=(rse,))


def step(request: Request) -> str:
    advance(request.pk)
    request.refresh_from_db()
    request.workflow.refresh_from_db()
    return request.status


def let_time_pass(request: Request) -> None:
    Workflow.objects.filter(pk=request.workflow_id).update(located_at=timezone.now() - timedelta(days=1))


def pool(request: Request) -> SitePool:
    return usable_sites(workflow=request.workflow, now=timezone.now())


def data_gate(viewer: APIClient, request: Request) -> dict[str, Any]:
    gates = viewer.get(f"/api/v1/requests/{request.request_name}/why").json()["gates"]
    (gate,) = [gate for gate in gates if gate["name"] == "data"]
    return dict(gate)


def test_a_request_waits_for_its_data_by_name_and_continues_when_a_replica_appears(
    viewer: APIClient, settings: Any
) -> None:
    request = resolved(("a", AWAY))
    assert step(request) == S.QUEUED, "it takes no capacity, and no person is needed"
    gate = data_gate(viewer, request)
    assert (gate["verdict"], gate["evidence"]["waiting"]) == ("block", 2)
    assert [file["lfn"] for file in gate["evidence"]["files"]] == sorted(
        request.workflow.input_files.values_list("lfn", flat=True)
    )
    assert gate["evidence"]["files"][0]["locations"] == [AWAY]
    assert step(request) == S.QUEUED
    assert request.next_check_at > timezone.now()
    assert DAG.objects.count() == 0

    replicate(request, "a")
    assert step(request) == S.QUEUED, "Rucio is not asked all the time"
    let_time_pass(request)
    assert step(request) == S.PLANNING
    assert request.workflow.unplaced_since is None
    assert production.decide_plan(workflow=request.workflow, sites=pool(request)).jobs == 2


def test_rucio_is_called_without_the_admission_lock(
    monkeypatch: pytest.MonkeyPatch, adapt: Callable[..., None]
) -> None:
    request = resolved(("a", AWAY), status=S.QUEUED)
    Workflow.objects.update(unplaced_since=timezone.now())
    let_time_pass(request)
    replicate(request, "a")
    held, seen = note_locks(monkeypatch), []
    replicas = rucio().replicas

    def noting(lfns: list[str]) -> Any:
        seen.append(list(held))
        return replicas(lfns)

    adapt(rucio=Overridden(rucio(), replicas=noting))
    assert step(request) == S.PLANNING
    assert seen == [[f"request {request.pk}"]]


def test_a_waiting_request_takes_no_place_in_the_line_and_a_site_that_opens_wakes_it() -> None:
    request = resolved(("a", AWAY))
    assert [step(request), step(request)] == [S.QUEUED, S.QUEUED]
    assert (request.wait_gate, admission.line().exists()) == ("data", False)
    site = Site.objects.get(name=AWAY)
    enable_site(site=site, actor="user:olga", reason="the drain is over")
    admission.wake_by_news()
    request.refresh_from_db()
    assert request.next_check_at <= timezone.now()
    assert step(request) == S.PLANNING


def test_a_new_request_whose_data_is_nowhere_starts_no_pilot(viewer: APIClient) -> None:
    dataset = f"/Waiting/New{time.time_ns()}-v1/RAW"
    add_block(dataset, "a", rses=(AWAY,))
    request = make_request(workflow=make_workflow(input_dataset=dataset, located_at=None))
    assert [step(request), step(request)] == [S.QUEUED, S.QUEUED]
    assert data_gate(viewer, request)["verdict"] == "block"


def test_a_pilot_without_data_waits(viewer: APIClient) -> None:
    """Its site was drained between admission and planning."""
    request = resolved(("a", HERE), status=S.PILOT_RUNNING)
    Request.objects.update(urgent=False)
    Site.objects.filter(name=HERE).update(status="draining")
    make_site("T2_US_Purdue")
    assert [step(request), step(request)] == [S.PLANNING, S.QUEUED]
    assert data_gate(viewer, request)["verdict"] == "block"


def test_files_that_can_be_placed_are_planned_and_the_rest_waits(viewer: APIClient) -> None:
    request = resolved(("a", HERE), ("b", AWAY))
    locations.note_waiting(workflow=request.workflow, sites=pool(request), now=timezone.now())
    dag = production.plan_round(workflow=request.workflow, sites=pool(request), priority=0)
    states = request.workflow.input_files.order_by("lfn").values_list("state", flat=True)
    assert list(states) == [FileState.ASSIGNED] * 2 + [FileState.FRESH] * 2
    Request.objects.update(status=S.ACTIVE)
    gate = data_gate(viewer, request)
    assert (gate["verdict"], gate["evidence"]["waiting"]) == ("pass", 2)

    dag.round.groups.update(status=GroupStatus.COLLECTED)
    dag.round.files.update(state=FileState.PROCESSED)
    DAG.objects.update(status=DAGStatus.COMPLETED, submitted_at=timezone.now(), completed_at=timezone.now())
    production.resolve_round(round_=dag.round, now=timezone.now())
    Request.objects.update(status=S.PLANNING)
    assert step(request) == S.QUEUED
    assert data_gate(viewer, request)["detail"].startswith("no usable site can read 2 input files")


@pytest.mark.usefixtures("fake_schedd")
def test_a_release_looks_replicas_up_again(operator: APIClient, asked: Asked) -> None:
    request = resolved(("a", AWAY), status=S.HELD)
    replicate(request, "a")
    path = f"/api/v1/requests/{request.request_name}/release"
    assert operator.post(path, {"reason": "the replica is there"}).status_code == 200
    asked.clear()
    assert [step(request), step(request)] == [S.PLANNING, S.ACTIVE]
    assert (request.workflow.rounds.get().jobs, [len(call) for call in asked]) == (2, [2])


def test_only_unfinished_files_are_looked_up_in_batches_and_slices(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = resolved(("a", HERE), ("b", HERE), ("c", HERE))
    InputFile.objects.filter(lfn__endswith="a0.root").update(state=FileState.EXCLUDED)
    let_time_pass(request)
    asked.clear()
    monkeypatch.setattr(locations, "BATCH", 2)
    left = []
    for _ in range(3):
        workflow = Workflow.objects.get(pk=request.workflow_id)
        left.append(locations.refresh_locations(workflow=workflow, now=timezone.now(), seconds=0))
    assert left == [3, 1, 0]
    assert [len(call) for call in asked] == [2, 2, 1]
    workflow = Workflow.objects.get(pk=request.workflow_id)
    assert locations.refresh_locations(workflow=workflow, now=timezone.now(), seconds=0) == 0
    assert len(asked) == 3, "what was just looked up is not asked for again"


def test_planning_uses_known_locations_during_an_outage_of_rucio(adapt: Callable[..., None]) -> None:
    request = resolved(("a", AWAY))
    let_time_pass(request)

    def away(lfns: list[str]) -> Any:
        raise ServiceUnavailable("Rucio is away")

    adapt(rucio=Overridden(rucio(), replicas=away))
    assert step(request) == S.QUEUED
    assert "no usable site can read 2 input files" in request.transitions.latest("id").reason
    Workflow.objects.update(located_at=None)
    Request.objects.update(status=S.PLANNING)
    assert step(request) == S.PLANNING
    assert "Rucio is away" in request.last_error


def test_memory_still_holds(viewer: APIClient) -> None:
    request = resolved(("a", HERE), ("b", AWAY), memory_mb=3000)
    Site.objects.filter(name=HERE).update(thresholds={"memory_mb_per_core": 2000})
    make_site("T2_US_Purdue")
    assert step(request) == S.HELD
    assert "both the memory and the data of 2 files" in request.last_error


def test_an_early_stop_takes_readable_files_first_and_at_most_its_limit() -> None:
    params = {"events_per_job": 100, "total_events": 250}
    request = resolved(("a", AWAY), ("b", HERE), splitting_algo="EventBased", splitting_params=params)
    production.plan_round(workflow=request.workflow, sites=pool(request), priority=0)
    rows = request.workflow.input_files.order_by("lfn").values_list("state", "excluded_reason")
    assert list(rows) == [
        (FileState.FRESH, ""),
        (FileState.EXCLUDED, "beyond total_events"),
        (FileState.ASSIGNED, ""),
        (FileState.ASSIGNED, ""),
    ]
    assert request.workflow.input_files.earliest("lfn").wanted == [[0, 0, 49]]


def test_a_file_is_not_excluded_when_another_copy_has_appeared() -> None:
    request = resolved(("a", HERE), status=S.PARTIAL)
    dag = production.plan_round(workflow=request.workflow, sites=pool(request), priority=0)
    lfn = dag.round.files.earliest("lfn").lfn
    BadReplica.objects.create(workflow=request.workflow, round=dag.round, lfn=lfn, site=HERE, exit_code=8021)
    make_site("T2_US_Purdue")
    assert [sorted(repair.excluded) for repair in decide_repairs(dag=dag, sites=pool(request))] == [[lfn], []]
    replicate(request, "a", "T2_US_Purdue")
    repairs = decide_repairs(dag=dag, sites=pool(request))
    assert [dict(repair.excluded) for repair in repairs] == [{}, {}]
    assert repairs[0].sites == {"T2_US_Purdue"}


def test_a_group_without_a_site_moves_to_a_site_with_a_new_replica() -> None:
    request = resolved(("a", HERE), status=S.PARTIAL)
    dag = production.plan_round(workflow=request.workflow, sites=pool(request), priority=0)
    Site.objects.filter(name=HERE).update(status="draining")
    make_site("T2_US_Purdue")
    assert all(repair.homeless for repair in decide_repairs(dag=dag, sites=pool(request)))
    replicate(request, "a", "T2_US_Purdue")
    repairs = decide_repairs(dag=dag, sites=pool(request))
    assert [repair.sites for repair in repairs] == [{"T2_US_Purdue"}] * 2


def test_replicas_are_looked_up_while_the_site_with_the_data_is_unavailable() -> None:
    request = resolved(("a", AWAY), status=S.QUEUED)
    Site.objects.filter(name=AWAY).update(drain_until=timezone.now() + timedelta(days=2))
    assert (step(request), request.wait_gate) == (S.QUEUED, "sites")
    replicate(request, "a")
    let_time_pass(request)
    assert step(request) == S.PLANNING


def test_a_lost_replica_is_seen_before_planning(viewer: APIClient) -> None:
    request = resolved(("a", HERE), ("b", HERE))
    lost = sorted(request.workflow.input_files.values_list("lfn", flat=True))[:2]
    lose_replicas(HERE, *lost)
    let_time_pass(request)
    assert looked_up(request) is None
    assert production.decide_plan(workflow=request.workflow, sites=pool(request)).jobs == 2
    Request.objects.update(status=S.QUEUED)
    gate = data_gate(viewer, request)
    assert (gate["verdict"], [file["lfn"] for file in gate["evidence"]["files"]]) == ("pass", lost)


def looked_up(request: Request) -> Any:
    """Look up replicas, as the lifecycle does before planning."""
    return before_planning(Snapshot(Request.objects.get(pk=request.pk), timezone.now()))


@pytest.mark.usefixtures("fake_schedd")
def test_a_resume_looks_replicas_up_again(operator: APIClient, asked: Asked) -> None:
    """The only site of a stopped group has lost its data, and another one has a replica since."""
    request = resolved(("a", HERE), status=S.HELD)
    dag = production.plan_round(workflow=request.workflow, sites=pool(request), priority=0)
    now = timezone.now()
    DAG.objects.filter(pk=dag.pk).update(status=DAGStatus.STOPPED, submitted_at=now, completed_at=now)
    make_site("T2_US_Purdue")
    replicate(request, "a", "T2_US_Purdue")
    lose_replicas(HERE, *request.workflow.input_files.values_list("lfn", flat=True))
    asked.clear()
    path = f"/api/v1/requests/{request.request_name}/release"
    assert operator.post(path, {"reason": "go on"}).status_code == 200
    assert [step(request), step(request)] == [S.PLANNING, S.ACTIVE]
    assert [len(call) for call in asked] == [2]
    assert {tuple(one) for one in request.workflow.input_files.values_list("locations", flat=True)} == {
        ("T2_US_Purdue",)
    }
    directory = Path(DAG.objects.get(parent=dag).submit_dir)
    assert [allowed_sites(directory / f"mg_{n:06d}") for n in (0, 1)] == [{"T2_US_Purdue"}] * 2


def test_groups_of_a_running_dag_follow_their_replicas(
    fake_schedd: FakeSchedd, asked: Asked, settings: Any
) -> None:
    settings.LOCATION_FOLLOW_SEC = 3600.0
    request = resolved(("a", HERE), ("b", AWAY), status=S.ACTIVE)
    locations.note_waiting(workflow=request.workflow, sites=pool(request), now=timezone.now())
    dag = production.plan_round(workflow=request.workflow, sites=pool(request), priority=0)
    DAG.objects.filter(pk=dag.pk).update(
        status=DAGStatus.RUNNING, applied_version=request.workflow.version, submitted_at=timezone.now()
    )
    make_site("T2_US_Purdue")
    DAG.objects.filter(pk=dag.pk).update(applied_sites=sorted([HERE, "T2_US_Purdue"]))
    replicate(request, "a", "T2_US_Purdue")
    replicate(request, "b", "T2_US_Purdue")
    asked.clear()
    step(request)
    assert (asked, fake_schedd.called("place_landings")) == ([], []), "not all the time"
    Workflow.objects.update(located_at=timezone.now() - timedelta(hours=2))
    assert [step(request), step(request), step(request)] == [S.ACTIVE] * 3
    assert [len(call) for call in asked] == [4]
    (placed,) = fake_schedd.called("place_landings")
    assert placed["sites"] == {f"mg_{n:06d}": {HERE, "T2_US_Purdue"} for n in (0, 1)}
    assert request.workflow.unplaced_since is None, "what waited can be placed by the next round"


def test_a_running_request_continues_during_an_outage_of_rucio(
    fake_schedd: FakeSchedd, adapt: Callable[..., None]
) -> None:
    request = resolved(("a", HERE), status=S.ACTIVE)
    dag = production.plan_round(workflow=request.workflow, sites=pool(request), priority=0)
    DAG.objects.filter(pk=dag.pk).update(
        status=DAGStatus.RUNNING, applied_version=request.workflow.version, submitted_at=timezone.now()
    )
    let_time_pass(request)

    def away(lfns: list[str]) -> Any:
        raise ServiceUnavailable("Rucio is away")

    adapt(rucio=Overridden(rucio(), replicas=away))
    assert (step(request), request.attempt) == (S.ACTIVE, 0)


def test_the_preview_of_an_exclusion_names_files_that_can_be_read(
    operator: APIClient, adapt: Callable[..., None]
) -> None:
    request = resolved(("a", HERE), ("b", AWAY), status=S.HELD)
    here, away = (f"/store/data{request.workflow.input_dataset}/{name}0.root" for name in "ab")
    body = {"reason": "unreadable", "excluded_files": [here, away], "dry_run": True}
    path = f"/api/v1/requests/{request.request_name}/release"
    assert operator.post(path, body).json()["preview"]["excluded_but_readable"] == [here]

    def down(lfns: list[str]) -> Any:
        raise ServiceUnavailable("Rucio is away")

    adapt(rucio=Overridden(rucio(), replicas=down))
    assert operator.post(path, body).json()["preview"]["excluded_but_readable"] is None
