"""Input of pull requests that grows: outputs of another request, and datasets that are followed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from cms.types import DatasetFile, DatasetInfo
from dags_app.models import Workflow
from dags_app.states import FileState, RoundKind
from outputs_app.models import OutputDataset
from requests_app.lifecycle import handlers
from requests_app.lifecycle.outcome import Move, Outcome, Wait
from requests_app.models import Request
from requests_app.services import finding
from requests_app.states import RequestStatus as S
from tests.integration.factories import make_block, make_group, make_request, make_round, make_workflow
from tests.integration.pull.factories import CERN, FNAL

pytestmark = pytest.mark.django_db
DATASET = "/Muons/Run2031A-v1/RAW"


def request_of(workflow: Workflow) -> Request:
    return Request.objects.select_related("workflow").get(workflow=workflow)


def handled(workflow: Workflow, status: S, *, now: datetime | None = None) -> Outcome:
    """Run the handler of this status; return its outcome."""
    Request.objects.filter(workflow=workflow).update(status=status)
    return handlers.HANDLERS[status](request_of(workflow), now or timezone.now())


@pytest.fixture
def producer(sites: list[str]) -> Workflow:
    made = make_workflow()
    make_request(workflow=made, status=S.ACTIVE)
    make_group(make_round(made))
    return made


@pytest.fixture
def consumer(producer: Workflow) -> Workflow:
    made = make_workflow(allocation="pull", input_dataset=None, input_from=producer)
    make_request(workflow=made, status=S.SUBMITTED)
    return made


def confirm_output(producer: Workflow, **values: Any) -> str:
    """Confirm an output file of the producer; return its LFN."""
    block = make_block(producer.rounds.get().groups.get(), site=FNAL, rse=FNAL, **values)
    return block.files.get().lfn


def lfns(workflow: Workflow) -> set[str]:
    return set(workflow.input_files.values_list("lfn", flat=True))


def test_outputs_of_the_producer_become_input_once(producer: Workflow, consumer: Workflow) -> None:
    first = confirm_output(producer)
    assert isinstance(handled(consumer, S.SUBMITTED), Move)
    assert lfns(consumer) == {first}
    second = confirm_output(producer)
    assert finding.find_files(workflow=consumer, now=timezone.now()) == 1
    assert finding.find_files(workflow=consumer, now=timezone.now()) == 0
    assert lfns(consumer) == {first, second}
    places = consumer.input_files.values_list("place_set__storages", flat=True)
    assert [list(one) for one in places] == [[FNAL], [FNAL]]


def test_logs_and_invalidated_outputs_of_the_producer_are_no_input(
    producer: Workflow, consumer: Workflow
) -> None:
    logs = "/Muons/Run2031A-First-v1/LOG"
    producer.log_dataset = logs
    producer.save()
    dataset = OutputDataset.objects.create(workflow=producer, dataset_name=logs, in_dbs=False)
    confirm_output(producer, dataset=dataset)
    confirm_output(producer, invalidated_at=timezone.now())
    finding.find_files(workflow=consumer, now=timezone.now())
    assert lfns(consumer) == set()


def test_a_consumer_waits_for_its_producer_and_reads_its_last_output(
    producer: Workflow, consumer: Workflow
) -> None:
    handled(consumer, S.SUBMITTED)
    waiting = handled(consumer, S.ACTIVE)
    assert isinstance(waiting, Wait)
    assert waiting.why == f"outputs of {producer.request_name} may follow"
    confirm_output(producer)
    Request.objects.filter(workflow=producer).update(status=S.COMPLETED)
    assert isinstance(handled(consumer, S.ACTIVE), Move)
    assert consumer.input_files.get().state == FileState.FRESH


def test_a_file_confirmed_while_the_producer_ends_is_not_missed(
    producer: Workflow, consumer: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The finder searches, then the last file is confirmed, then the producer ends."""
    handled(consumer, S.SUBMITTED)
    look = finding.may_grow

    def end_meanwhile(**values: Any) -> str:
        confirm_output(producer)
        Request.objects.filter(workflow=producer).update(status=S.COMPLETED)
        return look(**values)

    monkeypatch.setattr(finding, "may_grow", end_meanwhile)
    assert isinstance(handled(consumer, S.ACTIVE), Wait)
    assert consumer.input_files.count() == 1


class GrowingDataset:
    """A DBS and Rucio with one dataset, of which every file is at CERN."""

    def __init__(self) -> None:
        self.files_there: list[DatasetFile] = []

    def add(self, *names: str) -> None:
        block = f"{DATASET}#1"
        self.files_there += [
            DatasetFile(f"/store/data/{name}.root", 10, 100, "0000abcd", block, ((1, 1, 1),))
            for name in names
        ]

    def dataset(self, name: str) -> DatasetInfo:
        count = len(self.files_there)
        return replace(DatasetInfo(name, "VALID", "data", "", 1, "", "", 1, 1, 1, 1, 1), files=count)

    def blocks(self, name: str) -> list[str]:
        return sorted({one.block_name for one in self.files_there})

    def block_files(self, block: str) -> list[DatasetFile]:
        return list(self.files_there)

    def files(self, name: str) -> list[DatasetFile]:
        return list(self.files_there)

    def replicas(self, names: Iterable[str]) -> dict[str, list[str]]:
        return {lfn: [CERN] for lfn in names}


@pytest.fixture
def growing(sites: list[str], adapt: Callable[..., None]) -> GrowingDataset:
    made = GrowingDataset()
    adapt(dbs=made, rucio=made)
    return made


@pytest.fixture
def follower(growing: GrowingDataset) -> Workflow:
    until = timezone.now() + timedelta(hours=1)
    made = make_workflow(allocation="pull", input_dataset=DATASET, follow_input_until=until, located_at=None)
    make_request(workflow=made, status=S.SUBMITTED)
    return made


def test_files_added_to_a_followed_dataset_are_found_until_then(
    follower: Workflow, growing: GrowingDataset
) -> None:
    growing.add("a")
    assert isinstance(handled(follower, S.SUBMITTED), Move)
    growing.add("b")
    later = timezone.now() + timedelta(minutes=50)
    assert finding.find_files(workflow=request_of(follower).workflow, now=later) == 1
    growing.add("c")
    too_late = timezone.now() + timedelta(minutes=70)
    assert finding.find_files(workflow=request_of(follower).workflow, now=too_late) == 0
    assert lfns(follower) == {"/store/data/a.root", "/store/data/b.root"}


def test_a_request_stays_active_while_its_dataset_is_followed(
    follower: Workflow, growing: GrowingDataset
) -> None:
    growing.add("a")
    handled(follower, S.SUBMITTED)
    follower.input_files.update(state=FileState.PROCESSED, round=make_round(follower, kind=RoundKind.PULL))
    waiting = handled(follower, S.ACTIVE)
    assert isinstance(waiting, Wait)
    assert "followed until" in waiting.why
    growing.add("b")
    assert handled(follower, S.ACTIVE, now=timezone.now() + timedelta(minutes=50)) == Move(
        S.QUEUED, "next round: 1 files are not processed yet"
    )


def test_a_request_waits_for_an_empty_dataset_that_it_follows(
    follower: Workflow, growing: GrowingDataset
) -> None:
    waiting = handled(follower, S.SUBMITTED)
    assert isinstance(waiting, Wait)
    assert f"{DATASET} has no valid files" in waiting.why
    growing.add("a")
    assert isinstance(handled(follower, S.SUBMITTED), Move)
