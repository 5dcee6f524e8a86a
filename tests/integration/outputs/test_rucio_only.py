"""Datasets that are in Rucio only: no step calls DBS."""

from __future__ import annotations

import pytest
from django.utils import timezone

from dags_app.adapters import dbs, rucio
from dags_app.models import Workflow
from lab.cms_world.server import World
from outputs_app.models import OutputBlock, OutputDataset
from outputs_app.selectors import datasets_of
from outputs_app.services import find_differences, invalidate_outputs, repair_outputs
from outputs_app.states import BlockStatus
from tests.integration.factories import make_claim
from tests.integration.outputs.blocks import add_block, announce, walk
from tests.integration.outputs.conftest import Faults
from tests.integration.outputs.test_reconciling import forget

pytestmark = pytest.mark.django_db


@pytest.fixture
def logs(workflow: Workflow, faults: Faults) -> OutputBlock:
    """Return a block of the workflow's log dataset; DBS refuses every call."""
    name = workflow.output_datasets[0].replace("/AOD", "/LOG")
    Workflow.objects.filter(pk=workflow.pk).update(log_dataset=name)
    make_claim(workflow, name)
    OutputDataset.objects.create(workflow=workflow, dataset_name=name, in_dbs=False)
    faults({"service": "dbs", "path_regex": ".*", "kind": "status", "status": 503, "times": None})
    return add_block(workflow, dataset=name)


def test_a_block_is_protected_and_announced_without_dbs(logs: OutputBlock, workflow: Workflow) -> None:
    assert walk(logs).status == BlockStatus.ANNOUNCED
    announce(workflow)

    assert logs.dbs_registered_at is None
    assert rucio().block_counts(logs.block_name) is not None
    (shown,) = datasets_of(workflow=workflow)
    assert (shown.status, shown.in_dbs) == ("announced", False)
    assert find_differences(workflow=workflow) == []


def test_losses_in_rucio_are_found_and_repaired(logs: OutputBlock, workflow: Workflow, world: World) -> None:
    walk(logs)
    announce(workflow)
    forget(world, "rucio_rules", "name", logs.block_name)
    assert [one.where for one in find_differences(workflow=workflow)] == ["Rucio"]

    left = repair_outputs(workflow=workflow, actor="user:olga", reason="lost", now=timezone.now())
    assert {one.theirs for one in left} <= {"REPLICATING"}


def test_invalidating_deletes_the_rules(logs: OutputBlock, workflow: Workflow) -> None:
    walk(logs)
    invalidate_outputs(workflow=workflow, actor="user:olga", reason="wrong", now=timezone.now())

    assert walk(logs).status == BlockStatus.INVALIDATED
    assert not logs.rules.filter(deleted_at__isnull=True).exists()


def test_a_name_that_belongs_to_another_request_is_refused(logs: OutputBlock) -> None:
    logs.dataset.workflow.claims.all().delete()
    walk(logs, looks=2)

    assert (logs.status, "has no claim" in logs.last_error) == (BlockStatus.CHECKED, True)


def test_no_call_goes_to_dbs(logs: OutputBlock, workflow: Workflow, faults: Faults) -> None:
    walk(logs)
    announce(workflow)
    faults()

    assert dbs().dataset(logs.dataset.dataset_name) is None
