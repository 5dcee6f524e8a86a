"""The calls of runners: what they change, that they may be repeated, and what they refuse."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from dags_app.models import Runner, RunnerCount, RunnerEvent, RunnerOutput, Workflow
from dags_app.pull.ending import end_runner
from dags_app.pull.folding import fold_runners
from dags_app.states import FileState, RoundStatus, RunnerOutcome, RunnerState, UploadState
from outputs_app.models import OutputFile
from requests_app.models import Request
from requests_app.services.runners import geography
from requests_app.states import RequestStatus
from tests.integration.factories import ago, make_claim, make_request
from tests.integration.pull.factories import CERN, FNAL, add_files, make_pull_workflow, open_round
from tests.integration.pull.jobs import Job, output

pytestmark = pytest.mark.django_db


@pytest.fixture
def workflow(sites: list[str]) -> Workflow:
    made = make_pull_workflow(places=[[CERN]] * 5)
    make_claim(made, made.output_datasets[0])
    make_request(workflow=made, status=RequestStatus.ACTIVE)
    return made


def started(workflow: Workflow, **values: Any) -> Job:
    job = Job(workflow, **values)
    job.start()
    return job


def states(workflow: Workflow) -> dict[str, int]:
    found: dict[str, int] = {}
    for state in workflow.input_files.values_list("state", flat=True):
        found[state] = found.get(state, 0) + 1
    return found


def test_a_job_processes_files_and_its_outputs_enter_a_block(workflow: Workflow) -> None:
    job = started(workflow)
    files = job.allocate(3)
    assert [file["pfn"].endswith(file["lfn"]) for file in files] == [True] * 3
    assert {(file["rse"], file["site"]) for file in files} == {(CERN, CERN)}
    done = [file["lfn"] for file in files[:2]]
    recorded = job.record(done, [output("a.root"), output("b.root")])
    assert (recorded["returned"], recorded["outputs"][0]["sites"]) == (1, [CERN, FNAL])
    assert states(workflow) == {"assigned": 2, "attempted": 1, "fresh": 2}
    assert job.confirm(job.upload(recorded, CERN)) == {"outcome": "processed"}
    assert states(workflow) == {"processed": 2, "attempted": 1, "fresh": 2}
    stored = OutputFile.objects.filter(block__dataset__workflow=workflow).order_by("id")
    assert [(file.events, sorted(file.parents), file.block.rse) for file in stored] == [
        (10, sorted(done), CERN)
    ] * 2
    runner = Runner.objects.get()
    assert (runner.state, runner.outcome, runner.files_lent, runner.files_processed) == (
        RunnerState.ENDED, RunnerOutcome.PROCESSED, 3, 2,
    )  # fmt: skip


def test_every_call_may_be_repeated_and_answers_the_same(workflow: Workflow) -> None:
    job = Job(workflow)
    assert job.start() == job.start()
    call = str(uuid4())
    files = job.allocate(2, call=call)
    assert job.allocate(2, call=call) == files
    assert states(workflow) == {"assigned": 2, "fresh": 3}
    body = ([file["lfn"] for file in files], [output("a.root")])
    recorded = job.record(*body)
    assert job.record(*body) == recorded
    uploaded = job.upload(recorded, FNAL)
    assert job.confirm(uploaded) == job.confirm(uploaded)
    assert job.record(*body) == recorded
    assert OutputFile.objects.filter(block__dataset__workflow=workflow).count() == 1
    workflow.refresh_from_db()
    assert workflow.produced_events == 10


def test_a_repeated_allocation_answers_in_the_same_order(workflow: Workflow) -> None:
    workflow.input_files.all().delete()
    add_files(workflow, [[FNAL], [CERN], [FNAL], [CERN]])
    Workflow.objects.filter(pk=workflow.pk).update(max_distance=100)
    job, call = started(workflow), str(uuid4())
    files = job.allocate(4, call=call)
    assert [file["rse"] for file in files] == [CERN, CERN, FNAL, FNAL]
    assert job.allocate(4, call=call) == files


def test_a_repeated_record_returns_the_number_of_returned_files(workflow: Workflow) -> None:
    job = started(workflow)
    body = ([job.allocate(3)[0]["lfn"]], [output("a.root")])
    assert job.record(*body)["returned"] == job.record(*body)["returned"] == 2


def test_outputs_deleted_by_a_failing_job_are_not_leftovers(workflow: Workflow) -> None:
    job = started(workflow)
    names = [output("a.root"), output("b.root")]
    recorded = job.record([job.allocate()[0]["lfn"]], names)["outputs"]
    removed = [one["lfn"] for one in recorded if one["name"] == "a.root"]
    job.call("abort", {"reason": "disk full", "removed": removed})
    assert dict(RunnerOutput.objects.values_list("name", "state")) == {"a.root": "removed", "b.root": "void"}


def test_a_repeated_call_with_another_body_is_refused(workflow: Workflow) -> None:
    job = started(workflow)
    job.start(slot="slot2@node", expect=409)
    call = str(uuid4())
    (file,) = job.allocate(1, call=call)
    job.allocate(2, call=call, expect=409)
    recorded = job.record([file["lfn"]], [output("a.root")])
    job.record([file["lfn"]], [output("b.root")], expect=409)
    job.confirm(job.upload(recorded, CERN))
    job.confirm([{"name": "a.root", "site": FNAL}], expect=409)


def test_an_aborted_job_returns_all_its_files(workflow: Workflow) -> None:
    job = started(workflow)
    job.record([job.allocate(2)[0]["lfn"]], [output("a.root")])
    assert job.abort() == job.abort() == {"outcome": "failed"}
    assert states(workflow) == {"attempted": 2, "fresh": 3}
    assert RunnerOutput.objects.get().state == UploadState.VOID
    job.confirm([{"name": "a.root", "site": CERN}], expect=410)
    assert OutputFile.objects.count() == 0


@pytest.mark.parametrize(("lent", "outcome"), [(0, "late"), (2, "unprocessed")])
def test_a_job_without_processed_files_has_ended_with_its_record(
    workflow: Workflow, lent: int, outcome: str
) -> None:
    job = started(workflow)
    for _ in range(lent):
        job.allocate()
    assert job.record([], [])["ended"]
    assert job.record([], [])["ended"]
    assert Runner.objects.get().outcome == outcome
    job.allocate(expect=410)


def test_a_job_that_was_started_again_replaces_its_runner(workflow: Workflow) -> None:
    first = started(workflow)
    first.allocate(2)
    again = started(workflow)
    assert again.started["runner"] != first.started["runner"]
    assert states(workflow) == {"attempted": 2, "fresh": 3}
    first.call("heartbeat", {}, expect=410)


def test_leftovers_of_a_lost_runner_are_given_to_the_next_one_of_the_site(workflow: Workflow) -> None:
    job = started(workflow)
    recorded = job.record([job.allocate()[0]["lfn"]], [output("a.root")])
    end_runner(runner=Runner.objects.get(), outcome=RunnerOutcome.LOST)
    after = started(workflow, node="proc_000001")
    lfn = recorded["outputs"][0]["lfn"]
    assert [one["lfn"] for one in after.started["remove"]] == [lfn]
    assert after.call("heartbeat", {"removed": [lfn]}) == {"state": "running"}
    assert started(workflow, node="proc_000002").started["remove"] == []


BAD_RECORDS: list[tuple[Any, str]] = [
    ({"processed": ["/store/data/strange.root"], "outputs": []}, "processed"),
    ({"processed": [], "outputs": [], "more": 1}, "more"),
    ({"outputs": [output("a.txt")]}, "outputs[0].name"),
    ({"outputs": [output("a.root"), output("a.root")]}, "outputs[0].name"),
    ({"outputs": [output("../a.root")]}, "outputs[0].name"),
    ({"outputs": [output("a.root", size_bytes=-1)]}, "outputs[0].size_bytes"),
    ({"outputs": [output("a.root", adler32="xyz")]}, "outputs[0].adler32"),
    ({"outputs": [output("a.root", lumis=[[1, 2]])]}, "outputs[0].lumis[0]"),
    ({"outputs": [output(f"{number}.root") for number in range(1001)]}, "outputs"),
]


@pytest.mark.parametrize(("changes", "field"), BAD_RECORDS)
def test_bad_records_name_the_field_and_change_nothing(
    workflow: Workflow, changes: dict[str, Any], field: str
) -> None:
    job = started(workflow)
    lfn = job.allocate()[0]["lfn"]
    answer = job.call("record", {"processed": [lfn], "outputs": []} | changes, expect=422)
    assert list(answer["errors"]) == [field]
    assert states(workflow) == {"assigned": 1, "fresh": 4}
    assert RunnerOutput.objects.count() == 0


def test_an_output_that_differs_on_the_storage_is_not_confirmed(workflow: Workflow, settings: Any) -> None:
    settings.CHECK_OUTPUTS = True
    job = started(workflow)
    recorded = job.record([job.allocate()[0]["lfn"]], [output("a.root", size_bytes=3)])
    answer = job.confirm(job.upload(recorded, CERN), expect=422)
    assert "bytes on storage, 3 were recorded" in answer["errors"]["outputs[0].name"]
    assert states(workflow)["assigned"] == 1


def test_sites_that_are_unknown_or_banned_are_refused(workflow: Workflow) -> None:
    assert "there is no site T2_XX_New" in Job(workflow, site="T2_XX_New").start(expect=422)["detail"]
    workflow.site_blacklist = [FNAL]
    workflow.save()
    geography.forget()
    assert "may not be used" in Job(workflow, site=FNAL).start(expect=422)["detail"]


def test_nothing_is_lent_once_the_request_or_round_is_over(workflow: Workflow) -> None:
    job, request = started(workflow), Request.objects.get(workflow=workflow)
    for status in (RequestStatus.HELD, RequestStatus.STOPPING, RequestStatus.ABORTED):
        Request.objects.filter(pk=request.pk).update(status=status)
        job.allocate(expect=410)
        Job(workflow, node="proc_000001").start(expect=410)
    Request.objects.filter(pk=request.pk).update(status=RequestStatus.ACTIVE)
    workflow.rounds.update(status=RoundStatus.RESOLVED)
    job.allocate(expect=410)
    job.call("heartbeat", {}, expect=410)
    assert states(workflow) == {"fresh": 5}


def test_too_many_failed_runners_stop_lending(workflow: Workflow) -> None:
    for number in range(20):
        job = started(workflow, node=f"proc_{number:06d}")
        job.abort()
    assert "20 of 20 runners failed" in open_round(workflow).lending_stopped_reason
    job = Job(workflow, node="proc_000099")
    assert "20 of 20 runners failed" in job.start(expect=410)["detail"]


def test_an_outage_of_rucio_is_reported_with_a_time_to_wait(workflow: Workflow, monkeypatch: Any) -> None:
    job = started(workflow)
    monkeypatch.setattr("requests_app.services.runners.lending._rucio_outage", lambda moment: "timeout")
    job.allocate(expect=503)
    assert int(job.answer.headers["Retry-After"]) > 0
    assert states(workflow) == {"fresh": 5}


def test_runners_of_old_rounds_are_folded_into_counts(workflow: Workflow) -> None:
    job = started(workflow)
    files = job.allocate(2)
    recorded = job.record([file["lfn"] for file in files], [output("a.root")])
    job.confirm(job.upload(recorded, CERN))
    started(workflow, node="proc_000001").abort()
    workflow.rounds.update(status=RoundStatus.RESOLVED, resolved_at=ago(days=15))
    fold_runners(now=timezone.now())
    counts = RunnerCount.objects.order_by("outcome").values_list(
        "site", "outcome", "runners", "files_processed"
    )
    assert list(counts) == [(CERN, "failed", 1, 0), (CERN, "processed", 1, 2)]
    assert Runner.objects.count() == RunnerEvent.objects.count() == 0
    assert states(workflow) == {"processed": 2, "fresh": 3}


def test_failed_files_are_excluded_and_cannot_be_confirmed(workflow: Workflow, operator: Any) -> None:
    job = started(workflow)
    (file,) = job.allocate()
    recorded = job.record([file["lfn"]], [output("a.root")])
    url = f"/api/v1/requests/{workflow.request_name}/fail-files"
    assert operator.post(url, {"reason": "lost", "lfns": [file["lfn"]]}).status_code == 200
    job.confirm(job.upload(recorded, CERN), expect=410)
    assert states(workflow) == {"excluded": 1, "fresh": 4}
    assert operator.post(url, {"reason": "no more", "state": "fresh"}).status_code == 200
    assert states(workflow) == {"excluded": 5}
    assert operator.post(url, {"reason": "both"}).status_code == 422


def test_the_ledger_has_the_terms_of_justin(workflow: Workflow, viewer: Any) -> None:
    add_files(workflow, [[]])
    add_files(workflow, [[CERN]], state=FileState.ATTEMPTED, attempts=6)
    started(workflow, node="proc_000001").allocate()
    job = started(workflow)
    job.record([job.allocate()[0]["lfn"]], [output("a.root")])
    found = viewer.get(f"/api/v1/requests/{workflow.request_name}/ledger").json()["pull"]
    assert found == {
        "finding": 1, "unallocated": 3, "allocated": 1, "outputting": 1, "processed": 0, "failed": 1,
    }  # fmt: skip


def test_events_record_the_history_of_a_file(workflow: Workflow, viewer: Any) -> None:
    job = started(workflow)
    (file,) = job.allocate()
    job.abort()
    url = f"/api/v1/workflows/{workflow.pk}/runners/events?lfn={file['lfn']}"
    rows = viewer.get(url).json()["results"]
    assert [(row["kind"], row["files"]) for row in rows] == [
        ("reset", [file["lfn"]]), ("allocated", [file["lfn"]]),
    ]  # fmt: skip


def test_runners_are_listed_for_users(workflow: Workflow, viewer: Any) -> None:
    job = started(workflow)
    job.allocate(2)
    (row,) = viewer.get(f"/api/v1/workflows/{workflow.pk}/runners?state=running").json()["results"]
    assert (row["site"], row["files_lent"], row["outcome"]) == (CERN, 2, None)
    assert workflow.input_files.filter(state=FileState.ASSIGNED, runner_id=row["id"]).count() == 2
