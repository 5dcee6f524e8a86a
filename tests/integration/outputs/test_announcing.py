"""A dataset is VALID in DBS once all of it is safe and compared, never earlier, and once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from dags_app.adapters import dbs
from dags_app.models import Workflow
from lab.cms_world.server import World
from outputs_app.models import OutputBlock, OutputDataset
from outputs_app.selectors import datasets_of
from outputs_app.services import (
    find_differences,
    invalidate_outputs,
    repair_outputs,
    supersede_outputs,
)
from outputs_app.states import BlockStatus
from requests_app.lifecycle.finishing import finish
from requests_app.lifecycle.outcome import Move, Outcome, Wait
from requests_app.lifecycle.snapshot import Snapshot
from requests_app.models import Request
from requests_app.states import RequestStatus
from tests.integration.factories import make_workflow
from tests.integration.outputs.blocks import add_block, announce, walk
from tests.integration.outputs.conftest import Faults
from tests.stand_in import Overridden
from wms2_project.errors import ServiceUnavailable

pytestmark = pytest.mark.django_db
DOWN = {"kind": "status", "status": 503, "times": None}


def look(workflow: Workflow) -> Outcome:
    return finish(Snapshot(Request.objects.get(workflow=workflow), timezone.now()))


def access_type(workflow: Workflow) -> str:
    found = dbs().dataset(workflow.output_datasets[0])
    assert found is not None
    return found.access_type


def test_a_dataset_is_usable_when_its_last_block_is_announced(
    block: OutputBlock, workflow: Workflow, faults: Faults
) -> None:
    walk(block)
    sibling = add_block(workflow)
    faults({"service": "rucio", "method": "POST", "path_regex": "/rules", **DOWN})
    walk(sibling, looks=3)
    assert isinstance(look(workflow), Wait)
    assert (sibling.status, access_type(workflow)) == (BlockStatus.DBS_REGISTERED, "PRODUCTION")
    faults()
    walk(sibling)
    outcome = look(workflow)
    assert isinstance(outcome, Move)
    assert (outcome.to, access_type(workflow)) == (RequestStatus.COMPLETED, "VALID")
    assert [one.status for one in datasets_of(workflow=workflow)] == ["announced"]


def test_datasets_on_which_catalogues_disagree_are_not_announced(
    block: OutputBlock, workflow: Workflow, faults: Faults
) -> None:
    walk(block)
    faults({"service": "dbs", "path_regex": "filesummaries", "kind": "wrong_counts", "times": None})
    outcome = look(workflow)
    assert isinstance(outcome, Move)
    faults()
    assert (outcome.to, access_type(workflow)) == (RequestStatus.HELD, "PRODUCTION")
    (result,) = datasets_of(workflow=workflow)
    assert (result.status, result.transfers_complete) == ("awaiting_announcement", True)
    repair_outputs(workflow=workflow, actor="user:olga", reason="a test", now=timezone.now())
    assert access_type(workflow) == "PRODUCTION"


@pytest.mark.parametrize("method", ["PUT", "GET"])
def test_an_announcement_that_dbs_refuses_is_repeated(
    method: str, block: OutputBlock, workflow: Workflow, faults: Faults
) -> None:
    walk(block)
    faults({"service": "dbs", "method": method, "path_regex": "datasets", **DOWN})
    with pytest.raises(ServiceUnavailable):
        announce(workflow)
    assert OutputDataset.objects.get().announced_at is None
    faults()
    announce(workflow)
    assert (OutputDataset.objects.get().announced_at is None, access_type(workflow)) == (False, "VALID")


@pytest.mark.parametrize(("shared", "after"), [(False, "INVALID"), (True, "VALID")])
def test_an_invalidation_meanwhile_wins(
    shared: bool, after: str, block: OutputBlock, workflow: Workflow, adapt: Callable[..., None]
) -> None:
    walk(block)
    if shared:
        walk(add_block(make_workflow(input_dataset="", output_datasets=workflow.output_datasets)))
    real, announced = dbs(), list[str]()

    def set_slowly(dataset: str, status: str) -> None:
        if not announced:
            announced.append(dataset)
            invalidate_outputs(workflow=workflow, actor="user:olga", reason="bad", now=timezone.now())
            walk(block)
        real.set_dataset_status(dataset, status)

    adapt(dbs=Overridden(real, set_dataset_status=set_slowly))
    announce(workflow)
    assert access_type(workflow) == after


def test_an_announced_dataset_made_invalid_is_found_and_repaired(
    block: OutputBlock, workflow: Workflow, world: World, lab: Any
) -> None:
    walk(block)
    announce(workflow)
    dbs().set_dataset_status(workflow.output_datasets[0], "INVALID")
    [found] = find_differences(workflow=workflow)
    assert str(found) == f"DBS, {workflow.output_datasets[0]}: access type INVALID, expected VALID"
    assert repair_outputs(workflow=workflow, actor="user:olga", reason="lost", now=timezone.now()) == []


def test_replaced_datasets_become_deprecated_and_only_a_person_makes_them_invalid(
    block: OutputBlock, workflow: Workflow, faults: Faults
) -> None:
    walk(block)
    announce(workflow)
    call = {"workflow": workflow, "actor": "system:restart", "reason": "replaced", "now": timezone.now()}
    faults({"service": "dbs", "method": "PUT", "path_regex": "datasets", **DOWN})
    with pytest.raises(ServiceUnavailable):
        supersede_outputs(**call)
    assert OutputDataset.objects.get().status == "active", "it is tried again"
    faults()
    assert supersede_outputs(**call) == 1
    assert supersede_outputs(**call) == 0
    assert (OutputDataset.objects.get().status, access_type(workflow)) == ("superseded", "DEPRECATED")
    assert find_differences(workflow=workflow) == []
    announce(workflow)
    assert access_type(workflow) == "DEPRECATED"
    dbs().set_dataset_status(workflow.output_datasets[0], "VALID")
    assert repair_outputs(workflow=workflow, actor="user:olga", reason="lost", now=timezone.now()) == []
    assert access_type(workflow) == "DEPRECATED"
    invalidate_outputs(workflow=workflow, actor="user:olga", reason="wrong", now=timezone.now())
    walk(block)
    assert access_type(workflow) == "INVALID"


@pytest.mark.parametrize(("shared", "status"), [(True, "VALID"), (False, "INVALID")])
def test_shared_and_invalid_datasets_are_not_deprecated(
    shared: bool, status: str, block: OutputBlock, workflow: Workflow
) -> None:
    walk(block)
    if shared:
        walk(add_block(make_workflow(input_dataset="", output_datasets=workflow.output_datasets)))
    dbs().set_dataset_status(workflow.output_datasets[0], status)
    supersede_outputs(workflow=workflow, actor="system:restart", reason="replaced", now=timezone.now())
    assert access_type(workflow) == status
