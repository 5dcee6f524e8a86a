"""The right to write into a dataset: versions share it, an unused name is released, permission overrides."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.db import IntegrityError, transaction
from django.utils import timezone
from rest_framework.test import APIClient

from dags_app.adapters import dbs
from outputs_app.dataset_ownership import find_conflict
from outputs_app.models import DatasetClaim, OutputDataset
from outputs_app.selectors import datasets_of, other_writers
from requests_app.api.inputs import EXAMPLE
from requests_app.lifecycle.advance import advance
from requests_app.models import Request
from requests_app.states import RequestStatus as S
from tests.integration.factories import (
    make_block,
    make_claim,
    make_document,
    make_group,
    make_request,
    make_round,
    make_site,
    make_workflow,
)
from tests.integration.outputs.blocks import add_block, walk
from tests.integration.outputs.conftest import Faults

pytestmark = pytest.mark.django_db
REQUESTS = "/api/v1/requests"


def send(client: APIClient, **changes: Any) -> Any:
    return client.post(REQUESTS, make_document(**changes))


def imported(client: APIClient, **changes: Any) -> Request:
    answer = send(client, **changes)
    assert answer.status_code == 201, answer.json()
    return Request.objects.select_related("workflow").get(request_name=answer.json()["request_name"])


def act(client: APIClient, request: Request, action: str, **body: Any) -> Any:
    answer = client.post(f"{REQUESTS}/{request.request_name}/{action}", {"reason": "a test"} | body)
    assert answer.status_code == (201 if action == "restart" else 200), answer.json()
    return answer.json()


def test_after_an_abort_with_nothing_registered_the_same_outputs_can_be_requested_again(
    operator: APIClient,
) -> None:
    first = imported(operator)
    names = first.workflow.output_datasets
    assert send(operator, output_datasets=names).status_code == 422
    act(operator, first, "abort")
    again = imported(operator, output_datasets=names)
    old, new = DatasetClaim.objects.order_by("id")
    assert (old.workflow_id, old.is_owner, old.released_at is None) == (first.workflow_id, True, False)
    assert (new.workflow_id, new.is_owner, new.released_at is None) == (again.workflow_id, True, True)
    assert send(operator, output_datasets=names).status_code == 422


def test_the_example_document_sent_twice_names_the_conflict(operator: APIClient) -> None:
    assert operator.post(REQUESTS, EXAMPLE).status_code == 201
    again = operator.post(REQUESTS, EXAMPLE)
    assert (again.status_code, "already exists" in again.json()["detail"]) == (409, True)
    renamed = operator.post(REQUESTS, EXAMPLE | {"RequestName": "my_second_request"})
    assert renamed.status_code == 422
    assert "my_first_request" in renamed.json()["detail"]


@pytest.mark.parametrize("registered", [True, False])
def test_after_an_abort_with_outputs_the_error_names_the_cures(operator: APIClient, registered: bool) -> None:
    first = imported(operator)
    type(first.workflow).objects.update(input_dataset="")
    block = add_block(first.workflow)
    if registered:
        walk(block)
    act(operator, first, "abort")
    refused = send(operator, output_datasets=first.workflow.output_datasets).json()
    assert f"{first.request_name} of ana (aborted)" in refused["errors"]["output_datasets"]
    for cure in ("ProcessingVersion", "PreviousVersionRequest", "operator"):
        assert cure in refused["cure"]


def test_versions_of_a_request_share_its_datasets(operator: APIClient) -> None:
    first = imported(operator)
    names = first.workflow.output_datasets
    second = imported(operator, output_datasets=names, previous_version_request=first.request_name)
    third = imported(operator, output_datasets=names, previous_version_request=second.request_name)
    assert set(DatasetClaim.objects.values_list("chain", flat=True)) == {first.workflow_id}
    assert DatasetClaim.objects.get(is_owner=True).workflow_id == first.workflow_id
    writers = [first.request_name, second.request_name]
    assert other_writers(workflow=third.workflow) == {names[0]: writers}
    assert send(operator, output_datasets=names).status_code == 422


def test_a_restart_into_the_dataset_of_another_is_refused_and_ends_nothing(operator: APIClient) -> None:
    first = imported(operator)
    taken = [name.replace("-v1/", "-v2/") for name in first.workflow.output_datasets]
    owner = imported(operator, output_datasets=taken)
    for body in ({"dry_run": True}, {}):
        refused = operator.post(f"{REQUESTS}/{first.request_name}/restart", {"reason": "again"} | body)
        assert refused.status_code == 422, refused.json()
        assert owner.request_name in str(refused.json()["errors"])
    first.refresh_from_db()
    assert first.status == S.SUBMITTED


def test_two_owners_of_a_dataset_cannot_be_stored() -> None:
    one, two = make_workflow(), make_workflow()
    make_claim(one, "/A/B-v1/AOD")
    values = {"chain": two, "is_owner": True, "claimed_at": timezone.now()}
    with pytest.raises(IntegrityError), transaction.atomic():
        DatasetClaim.objects.create(workflow=two, dataset_name="/A/B-v1/AOD", **values)


@pytest.mark.parametrize(("begun", "creator", "ours"), [(True, "wms2", True), (False, "wms2", False),
                                                        (True, "lab", False)])  # fmt: skip
def test_an_empty_dataset_is_ours_if_we_meant_to_create_it_and_dbs_names_us(
    begun: bool, creator: str, ours: bool, lab: Any
) -> None:
    workflow = make_workflow()
    name = f"/Empty/x{timezone.now():%H%M%S%f}-v1/AOD"
    lab("POST", "datasets", {"dataset": name, "created_by": creator, "blocks": []})
    claim = make_claim(workflow, name)
    claim.registering_at = timezone.now() if begun else None
    claim.save()
    assert (find_conflict(name, dbs()) == "") is ours


def test_a_crash_between_dbs_and_our_record_is_no_conflict(operator: APIClient) -> None:
    request = imported(operator)
    type(request.workflow).objects.update(input_dataset="")
    block = walk(add_block(request.workflow))
    type(block).objects.update(status="pending", dbs_registered_at=None, announced_at=None)
    assert walk(block).status == "announced"


def test_a_held_request_continues_when_sharing_is_allowed_and_names_the_content_of_dbs(
    operator: APIClient, lab: Any, faults: Faults
) -> None:
    make_site()
    name = f"/Theirs/x{timezone.now():%H%M%S%f}-v1/AOD"
    lab("POST", "datasets", {"dataset": name, "blocks": []})
    faults({"service": "dbs", "kind": "status", "status": 503, "times": None})
    request = imported(operator, output_datasets=[name])
    faults()
    type(request.workflow).objects.update(input_dataset=None, total_events=10)
    advance(request.pk)
    request.refresh_from_db()
    assert request.status == S.HELD
    act(operator, request, "release")
    advance(request.pk)
    request.refresh_from_db()
    assert request.status == S.HELD, "DBS still has it"
    act(operator, request, "share", datasets=[name])
    act(operator, request, "release")
    advance(request.pk)
    request.refresh_from_db()
    assert request.status != S.HELD
    block = walk(add_block(request.workflow))
    assert block.status == "announced"
    assert dbs().blocks(name) == {block.block_name}


def test_sharing_applies_only_to_outputs_of_an_unfinished_request(operator: APIClient) -> None:
    request = imported(operator)
    url = f"{REQUESTS}/{request.request_name}/share"
    strange = operator.post(url, {"reason": "a test", "datasets": ["/Not/Mine-v1/AOD"]})
    assert (strange.status_code, list(strange.json()["errors"])) == (422, ["datasets"])
    act(operator, request, "abort")
    assert operator.post(url, {"reason": "a test"}).status_code == 409


def test_requests_from_before_the_migration_own_their_datasets() -> None:
    """In the migration the oldest request owns a name, versions share it, others get a permission."""
    name = "/Old/Run-v1/AOD"
    flows = [make_workflow(output_datasets=[name]) for _ in range(5)]
    unused = make_request(workflow=flows[0], status=S.ABORTED)
    owner = make_request(workflow=flows[1], status=S.ABORTED)
    version = make_request(workflow=flows[2], status=S.SUBMITTED, previous_version=owner)
    other = make_request(workflow=flows[3], status=S.ACTIVE)
    make_request(workflow=flows[4], status=S.NEW)
    make_block(make_group(make_round(owner.workflow)))
    DatasetClaim.objects.all().delete()
    import_module("requests_app.migrations.0017_claim_outputs").claim(apps, None)
    rows = {claim.workflow_id: claim for claim in DatasetClaim.objects.all()}
    assert set(rows) == {owner.workflow_id, version.workflow_id, other.workflow_id}
    assert unused.workflow_id not in rows
    result = [
        (claim.is_owner, claim.chain_id == owner.workflow_id, claim.allowed_by, claim.checked_at is None)
        for claim in (rows[one.workflow_id] for one in (owner, version, other))
    ]
    migrated = "system:migration"
    assert result == [(True, True, "", False), (False, True, "", True), (False, False, migrated, False)]


def test_a_dataset_lists_the_other_requests_that_write_into_it() -> None:
    one, two = make_request(), make_request()
    name = one.workflow.output_datasets[0]
    for request in (one, two):
        make_claim(request.workflow, name)
    OutputDataset.objects.create(workflow=two.workflow, dataset_name=name)
    assert [row.shared_with for row in datasets_of(workflow=two.workflow)] == [[one.request_name]]
