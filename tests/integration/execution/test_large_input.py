"""Input of many blocks: read in pieces that fit into a task, each block once, and checked by a few calls."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from cms.http import JsonService
from dags_app import selectors
from dags_app.adapters import dbs, use_adapters
from dags_app.models import Workflow
from dags_app.services import input_files
from dags_app.services.input_files import InputLost, check_input, resolve_input
from requests_app.lifecycle.advance import advance
from requests_app.states import RequestStatus
from tests.integration.execution.factories import add_block, note_locks
from tests.integration.factories import make_file, make_request, make_workflow
from tests.stand_in import Overridden
from wms2_project.errors import ServiceUnavailable

pytestmark = pytest.mark.django_db
BLOCKS = ["a", "b", "c", "d"]


@pytest.fixture
def dataset() -> str:
    """Return a dataset of four blocks with two files each."""
    name = f"/Large/Input{time.time_ns()}-v1/RAW"
    for block in BLOCKS:
        add_block(name, block)
    return name


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts the calls to DBS by path."""
    counts: Counter[str] = Counter()
    get = JsonService.get

    def counting(self: JsonService, path: str, *args: Any, **values: Any) -> Any:
        counts[path] += 1
        return get(self, path, *args, **values)

    monkeypatch.setattr(JsonService, "get", counting)
    return counts


def test_a_call_that_is_out_of_time_leaves_the_rest_to_the_next(dataset: str, asked: Counter[str]) -> None:
    workflow = make_workflow(input_dataset=dataset)
    left = []
    for _ in BLOCKS:
        again = Workflow.objects.get(pk=workflow.pk)
        left.append(resolve_input(workflow=again, now=timezone.now(), seconds=0).blocks_left)
    assert left == [3, 2, 1, 0]
    assert asked["filelumis"] == len(BLOCKS), "each block is read once"
    workflow.refresh_from_db()
    assert workflow.input_resolved_at is not None
    assert (workflow.input_files.count(), workflow.input_events) == (8, 800)


def test_a_failed_call_keeps_the_data_it_has_read(dataset: str, asked: Counter[str]) -> None:
    workflow = make_workflow(input_dataset=dataset)
    read: Callable[[str], Any] = dbs().block_files

    def broken(block: str) -> Any:
        if block.endswith("#c"):
            raise ServiceUnavailable("DBS is away")
        return read(block)

    with use_adapters(dbs=Overridden(dbs(), block_files=broken)), pytest.raises(ServiceUnavailable):
        resolve_input(workflow=workflow, now=timezone.now())
    assert workflow.input_files.count() == 4
    again = Workflow.objects.get(pk=workflow.pk)
    assert again.input_resolved_at is None
    assert resolve_input(workflow=again, now=timezone.now()).files == 8
    assert asked["filelumis"] == len(BLOCKS)


def test_unselected_blocks_are_not_read(dataset: str, asked: Counter[str]) -> None:
    workflow = make_workflow(
        input_dataset=dataset, splitting_params={"block_whitelist": [f"{dataset}#b", f"{dataset}#c"]}
    )
    assert resolve_input(workflow=workflow, now=timezone.now()).files == 4
    assert asked["filelumis"] == 2


def test_a_submitted_request_shows_the_progress_of_its_input(dataset: str, settings: Any) -> None:
    settings.INPUT_LOOK_SEC = 0.0
    request = make_request(workflow=make_workflow(input_dataset=dataset))
    advance(request.pk)
    request.refresh_from_db()
    assert (request.status, request.wait_reason) == (
        RequestStatus.SUBMITTED, "reading the input from DBS: 3 blocks left",
    )  # fmt: skip
    for _ in BLOCKS[1:]:
        advance(request.pk)
    request.refresh_from_db()
    assert request.status == RequestStatus.QUEUED


def test_a_released_request_reads_its_input_without_the_admission_lock(
    dataset: str, monkeypatch: pytest.MonkeyPatch, adapt: Callable[..., None]
) -> None:
    request = make_request(workflow=make_workflow(input_dataset=dataset), status=RequestStatus.QUEUED)
    held, seen = note_locks(monkeypatch), []
    read: Callable[[str], Any] = dbs().block_files

    def noting(block: str) -> Any:
        seen.append(list(held))
        return read(block)

    adapt(dbs=Overridden(dbs(), block_files=noting))
    advance(request.pk)
    assert seen == [[f"request {request.pk}"]] * len(BLOCKS)


def test_unchanged_input_is_checked_with_two_calls(dataset: str, asked: Counter[str]) -> None:
    workflow = make_workflow(input_dataset=dataset)
    resolve_input(workflow=workflow, now=timezone.now())
    asked.clear()
    check_input(workflow=Workflow.objects.get(pk=workflow.pk))
    assert asked == {"datasets": 1, "filesummaries": 1}


def test_changed_input_is_listed_once_and_then_known(dataset: str, asked: Counter[str]) -> None:
    workflow = make_workflow(input_dataset=dataset)
    resolve_input(workflow=workflow, now=timezone.now())
    add_block(dataset, "e")
    for _ in range(2):
        check_input(workflow=Workflow.objects.get(pk=workflow.pk))
    assert asked["files"] == len(BLOCKS) + 1


def test_a_file_that_was_replaced_by_a_like_one_is_missed(dataset: str) -> None:
    """The sums are unchanged, but the time of the last change of the dataset is not."""
    workflow = make_workflow(input_dataset=dataset)
    resolve_input(workflow=workflow, now=timezone.now())
    seen = dict(Workflow.objects.get(pk=workflow.pk).input_seen or {})
    lost = f"/store/data{dataset}/a0.root"
    dbs().invalidate_files([lost])
    add_block(dataset, "e", files=1)
    Workflow.objects.filter(pk=workflow.pk).update(input_seen=seen | {"blocks": 5, "changed_at": 1})
    with pytest.raises(InputLost, match=f"1 files of the input are not valid in DBS any more.*{lost}"):
        check_input(workflow=Workflow.objects.get(pk=workflow.pk))


def test_a_file_that_was_invalidated_while_the_rest_was_read_is_missed(dataset: str) -> None:
    workflow = make_workflow(input_dataset=dataset)
    resolve_input(workflow=workflow, now=timezone.now(), seconds=0)
    dbs().invalidate_files([f"/store/data{dataset}/a0.root"])
    again = Workflow.objects.get(pk=workflow.pk)
    assert resolve_input(workflow=again, now=timezone.now()).files == 8
    with pytest.raises(InputLost, match="1 files of the input are not valid"):
        input_files.check_input(workflow=Workflow.objects.get(pk=workflow.pk))


def test_the_ledger_is_the_same_however_often_its_ranges_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    workflow = make_workflow()
    for number in (5, 1, 3, 2, 4, 9):
        make_file(workflow, lumis=[[1, 10 * number, 10 * number + 9]])
    at_once = selectors.ledger_of(workflow=workflow)
    monkeypatch.setattr(selectors, "MAX_RANGES", 1)
    assert selectors.ledger_of(workflow=workflow) == at_once
    assert isinstance(at_once, selectors.InputLedger)
    assert at_once.states["fresh"].lumis == {"1": [[10, 59], [90, 99]]}
