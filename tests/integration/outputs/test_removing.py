"""Removal of complete datasets: DELETED in DBS, without rules in Rucio, and only what is WMS2's own."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from dags_app.adapters import dbs, rucio
from dags_app.models import Workflow
from outputs_app.models import OutputBlock, OutputDataset, RucioRule
from outputs_app.selectors import datasets_of, removal_of
from outputs_app.services import find_differences, invalidate_outputs, remove_dataset
from outputs_app.states import BlockStatus, DatasetStatus
from requests_app.selectors.requests import unfinished_readers
from requests_app.states import RequestStatus
from tests.integration.factories import make_claim, make_request, make_workflow
from tests.integration.outputs.blocks import add_block, announce, walk
from tests.integration.outputs.conftest import Faults
from wms2_project.errors import Conflict
from wms2_project.models import AuditEvent

pytestmark = pytest.mark.django_db


@pytest.fixture
def complete(workflow: Workflow, lab: Any) -> OutputDataset:
    """Return an announced dataset of two blocks."""
    lab("PUT", "settings", {"rule_delay_sec": 0})
    for _ in range(2):
        walk(add_block(workflow))
    announce(workflow)
    return OutputDataset.objects.get(workflow=workflow)


def remove(dataset: OutputDataset | str, **values: Any) -> int:
    return remove_dataset(
        dataset_name=str(dataset), actor="system:chains", reason="no consumer is left", now=timezone.now(),
        **values,
    )  # fmt: skip


def swept(dataset: OutputDataset) -> list[str]:
    return [walk(block).status for block in dataset.blocks.order_by("block_name")]


def live_rules(dataset: OutputDataset) -> list[RucioRule]:
    found = []
    for rule in RucioRule.objects.filter(block__dataset=dataset):
        seen = rucio().rule(rule.rule_id)
        if seen is not None and seen.expires_at is None:
            found.append(rule)
    return found


def test_a_removed_dataset_is_deleted_in_dbs_and_has_no_rules(complete: OutputDataset) -> None:
    before = removal_of(dataset_name=str(complete))
    assert (before.blocks, before.files, before.rules, before.obstacle) == (2, 4, 2, "")
    assert remove(complete) == 2
    assert not removal_of(dataset_name=str(complete)).done

    assert swept(complete) == [BlockStatus.INVALIDATED] * 2
    info = dbs().dataset(str(complete))
    assert info is not None
    assert (info.access_type, live_rules(complete)) == ("DELETED", [])
    after = removal_of(dataset_name=str(complete))
    assert (after.status, after.rules, after.done) == (DatasetStatus.REMOVED, 0, True)
    assert [one.status for one in datasets_of(workflow=complete.workflow)] == ["removed"]
    assert find_differences(workflow=complete.workflow) == []


def test_a_repeated_removal_changes_and_records_nothing(complete: OutputDataset) -> None:
    remove(complete)
    swept(complete)

    assert remove(complete) == 0
    assert AuditEvent.objects.filter(action="remove_dataset", target=str(complete)).count() == 1


def test_only_the_rules_are_deleted_if_dbs_is_to_stay_as_it_is(complete: OutputDataset) -> None:
    remove(complete, only_rules=True)
    swept(complete)

    info = dbs().dataset(str(complete))
    assert info is not None
    assert (info.access_type, live_rules(complete)) == ("VALID", [])
    assert removal_of(dataset_name=str(complete)).status == DatasetStatus.RELEASED
    assert find_differences(workflow=complete.workflow) == []


def test_a_service_that_fails_meanwhile_only_delays_it(complete: OutputDataset, faults: Faults) -> None:
    remove(complete)
    faults({"service": "rucio", "path_regex": ".*", "kind": "status", "status": 503, "times": None})
    for block in complete.blocks.all():
        walk(block, looks=1)
    assert not removal_of(dataset_name=str(complete)).done
    faults()

    assert swept(complete) == [BlockStatus.INVALIDATED] * 2
    assert live_rules(complete) == []


def test_an_unfinished_dataset_is_not_removed(workflow: Workflow, block: OutputBlock) -> None:
    walk(block)

    with pytest.raises(Conflict, match="has not completed it"):
        remove(block.dataset)


def test_a_dataset_that_others_write_into_is_not_removed(complete: OutputDataset) -> None:
    make_claim(make_workflow(), str(complete))

    with pytest.raises(Conflict, match="write into it"):
        remove(complete)


def test_a_dataset_wms2_has_not_written_is_not_removed() -> None:
    with pytest.raises(Conflict, match="WMS2 has not written it"):
        remove("/Foreign/Dataset-v1/AOD")
    assert removal_of(dataset_name="/Foreign/Dataset-v1/AOD").status == ""


def test_an_invalidation_leaves_a_removed_dataset_as_it_is(complete: OutputDataset) -> None:
    remove(complete)
    swept(complete)
    invalidate_outputs(workflow=complete.workflow, actor="user:olga", reason="wrong", now=timezone.now())

    complete.refresh_from_db()
    info = dbs().dataset(str(complete))
    assert info is not None
    assert (complete.status, info.access_type) == (DatasetStatus.REMOVED, "DELETED")


def test_readers_are_unfinished_requests_of_any_kind_of_input() -> None:
    name = "/Read/Me-v1/AOD"
    for request, values in {
        "first": {"input_dataset": name},
        "further": {"further_input_datasets": [name]},
        "pileup": {"secondary_input_datasets": [name]},
        "other": {},
    }.items():
        make_request(request_name=request, workflow=make_workflow(request_name=request, **values))
    ended = make_workflow(input_dataset=name)
    make_request(workflow=ended, status=RequestStatus.COMPLETED)

    assert unfinished_readers(dataset=name) == ["first", "further", "pileup"]
