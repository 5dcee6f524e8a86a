"""One requestor or group cannot fill WMS2: requests, submissions, queued jobs and storage have limits."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.utils import timezone
from rest_framework.test import APIClient

from dags_app.models import DAG, Workflow
from dags_app.states import DAGStatus, SplittingAlgo
from requests_app import admission
from requests_app.lifecycle.advance import advance
from requests_app.lifecycle.due import claim_requests, due_groups
from requests_app.models import Request
from requests_app.services.importing import import_request
from requests_app.services.quotas import change_quota
from requests_app.services.releasing import release_request
from requests_app.services.stopping import abort_request
from requests_app.states import RequestStatus as S
from tests.integration.conftest import ApiAs
from tests.integration.factories import (
    DOCUMENT,
    ago,
    make_dag,
    make_group,
    make_request,
    make_round,
    make_site,
    make_workflow,
)
from wms2_project.access.roles import Role
from wms2_project.errors import QuotaExceeded

URL = "/api/v1/requests"
pytestmark = pytest.mark.django_db


def allow(name: str = "ana", scope: str = "requestor", **limits: int | None) -> None:
    change_quota(scope=scope, name=name, changes=limits, actor="user:olga", reason="test")


def document(number: int, **values: Any) -> dict[str, Any]:
    own = {"request_name": f"r{number}", "output_datasets": [f"/Muons/Run2031A-Quota{number}-v1/AOD"]}
    return DOCUMENT | own | values


# Submissions and open requests


def test_submissions_beyond_the_hourly_limit_are_refused_with_the_time_to_retry(
    requestor: APIClient, operator: APIClient
) -> None:
    allow(submissions_per_hour=2)
    assert [requestor.post(URL, document(n)).status_code for n in range(2)] == [201, 201]
    Request.objects.filter(request_name="r0").update(created_at=ago(minutes=40))
    requestor.delete(f"{URL}/r0?reason=to+make+room")  # an end gives no submission back

    answer = requestor.post(URL, document(3))

    assert (answer.status_code, answer.json()["code"]) == (429, "quota_exceeded")
    assert answer.json()["detail"] == "requestor ana: 2 of 2 submissions in the last hour"
    assert 1190 <= int(answer["Retry-After"]) <= 1201
    assert operator.post(URL, document(3, requestor="ana")).status_code == 429  # from any account
    assert operator.post(URL, document(3, requestor="bob")).status_code == 201
    Request.objects.filter(request_name="r0").update(created_at=ago(minutes=61))
    assert requestor.post(URL, document(4)).status_code == 201


@pytest.mark.parametrize("draft", [False, True])
def test_open_requests_end_at_the_limit_drafts_included(requestor: APIClient, draft: bool) -> None:
    allow(open_requests=2)
    make_request(status=S.COMPLETED)
    make_request(status=S.HELD)
    assert requestor.post(URL, document(1, draft=draft)).status_code == 201
    answer = requestor.post(URL, document(2, draft=draft))
    assert (answer.status_code, answer.json()["detail"]) == (429, "requestor ana: 2 of 2 open requests")
    assert "operator" in answer.json()["cure"]
    assert "Retry-After" not in answer
    assert not Workflow.objects.filter(request_name="r2").exists()
    requestor.delete(f"{URL}/r1?reason=enough")
    assert requestor.post(URL, document(2)).status_code == 201


def test_members_of_a_batch_are_counted_one_by_one(requestor: APIClient) -> None:
    allow(open_requests=2)
    body = requestor.post(f"{URL}/batch", {"requests": [document(n) for n in range(4)]}).json()
    assert [one["status"] for one in body["results"]] == [201, 201, 429, 429]


def test_a_group_has_a_quota_of_its_own_that_its_members_share(api_as: ApiAs) -> None:
    allow("higgs", "group", open_requests=2)
    member = Group.objects.create(name="member:higgs")
    clients = [api_as(Role.REQUESTOR, name) for name in ("ana", "bob", "cyd")]
    member.user_set.add(*User.objects.filter(username__in=["ana", "bob", "cyd"]))
    answers = [
        client.post(URL, document(number, requestor=name, group="higgs"))
        for number, (client, name) in enumerate(zip(clients, ("ana", "bob", "cyd"), strict=True))
    ]
    assert [answer.status_code for answer in answers] == [201, 201, 429]
    assert answers[2].json()["detail"] == "group higgs: 2 of 2 open requests"
    assert clients[2].post(URL, document(7, requestor="cyd")).status_code == 201


def test_a_repeated_call_is_answered_and_not_counted(requestor: APIClient) -> None:
    allow(submissions_per_hour=1, open_requests=1)
    key = {"Idempotency-Key": "k"}
    first, again = (requestor.post(URL, document(1), headers=key) for _ in range(2))
    assert (first.status_code, again.status_code, again.json()) == (201, 201, first.json())


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("limit", ["open_requests", "submissions_per_hour"])
def test_many_calls_at_once_store_no_more_than_the_limit(limit: str) -> None:
    allow(**{limit: 3})
    stored = at_once(8, lambda n: import_request(document=document(n), actor="user:ana"))
    assert (stored, Request.objects.count()) == (3, 3)


@pytest.mark.django_db(transaction=True)
def test_the_same_call_many_times_at_once_is_one_submission() -> None:
    allow(open_requests=1, submissions_per_hour=1)
    stored = at_once(6, lambda n: import_request(document=document(1), actor="user:ana", idempotency_key="k"))
    assert (stored, Request.objects.count()) == (6, 1)


def at_once(count: int, call: Any) -> int:
    """Make all calls at the same moment on sessions of their own; return how many were not refused."""
    barrier = threading.Barrier(count)

    def work(number: int) -> bool:
        try:
            barrier.wait(timeout=60)
            call(number)
            return True
        except QuotaExceeded:
            return False
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as pool:
        return sum(pool.map(work, range(count)))


# Queued jobs and storage


def runnable(**values: Any) -> Request:
    """Return a queued request without input that needs no pilot."""
    flow = {"input_dataset": None, "total_events": 10} | values.pop("workflow", {})
    return make_request(status=S.QUEUED, urgent=True, workflow=make_workflow(**flow), **values)


def running(jobs: int, **values: Any) -> Request:
    row = make_request(status=S.ACTIVE, **values)
    make_dag(make_round(row.workflow, jobs=jobs), total_nodes=100, nodes_done=0)
    return row


def planned(jobs: int, status: S = S.QUEUED, **values: Any) -> Request:
    """Return a request whose round is planned and not submitted."""
    row = runnable(**values)
    round_ = make_round(row.workflow, jobs=jobs)
    make_group(round_, jobs=jobs)
    make_dag(round_, status=DAGStatus.READY, submitted_at=None, total_nodes=100, nodes_done=0)
    Request.objects.filter(pk=row.pk).update(status=status)
    return row


def step(row: Request) -> str:
    advance(row.pk)
    row.refresh_from_db()
    return str(row.status)


def test_queued_jobs_make_a_request_wait_with_the_numbers_while_others_pass(viewer: APIClient) -> None:
    make_site()
    admission.change_limits(changes={"max_active_dags": 2}, actor="user:olga", reason="test")
    allow(queued_jobs=100)
    running(120)
    waits = [runnable(priority=9) for _ in range(3)]
    behind = runnable(requestor="bob", priority=5)

    assert [step(row) for row in waits] == ["queued"] * 3
    result = "requestor ana: 120 of 100 queued jobs"
    assert {(row.wait_gate, row.wait_reason) for row in waits} == {("quota", result)}
    why = viewer.get(f"{URL}/{waits[0].request_name}/why").json()
    assert why["summary"] == result
    rows = viewer.get("/api/v1/admission/queue").json()["results"]
    shown = {row["request_name"]: (row["gate"], row["wait_reason"], row["position"]) for row in rows}
    assert shown[waits[0].request_name] == ("quota", result, None)
    assert step(behind) == "planning"


def test_done_jobs_make_room() -> None:
    make_site()
    allow(queued_jobs=100)
    running(120)
    row = runnable()
    assert step(row) == "queued"
    DAG.objects.update(nodes_done=50)
    assert step(row) == "planning"


def test_the_end_of_a_request_wakes_those_that_wait_for_its_jobs() -> None:
    make_site()
    allow(queued_jobs=100)
    first = running(120)
    row, other = runnable(), running(1, requestor="bob")
    step(row)
    due = timezone.now() + timedelta(seconds=200)
    row.refresh_from_db()
    assert row.next_check_at > due
    abort_request(request=other, actor="user:olga", reason="test")
    row.refresh_from_db()
    assert row.next_check_at > due
    abort_request(request=first, actor="user:olga", reason="test")
    row.refresh_from_db()
    assert row.next_check_at < due


def test_a_larger_quota_wakes_those_that_wait_for_it() -> None:
    make_site()
    allow(queued_jobs=100)
    running(120)
    row = runnable()
    step(row)
    allow(queued_jobs=1000)
    claims = [claim.id for claim, _ in claim_requests(due_groups())]
    assert row.pk in claims


def test_a_planned_round_waits_until_its_jobs_fit() -> None:
    make_site()
    allow(queued_jobs=100)
    running(60)
    row = planned(50)
    assert step(row) == "queued"
    assert row.wait_reason == "requestor ana: 60 of 100 queued jobs, and this request needs 50"
    DAG.objects.filter(status=DAGStatus.RUNNING).update(nodes_done=20)
    assert step(row) == "planning"


def test_of_two_rounds_planned_at_once_the_second_returns_to_the_queue() -> None:
    make_site()
    allow(queued_jobs=100)
    first, second = planned(60), planned(60)
    assert (step(first), step(second)) == ("planning", "queued")
    Request.objects.filter(pk=second.pk).update(status=S.PLANNING)  # as if both had been planned at once
    second.refresh_from_db()
    assert step(second) == "queued"
    assert not DAG.objects.exclude(status=DAGStatus.READY).exists()


def test_a_request_that_alone_exceeds_the_quota_is_held_with_the_number_and_the_cure() -> None:
    make_site()
    allow(queued_jobs=100)
    row = planned(101, status=S.PLANNING)
    assert step(row) == "held"
    assert row.last_error == "requestor ana: this request alone needs 101, the quota is 100 queued jobs"
    assert row.hold_evidence is not None
    assert (row.hold_evidence["gate"], "operator" in row.hold_evidence["remedy"]) == ("quota", True)
    allow(queued_jobs=101)
    release_request(request=row, actor="user:olga", reason="it may now", now=timezone.now())
    assert step(row) == "planning"


@pytest.mark.parametrize(("limit", "status"), [(9, "held"), (12, "queued")])
def test_a_round_is_compared_with_the_quota_as_soon_as_it_is_planned(
    limit: int, status: str, settings: Any, tmp_path: Path
) -> None:
    settings.SUBMIT_ROOT = str(tmp_path)
    make_site()
    allow(queued_jobs=limit)
    running(5)
    splitting = {"splitting_algo": SplittingAlgo.EVENT_BASED, "splitting_params": {"events_per_job": 10}}
    row = runnable(workflow={"total_events": 100} | splitting)
    assert step(row) == "planning"  # the number of jobs is not known yet
    assert step(row) == status
    assert DAG.objects.get(workflow=row.workflow).status == DAGStatus.READY
    if status == "held":
        assert row.last_error == "requestor ana: this request alone needs 10, the quota is 9 queued jobs"
    else:
        step(row)
        assert row.wait_reason == "requestor ana: 5 of 12 queued jobs, and this request needs 10"


def test_requested_storage_has_a_limit_that_a_small_declaration_does_not_evade() -> None:
    make_site()
    allow(storage_gb=100)
    row = make_request(status=S.ACTIVE, workflow=generating(80))
    wants = runnable(workflow={"total_events": 30 * 10**6, "size_per_event_kb": 1.0})
    assert step(wants) == "queued"
    assert wants.wait_reason == "requestor ana: 80 of 100 GB of storage, and this request needs 30"
    Request.objects.filter(pk=row.pk).update(status=S.COMPLETED)
    numbers = {"output_size_per_event_kb": 4.0, "memory_mb": 2000, "events_per_job": 9, "time_per_job_sec": 9}
    report = {"recommended": numbers, "iterations": [{"events": 10, "wall_time_sec": 10}]}
    Workflow.objects.filter(pk=wants.workflow_id).update(pilot_metrics=report)
    assert step(wants) == "held"
    assert "this request alone needs 120, the quota is 100 GB of storage" in wants.last_error


def generating(gb: int) -> Workflow:
    return make_workflow(input_dataset=None, total_events=gb * 10**6, size_per_event_kb=1.0)


def test_a_quota_of_one_requestor_does_not_stop_the_jobs_of_another() -> None:
    make_site()
    allow("*", queued_jobs=100, storage_gb=10)
    running(500, workflow=generating(500))
    row = runnable(requestor="bob")
    assert step(row) == "planning"


# Access to quotas


def test_a_requestor_sees_own_quotas_only_and_changes_none(requestor: APIClient, operator: APIClient) -> None:
    make_request(requestor="bob", group="top")
    make_request(requestor="ana", group="higgs")
    User.objects.get(username="ana").groups.add(Group.objects.create(name="member:higgs"))
    seen = requestor.get("/api/v1/quotas").json()["quotas"]
    assert [(one["scope"], one["name"], one["usage"]["open_requests"]) for one in seen] == [
        ("requestor", "ana", 1),
        ("group", "higgs", 1),
    ]
    every = operator.get("/api/v1/quotas").json()["quotas"]
    assert {one["name"] for one in every} == {"*", "ana", "bob", "top", "higgs"}
    raised = {"open_requests": 9, "reason": "more"}
    assert requestor.patch("/api/v1/quotas/requestor/ana", raised).status_code == 403
