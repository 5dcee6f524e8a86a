"""Secondary input: resolved once for all, kept for days, a condition of sites, and given to jobs once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from dags_app.adapters import dbs, rucio
from dags_app.models import DAG, SecondaryDataset
from dags_app.services import production, secondary
from dags_app.services.credentials import workflow_scopes
from requests_app import admission
from requests_app.lifecycle.advance import advance
from requests_app.models import Request
from requests_app.states import RequestStatus as S
from sites_app.models import Site
from sites_app.selectors import usable_sites
from tests.integration.execution.factories import add_block, lose_replicas
from tests.integration.factories import make_document, make_request, make_secondary, make_site, make_workflow
from tests.stand_in import Overridden
from wms2_project.errors import ServiceUnavailable
from wms2_project.wakeups import DATA, wake_waiting

pytestmark = pytest.mark.django_db
HERE, THERE = "T2_CH_CERN", "T2_DE_DESY"


@pytest.fixture(autouse=True)
def _sites() -> None:
    make_site(HERE)
    make_site(THERE)


@pytest.fixture
def asked(adapt: Callable[..., None]) -> list[str]:
    """Return a list that records calls to DBS and Rucio about secondary datasets, in order."""
    calls: list[str] = []
    valid_lfns, replicas = dbs().valid_lfns, rucio().replicas

    def listed(name: str) -> Any:
        calls.append("files")
        return valid_lfns(name)

    def located(lfns: list[str]) -> Any:
        calls.append("replicas")
        return replicas(lfns)

    adapt(dbs=Overridden(dbs(), valid_lfns=listed), rucio=Overridden(rucio(), replicas=located))
    return calls


def pileup_at(*rses: str, files: int = 3) -> str:
    name = f"/Pileup/Era{time.time_ns()}-v1/PREMIX"
    add_block(name, "a", files=files, rses=rses)
    return name


def generator(*datasets: str, **values: Any) -> Request:
    """Return a request that generates events and also reads these datasets."""
    values = {"total_events": 100, "splitting_algo": "EventBased"} | values
    workflow = make_workflow(
        input_dataset=None,
        splitting_params={"events_per_job": 50},
        secondary_input_datasets=list(datasets),
        payload_config={"MCPileup": "as given"},
        **values,
    )
    return make_request(workflow=workflow, urgent=True)


def step(request: Request) -> str:
    advance(request.pk)
    request.refresh_from_db()
    return request.status


def gate(viewer: APIClient, request: Request) -> dict[str, Any]:
    gates = viewer.get(f"/api/v1/requests/{request.request_name}/why").json()["gates"]
    (found,) = [one for one in gates if one["name"] == "pileup"]
    return dict(found)


def test_jobs_run_where_the_pileup_is_and_get_its_files_once(viewer: APIClient) -> None:
    name = pileup_at(HERE)
    request = generator(name)
    assert [step(request), step(request)] == [S.QUEUED, S.PLANNING]
    assert gate(viewer, request)["evidence"]["sites_without"] == [THERE]
    pool = usable_sites(workflow=request.workflow, now=timezone.now())
    assert (pool.names, pool.lacking) == ({HERE}, {THERE})
    dag = production.plan_round(workflow=request.workflow, sites=pool, priority=0)
    directory = Path(dag.submit_dir)
    payload = json.loads((directory / "payload.json").read_text())
    assert payload["pileup"] == {name: [f"/store/data{name}/a{n}.root" for n in range(3)]}
    assert payload["MCPileup"] == "as given"
    assert "premix" not in (directory / "mg_000000" / "jobs.json").read_text().lower()
    assert dag.round.groups.count() >= 1


def test_a_request_waits_for_its_pileup_and_continues_when_a_site_has_it(viewer: APIClient) -> None:
    name = pileup_at("T1_US_FNAL_Disk")
    add_block(name, "b", files=1, rses=[HERE])
    request = generator(name)
    assert [step(request), step(request)] == [S.QUEUED, S.QUEUED]
    assert (request.wait_gate, admission.line().exists()) == ("pileup", False)
    seen = gate(viewer, request)
    expected = f"no usable site holds the secondary dataset {name}: {HERE} has 1 of 4 files"
    assert (seen["verdict"], seen["detail"]) == ("block", expected)
    assert seen["evidence"]["files_held"] == {name: {HERE: 1, THERE: 0}}
    assert step(request) == S.QUEUED
    assert not DAG.objects.exists()

    add_block(name, "a", files=3, rses=[HERE])
    assert step(request) == S.QUEUED, "Rucio is not asked all the time"
    SecondaryDataset.objects.update(located_at=timezone.now() - timedelta(hours=1))
    assert step(request) == S.PLANNING


def test_a_site_that_opens_wakes_a_request_that_waits_for_pileup() -> None:
    Site.objects.filter(name=HERE).update(status="draining")
    request = generator(pileup_at(HERE))
    assert [step(request), step(request)] == [S.QUEUED, S.QUEUED]
    wake_waiting(DATA)
    assert admission.wake_by_news() == 1


def test_two_datasets_no_site_holds_both_of(viewer: APIClient) -> None:
    request = generator(pileup_at(HERE), pileup_at(THERE))
    assert [step(request), step(request)] == [S.QUEUED, S.QUEUED]
    assert gate(viewer, request)["detail"] == "no usable site holds all 2 secondary datasets"


def test_recently_located_files_are_not_looked_up_again(asked: list[str]) -> None:
    name = pileup_at(HERE)
    for _ in range(2):
        step(request := generator(name))
        step(request)
    assert asked == ["files", "replicas"]
    SecondaryDataset.objects.update(resolved_at=timezone.now() - timedelta(days=8))
    step(generator(name))
    step(late := generator(name))
    assert step(late) == S.PLANNING
    assert asked == ["files", "replicas"] * 2


def invalid_pileup() -> str:
    name = pileup_at(HERE)
    dbs().set_dataset_status(name, "INVALID")
    return name


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: "/Unknown/Dataset-v1/PREMIX",
            "secondary dataset /Unknown/Dataset-v1/PREMIX is not in DBS",
        ),
        (invalid_pileup, "is INVALID in DBS"),
    ],
    ids=["unknown", "invalid"],
)
def test_pileup_that_cannot_be_read_holds_the_request(make: Callable[[], str], message: str) -> None:
    request = generator(make())
    assert step(request) == S.HELD
    assert message in request.last_error


def test_a_request_with_input_resolves_both(viewer: APIClient) -> None:
    name = pileup_at(HERE)
    primary = f"/Primary/Era{time.time_ns()}-v1/RAW"
    add_block(primary, "a", rses=[HERE, THERE])
    workflow = make_workflow(input_dataset=primary, secondary_input_datasets=[name], located_at=None)
    request = make_request(workflow=workflow, urgent=True)
    assert [step(request), step(request)] == [S.QUEUED, S.PLANNING]
    pool = usable_sites(workflow=request.workflow, now=timezone.now())
    plan = production.decide_plan(workflow=request.workflow, sites=pool)
    assert {site for group in plan.groups for site in group.sites} == {HERE}


def test_known_pileup_is_used_during_an_outage_of_a_service(adapt: Callable[..., None]) -> None:
    name = pileup_at(HERE)
    assert step(request := generator(name)) == S.QUEUED
    SecondaryDataset.objects.update(resolved_at=timezone.now() - timedelta(days=8))

    def away(name: str) -> Any:
        raise ServiceUnavailable("DBS is away")

    adapt(dbs=Overridden(dbs(), dataset=away))
    assert step(request) == S.PLANNING
    other = generator(pileup_at(HERE))
    assert (step(other), "DBS is away" in other.last_error) == (S.SUBMITTED, True)


def test_a_large_dataset_is_given_in_part_spread_over_all_of_it(settings: Any) -> None:
    settings.PILEUP_MAX_FILES = 4
    row = secondary.read_secondary(pileup_at(HERE, files=9), now=timezone.now())
    assert (row.files, len(row.lfns), row.places) == (9, 4, [[[HERE], 4]])
    assert [lfn.rpartition("/")[2] for lfn in row.lfns] == ["a0.root", "a2.root", "a4.root", "a6.root"]


def test_files_without_a_replica_are_not_given_to_jobs() -> None:
    name = pileup_at(HERE)
    lose_replicas(HERE, f"/store/data{name}/a1.root")
    request = generator(name)
    assert step(request) == S.QUEUED
    given = secondary.pileup_of(workflow=request.workflow)
    assert given == {name: [f"/store/data{name}/a{n}.root" for n in (0, 2)]}
    assert usable_sites(workflow=request.workflow, now=timezone.now()).names == {HERE}


def test_a_release_looks_up_replicas_at_once(operator: APIClient) -> None:
    name = pileup_at("T1_US_FNAL_Disk")
    request = generator(name)
    step(request)
    Request.objects.update(status=S.HELD)
    add_block(name, "a", files=3, rses=[THERE])
    path = f"/api/v1/requests/{request.request_name}/release"
    assert operator.post(path, {"reason": "it is there"}).status_code == 200
    assert step(request) == S.PLANNING


def test_the_preview_of_a_document_considers_pileup_and_stores_nothing(operator: APIClient) -> None:
    primary = f"/Primary/Era{time.time_ns()}-v1/RAW"
    add_block(primary, "a", rses=[HERE, THERE])
    body = make_document(input_dataset=primary, mc_pileup=pileup_at(THERE))
    seen = operator.post("/api/v1/requests/plan", body)
    assert seen.status_code == 200, seen.json()
    assert [group["sites"] for group in seen.json()["groups"]] == [[THERE]]
    assert not SecondaryDataset.objects.exists()


def test_the_token_of_the_jobs_opens_the_directories_of_the_pileup() -> None:
    row = make_secondary("/Pileup/Era-v1/PREMIX", lfns=["/store/mc/Era/Pileup/PREMIX/v1/70000/a.root"])
    workflow = make_workflow(secondary_input_datasets=[row.name])
    scopes = workflow_scopes(workflow=workflow)
    assert "storage.read:/store/mc/Era/Pileup/PREMIX/v1/70000" in scopes
    assert not [scope for scope in scopes if "modify" in scope and "Pileup" in scope]


def test_a_site_reads_its_files_from_several_storages() -> None:
    Site.objects.filter(name=HERE).update(storage_elements=[HERE, "T1_CH_CERN_Disk"])
    row = make_secondary("/Pileup/Split-v1/PREMIX", places=[[[HERE], 1], [["T1_CH_CERN_Disk", THERE], 2]])
    workflow = make_workflow(secondary_input_datasets=[row.name])
    pool = usable_sites(workflow=workflow, now=timezone.now())
    assert (pool.names, pool.lacking) == ({HERE}, {THERE})
