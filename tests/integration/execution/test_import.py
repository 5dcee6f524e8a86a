"""From a document to a ledger: by body or by name, with input in the lab's DBS and Rucio."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from dags_app.models import Workflow
from dags_app.services.input_files import NoInput, resolve_input
from requests_app.models import Request
from requests_app.services.importing import import_by_name, import_request
from tests.integration.factories import make_workflow
from wms2_project.errors import Conflict, InvalidInput, NotFound

pytestmark = pytest.mark.django_db
OPERATOR: dict[str, Any] = {"actor": "user:olga", "on_behalf": True}


def test_a_request_is_imported_by_name_from_reqmgr2(samples: list[dict[str, Any]]) -> None:
    name = samples[0]["RequestName"]
    made, created = import_by_name(request_name=name, **OPERATOR)
    assert created
    assert (made.request_name, made.source, made.status) == (name, "reqmgr2", "submitted")
    assert made.request_data["InputDataset"] == samples[0]["InputDataset"]
    assert made.workflow.input_dataset == samples[0]["InputDataset"]


def test_a_name_unknown_to_reqmgr2_is_refused(db: None) -> None:
    with pytest.raises(NotFound, match="no request named unknown_request"):
        import_by_name(request_name="unknown_request", actor="user:ana")


def test_the_same_key_answers_the_first_request_and_another_document_is_refused(
    documents: list[dict[str, Any]],
) -> None:
    first, _ = import_request(document=documents[0], **OPERATOR, idempotency_key="k1")
    again, created = import_request(document=documents[0], **OPERATOR, idempotency_key="k1")
    assert (again.pk, created) == (first.pk, False)
    with pytest.raises(Conflict, match="another document"):
        import_request(document=documents[1], **OPERATOR, idempotency_key="k1")


def test_a_name_is_taken_once(documents: list[dict[str, Any]]) -> None:
    import_request(document=documents[0], **OPERATOR)
    with pytest.raises(Conflict, match="already exists"):
        import_request(document=documents[0], actor="user:ben", on_behalf=True)


def test_a_bad_document_stores_nothing_and_names_every_field(documents: list[dict[str, Any]]) -> None:
    broken = documents[0] | {"RequestPriority": -1, "SplittingAlgo": "ByMagic", "InputDataset": "nonsense"}
    with pytest.raises(InvalidInput) as result:
        import_request(document=broken, actor="user:ana")
    assert set(result.value.fields) == {"RequestPriority", "SplittingAlgo", "InputDataset"}
    assert not Request.objects.exists()
    assert not Workflow.objects.exists()


def test_a_request_of_another_system_is_not_changed(documents: list[dict[str, Any]]) -> None:
    with pytest.raises(InvalidInput, match="wmcore"):
        import_request(document=documents[0] | {"wms_backend": "wmcore"}, **OPERATOR)


def test_the_ledger_holds_every_file_once_with_its_storages(workflow: Workflow) -> None:
    again = resolve_input(workflow=workflow, now=timezone.now())
    assert again.files == workflow.input_files.count() == 8
    assert all(file.locations and file.adler32 and file.lumis for file in workflow.input_files.all())


def test_a_dataset_unknown_to_dbs_is_refused(db: None) -> None:
    workflow = make_workflow(input_dataset="/Unknown/Dataset-v1/RAW")
    with pytest.raises(NoInput, match="dataset /Unknown/Dataset-v1/RAW is not in DBS"):
        resolve_input(workflow=workflow, now=timezone.now())


def test_a_selection_that_leaves_nothing_is_refused(documents: list[dict[str, Any]], db: None) -> None:
    workflow = make_workflow(
        input_dataset=documents[2]["InputDataset"], splitting_params={"run_whitelist": [999_999]}
    )
    with pytest.raises(NoInput, match=r"exclude all 8 files"):
        resolve_input(workflow=workflow, now=timezone.now())
