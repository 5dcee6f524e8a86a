"""Attacks on other people's data: writing into their datasets, invalidating or announcing them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from rest_framework.test import APIClient

from dags_app.adapters import dbs, rucio
from dags_app.models import Workflow
from outputs_app.models import OutputBlock, RucioRule
from outputs_app.services import invalidate_outputs
from requests_app.lifecycle.advance import advance
from requests_app.lifecycle.finishing import finish
from requests_app.lifecycle.maintenance import tidy_up
from requests_app.lifecycle.snapshot import Snapshot
from requests_app.models import Request
from requests_app.services.restarting import retire_replaced_outputs
from requests_app.states import CleanupPolicy
from requests_app.states import RequestStatus as S
from requests_app.transitions import transition
from tests.integration.conftest import ApiAs
from tests.integration.factories import make_document, make_request
from tests.integration.outputs.blocks import add_block, walk
from tests.integration.outputs.conftest import Faults, _point_at_the_world, faults, lab, world
from wms2_project.access.roles import Role
from wms2_project.errors import ServiceRejected
from wms2_project.models import AuditEvent

__all__ = ["_point_at_the_world", "faults", "lab", "world"]  # fixtures
pytestmark = pytest.mark.django_db
REQUESTS = "/api/v1/requests"
DBS_DOWN = {"service": "dbs", "kind": "status", "status": 503, "times": None}


@pytest.fixture
def foreign(lab: Any) -> str:
    """Return a VALID dataset of another system, with one file."""
    name = f"/Precious/Run2024A-x{timezone.now():%H%M%S%f}-v1/AOD"
    file = {"lfn": f"/store/data{name}/1.root", "size_bytes": 9, "events": 5, "adler32": "0000000a"}
    block = {"name": f"{name}#1", "rses": ["T2_CH_CERN"], "files": [file | {"lumis": {"1": [[1, 1]]}}]}
    lab("POST", "datasets", {"dataset": name, "blocks": [block]})
    return name


@pytest.fixture
def bob(api_as: ApiAs) -> APIClient:
    return api_as(Role.REQUESTOR, "bob")


def in_dbs(dataset: str) -> tuple[str, int]:
    """Return the access type of the dataset and its number of valid files."""
    found = dbs().dataset(dataset)
    assert found is not None
    return found.access_type, found.files


def imported(client: APIClient, **changes: Any) -> Request:
    answer = client.post(REQUESTS, make_document(**changes))
    assert answer.status_code == 201, answer.json()
    return Request.objects.select_related("workflow").get(request_name=answer.json()["request_name"])


def activate(request: Request) -> Workflow:
    """Set the state of a request whose jobs have all run; it needs no parents."""
    Workflow.objects.filter(pk=request.workflow_id).update(input_dataset="", total_events=20)
    Request.objects.filter(pk=request.pk).update(status=S.ACTIVE)
    return Workflow.objects.get(pk=request.workflow_id)


def finished(workflow: Workflow) -> Request:
    """Announce all blocks, and finish the outputs as the lifecycle does."""
    request = Request.objects.select_related("workflow").get(workflow=workflow)
    outcome: Any = finish(Snapshot(request, timezone.now()))
    return transition(request=request, to=outcome.to, reason=outcome.reason, actor="system:test")


def test_a_dataset_that_is_in_dbs_is_refused_at_import(bob: APIClient, foreign: str) -> None:
    refused = bob.post(REQUESTS, make_document(requestor="bob", output_datasets=[foreign]))
    assert refused.status_code == 422, refused.json()
    body = refused.json()["errors"]["output_datasets"]
    assert foreign in str(body)
    assert "VALID" in str(body)
    assert "lab" in str(body), "its creator"
    assert "ProcessingVersion" in refused.json()["cure"]
    assert not Request.objects.exists()


def test_a_dataset_of_another_request_is_refused_at_import(requestor: APIClient, bob: APIClient) -> None:
    owner = imported(requestor)
    refused = bob.post(
        REQUESTS, make_document(requestor="bob", output_datasets=owner.workflow.output_datasets)
    )
    assert refused.status_code == 422, refused.json()
    body = str(refused.json()["errors"]["output_datasets"])
    assert owner.workflow.output_datasets[0] in body
    assert owner.request_name in body
    assert Request.objects.count() == 1


def test_one_shared_dataset_among_several_is_enough_for_a_refusal(
    requestor: APIClient, bob: APIClient
) -> None:
    owner = imported(requestor)
    mixed = ["/Own/Run2031A-Bob-v1/AOD", *owner.workflow.output_datasets]
    assert bob.post(REQUESTS, make_document(requestor="bob", output_datasets=mixed)).status_code == 422


def test_a_draft_cannot_be_submitted_into_the_dataset_of_another(
    requestor: APIClient, bob: APIClient
) -> None:
    draft = imported(bob, draft=True, requestor="bob")
    owner = imported(requestor, output_datasets=draft.workflow.output_datasets)
    refused = bob.post(f"{REQUESTS}/{draft.request_name}/submit", {"reason": "mine"})
    assert refused.status_code == 422, refused.json()
    assert owner.request_name in str(refused.json()["errors"]["output_datasets"])
    draft.refresh_from_db()
    assert draft.status == S.NEW


@pytest.mark.django_db(transaction=True)
def test_of_two_simultaneous_imports_one_gets_the_dataset(api_as: ApiAs) -> None:
    clients = {name: api_as(Role.REQUESTOR, name) for name in ("ana", "bob", "cyd", "dan")}
    wanted = make_document()["output_datasets"]
    start, answers = threading.Barrier(len(clients)), list[int]()

    def send(name: str) -> None:
        start.wait(30)
        document = make_document(requestor=name, output_datasets=wanted)
        try:
            answers.append(clients[name].post(REQUESTS, document).status_code)
        finally:
            connection.close()

    threads = [threading.Thread(target=send, args=(name,)) for name in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(answers) == [201, 422, 422, 422]


def test_a_request_taken_in_while_dbs_is_silent_is_held_before_it_runs(
    requestor: APIClient, foreign: str, faults: Faults
) -> None:
    faults(DBS_DOWN)
    taken = imported(requestor, output_datasets=[foreign])
    advance(taken.pk)
    taken.refresh_from_db()
    assert (taken.status, taken.attempt) == (S.SUBMITTED, 1), "it waits for DBS"
    faults()
    Request.objects.filter(pk=taken.pk).update(next_check_at=timezone.now())
    advance(taken.pk)
    taken.refresh_from_db()
    assert taken.status == S.HELD
    assert foreign in taken.last_error
    assert "sharing" in str(taken.hold_evidence)
    why = requestor.get(f"{REQUESTS}/{taken.request_name}/why").json()
    assert {"ownership"} <= {gate["name"] for gate in why["gates"] if gate["verdict"] == "block"}


def test_no_block_is_registered_in_a_dataset_that_others_made_meanwhile(
    requestor: APIClient, lab: Any
) -> None:
    request = imported(requestor)
    block = add_block(activate(request))
    name = block.dataset.dataset_name
    lab("POST", "datasets", {"dataset": name, "blocks": []})
    walk(block, looks=2)
    assert dbs().blocks(name) == frozenset()
    assert name in block.last_error
    advance(request.pk)
    request.refresh_from_db()
    assert request.status == S.HELD
    assert name in request.last_error


def test_a_workflow_without_a_claim_registers_nothing(requestor: APIClient) -> None:
    owner = imported(requestor)
    thief = make_request(status=S.ACTIVE)
    thief.workflow.input_dataset = ""
    thief.workflow.save()
    block = add_block(thief.workflow, dataset=owner.workflow.output_datasets[0], claimed=False)
    walk(block, looks=2)
    assert dbs().dataset(owner.workflow.output_datasets[0]) is None
    assert owner.workflow.output_datasets[0] in block.last_error


def permitted(operator: APIClient, request: Request) -> None:
    reason = {"reason": "the physics group agreed"}
    answer = operator.post(f"{REQUESTS}/{request.request_name}/share", reason)
    assert answer.status_code == 200, answer.json()


def test_cleanup_of_a_previous_version_leaves_a_foreign_dataset_valid(
    operator: APIClient, foreign: str
) -> None:
    """The attack is tried with an operator's permission to share."""
    first = imported(operator, output_datasets=[foreign], draft=True)
    permitted(operator, first)
    submitted = operator.post(f"{REQUESTS}/{first.request_name}/submit", {"reason": "go"})
    assert submitted.status_code == 200, submitted.json()
    block = walk(add_block(activate(first)))
    assert in_dbs(foreign) == ("VALID", 3)
    finished(block.dataset.workflow)
    second = imported(
        operator,
        previous_version_request=first.request_name,
        cleanup_policy=CleanupPolicy.IMMEDIATE_CLEANUP,
    )
    Request.objects.filter(pk=second.pk).update(status=S.COMPLETED)
    assert retire_replaced_outputs(now=timezone.now()) == 1
    walk(block)
    assert block.status == "invalidated"
    assert in_dbs(foreign) == ("VALID", 1)


def test_a_dataset_with_a_block_of_others_is_not_invalidated(requestor: APIClient, lab: Any) -> None:
    block = add_block(activate(imported(requestor)))
    name = block.dataset.dataset_name
    walk(block)
    file = {"lfn": f"/store/data{name}/theirs.root", "size_bytes": 9, "events": 5, "adler32": "0000000a"}
    theirs = {"name": f"{name}#theirs", "rses": ["T2_CH_CERN"], "files": [file | {"lumis": {"1": [[9, 9]]}}]}
    lab("POST", "datasets", {"dataset": name, "blocks": [theirs]})
    call = {"actor": "user:olga", "reason": "wrong", "now": timezone.now()}
    invalidate_outputs(workflow=block.dataset.workflow, **call)
    walk(block)
    assert block.status == "invalidated"
    assert in_dbs(name) == ("PRODUCTION", 1)
    assert len(dbs().block_files(f"{name}#theirs")) == 1


def test_a_rule_of_another_account_is_not_deleted(requestor: APIClient, lab: Any) -> None:
    block = walk(add_block(activate(imported(requestor))))
    rules = lab("GET", "state")["rucio"]["rules"]
    [ours] = [rule for rule in rules if rule["name"] == block.block_name]
    lab("PUT", "rules", {"name": block.block_name, "from": ours["state"], "account": "transfer_ops"})
    with pytest.raises(ServiceRejected, match="transfer_ops"):
        rucio().delete_rule(ours["id"])
    call = {"actor": "user:olga", "reason": "wrong", "now": timezone.now()}
    invalidate_outputs(workflow=block.dataset.workflow, **call)
    walk(block, looks=2)
    assert block.status == "invalidating"
    assert "transfer_ops" in block.last_error
    [left] = [rule for rule in lab("GET", "state")["rucio"]["rules"] if rule["name"] == block.block_name]
    assert left["expires_at"] is None
    assert RucioRule.objects.filter(block=block, deleted_at__isnull=True).count() == 1


@pytest.fixture
def shared(operator: APIClient, requestor: APIClient) -> Callable[[], tuple[Workflow, Workflow]]:
    """Return a running request, and a small one that an operator allowed to write into its dataset."""

    def make() -> tuple[Workflow, Workflow]:
        large = imported(requestor)
        small = imported(operator, output_datasets=large.workflow.output_datasets, draft=True)
        permitted(operator, small)
        operator.post(f"{REQUESTS}/{small.request_name}/submit", {"reason": "go"})
        return activate(large), activate(small)

    return make


def test_a_small_request_does_not_announce_the_dataset_of_a_running_one(
    shared: Callable[[], tuple[Workflow, Workflow]], operator: APIClient
) -> None:
    large, small = shared()
    first = walk(add_block(large))
    walk(add_block(small))
    name = first.dataset.dataset_name
    ended = finished(small)
    assert (ended.status, in_dbs(name)) == (S.COMPLETED, ("PRODUCTION", 4))
    why = operator.get(f"{REQUESTS}/{small.request_name}/why").json()
    [waits] = [gate for gate in why["gates"] if gate["verdict"] == "block"]
    assert waits["name"] == "announcement"
    assert large.request_name in waits["detail"]
    assert large.request_name in why["summary"]
    tidy_up(now=timezone.now())
    assert in_dbs(name)[0] == "PRODUCTION"
    finished(large)
    assert in_dbs(name) == ("VALID", 4)
    tidy_up(now=timezone.now())
    why = operator.get(f"{REQUESTS}/{small.request_name}/why").json()
    assert [gate["verdict"] for gate in why["gates"]] == ["pass"]


@pytest.mark.parametrize("end", ["abort", "fail"])
def test_the_dataset_is_announced_when_the_other_writer_is_given_up(
    end: str, shared: Callable[[], tuple[Workflow, Workflow]], operator: APIClient
) -> None:
    large, small = shared()
    name = walk(add_block(small)).dataset.dataset_name
    finished(small)
    operator.post(f"{REQUESTS}/{large.request_name}/{end}", {"reason": "no longer needed"})
    tidy_up(now=timezone.now())
    assert in_dbs(name) == ("VALID", 2)


def test_writers_are_named_and_the_permission_is_audited(
    shared: Callable[[], tuple[Workflow, Workflow]], operator: APIClient
) -> None:
    large, small = shared()
    walk(add_block(small))
    body = operator.get(f"/api/v1/workflows/{small.pk}/status").json()
    assert body["outputs"][0]["shared_with"] == [large.request_name]
    event = AuditEvent.objects.get(action="share", target=small.request_name)
    assert (event.actor, event.reason) == ("user:olga", "the physics group agreed")
    assert event.detail["datasets"] == small.output_datasets


def test_only_operators_allow_sharing(requestor: APIClient, bob: APIClient, foreign: str) -> None:
    draft = imported(bob, output_datasets=[foreign], draft=True, requestor="bob")
    refused = bob.post(f"{REQUESTS}/{draft.request_name}/share", {"reason": "I would like to"})
    assert refused.status_code == 403
    assert bob.post(f"{REQUESTS}/{draft.request_name}/submit", {"reason": "go"}).status_code == 422


def test_files_taken_back_stay_invalid_when_the_dataset_is_announced(operator: APIClient) -> None:
    first = imported(operator)
    block = walk(add_block(activate(first)))
    operator.post(f"{REQUESTS}/{first.request_name}/fail", {"reason": "wrong"})
    walk(block)
    name = block.dataset.dataset_name
    assert in_dbs(name)[0] == "INVALID"
    again = imported(operator, output_datasets=[name], previous_version_request=first.request_name)
    other = walk(add_block(activate(again)))
    finished(other.dataset.workflow)
    assert in_dbs(name) == ("VALID", 2)
    assert OutputBlock.objects.get(pk=block.pk).status == "invalidated"
