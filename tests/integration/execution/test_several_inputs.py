"""Requests that process several datasets together."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from cms.types import BlockRecord
from dags_app.adapters import dbs, use_adapters
from dags_app.models import Workflow
from dags_app.services import pilot
from dags_app.services.estimating import current_estimate
from dags_app.services.input_files import InputLost, NoInput, check_input, resolve_input
from outputs_app.steps import register
from tests.integration.execution.factories import add_block
from tests.integration.factories import make_document, make_request, make_workflow
from tests.integration.outputs.blocks import add_block as add_output_block
from tests.integration.outputs.blocks import make_producer
from tests.stand_in import Overridden

pytestmark = pytest.mark.django_db


@pytest.fixture
def datasets() -> list[str]:
    """Return two datasets; one has one block, the other two, with two files of 100 events each."""
    first, second = (f"/Several/{name}{time.time_ns()}-v1/RAW" for name in ("B", "A"))
    add_block(first, "x")
    add_block(second, "y")
    add_block(second, "z")
    return [first, second]


def workflow_of(datasets: list[str], **values: Any) -> Workflow:
    return make_workflow(input_dataset=datasets[0], further_input_datasets=datasets[1:], **values)


def test_the_ledger_has_the_files_of_all_inputs_even_if_read_in_pieces(datasets: list[str]) -> None:
    workflow = workflow_of(datasets)
    left = [resolve_input(workflow=workflow, now=timezone.now(), seconds=0).blocks_left for _ in range(3)]

    assert left == [2, 1, 0]
    workflow.refresh_from_db()
    assert (workflow.input_files.count(), workflow.input_events) == (6, 600)
    check_input(workflow=workflow)


def test_each_input_must_be_readable(datasets: list[str]) -> None:
    with pytest.raises(NoInput, match="/Unknown/Dataset-v1/RAW"):
        resolve_input(workflow=workflow_of([*datasets, "/Unknown/Dataset-v1/RAW"]), now=timezone.now())


def test_an_input_that_is_lost_later_is_named(datasets: list[str]) -> None:
    workflow = workflow_of(datasets)
    resolve_input(workflow=workflow, now=timezone.now())
    dbs().set_dataset_status(datasets[1], "INVALID")

    with pytest.raises(InputLost, match=f"{datasets[1]} has become INVALID"):
        check_input(workflow=workflow)


def test_a_merge_needs_no_pilot_because_its_output_is_as_large_as_its_input(datasets: list[str]) -> None:
    workflow = workflow_of(datasets, payload_config={"kind": "merge"}, size_per_event_kb=512.0)
    resolve_input(workflow=workflow, now=timezone.now())

    assert not pilot.is_wanted(workflow=workflow, urgent=False)
    assert current_estimate(workflow).size_per_event_kb == pytest.approx(10 / 1024)


def test_all_inputs_are_parents_of_the_output_in_dbs(datasets: list[str]) -> None:
    producer = make_producer()
    Workflow.objects.filter(pk=producer.pk).update(
        input_dataset=datasets[0], further_input_datasets=datasets[1:]
    )
    producer.refresh_from_db()
    sent: list[BlockRecord] = []
    with use_adapters(dbs=Overridden(dbs(), register_block=sent.append)):
        register(add_output_block(producer), timezone.now())

    assert [replace(one, files=()).parent_datasets for one in sent] == [tuple(datasets)]


def test_requests_are_imported_shown_and_found_by_each_input(
    operator: APIClient, datasets: list[str]
) -> None:
    document = make_document(input_datasets=datasets)
    del document["input_dataset"]
    assert operator.post("/api/v1/requests", document).status_code == 201
    make_request()

    shown = operator.get(f"/api/v1/requests/{document['request_name']}").json()
    assert (shown["input_dataset"], shown["input_datasets"]) == (datasets[0], datasets)
    for dataset in datasets:
        found = operator.get("/api/v1/requests", {"input_dataset": dataset}).json()["results"]
        assert [row["request_name"] for row in found] == [document["request_name"]]
