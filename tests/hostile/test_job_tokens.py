"""Tokens of jobs: each is valid for the calls of its kind and its own runner only."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import pytest
from django.urls import get_resolver
from rest_framework.test import APIClient

from dags_app.models import Workflow
from requests_app.states import RequestStatus
from tests.integration.factories import make_request, make_site, make_token, make_user
from tests.integration.pull.factories import CERN, make_pull_workflow
from tests.integration.pull.jobs import Job
from wms2_project.access.roles import Role
from wms2_project.api.endpoints import METHODS, endpoints

pytestmark = pytest.mark.django_db
CALLS = ("runners", "heartbeat", "allocate", "record", "confirm", "abort")
OPENS = {"group": {"runners"}, "runner": {"heartbeat", "record", "confirm", "abort"}, "files": {"allocate"}}


def make_job(name: str) -> Job:
    workflow = make_pull_workflow(places=[[CERN]], request_name=name)
    make_request(workflow=workflow, status=RequestStatus.ACTIVE)
    job = Job(workflow)
    job.start()
    return job


@pytest.fixture
def jobs(db: None) -> tuple[Job, Job]:
    make_site(CERN)
    return make_job("mine"), make_job("theirs")


def tokens(job: Job) -> dict[str, str]:
    return {"group": job.token, "runner": job.started["runner_token"], "files": job.started["files_token"]}


def status_of(workflow: Workflow, call: str, token: str) -> int:
    client = APIClient(raise_request_exception=False)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return int(client.post(f"/api/v1/workflows/{workflow.pk}/{call}", {}, format="json").status_code)


@pytest.mark.parametrize("kind", list(OPENS))
def test_a_token_opens_the_calls_of_its_kind_only(jobs: tuple[Job, Job], kind: str) -> None:
    mine, theirs = jobs
    for call in CALLS:
        answer = status_of(mine.workflow, call, tokens(mine)[kind])
        assert (call, answer == 401) == (call, call not in OPENS[kind])
        assert (call, status_of(theirs.workflow, call, tokens(mine)[kind])) == (call, 401)


@pytest.mark.parametrize("kind", list(OPENS))
def test_a_stolen_token_opens_no_endpoint_of_people(
    jobs: tuple[Job, Job], kind: str, settings: Any, own_health: None
) -> None:
    settings.THROTTLE_RATES = dict.fromkeys(settings.THROTTLE_RATES, "100000/minute")
    client = APIClient(raise_request_exception=False)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {tokens(jobs[0])[kind]}")
    for route, view in endpoints():
        url = "/api/v1/" + re.sub("<uuid:[a-z_]+>", str(jobs[0].workflow.pk), route)
        url = re.sub("<int:[a-z_]+>", "1", re.sub("<[a-z_]+:[a-z_]+>", "unknown", url))
        for method in METHODS:
            if view.roles.get(method, Role.ADMIN) is Role.ANONYMOUS or (method, route[-8:]) == (
                "POST",
                "/runners",
            ):
                continue
            answer = client.generic(method, url, "{}", content_type="application/json")
            assert (method, url, answer.status_code) in {
                (method, url, 401),
                (method, url, 404),
                (method, url, 405),
            }


def test_no_token_of_people_opens_a_call_of_jobs(jobs: tuple[Job, Job]) -> None:
    admin = make_token(make_user(role=Role.ADMIN))
    for call in CALLS:
        assert (call, status_of(jobs[0].workflow, call, admin)) == (call, 401)
        assert (call, status_of(jobs[0].workflow, call, f"wms2j.runner.{uuid4()}.AAAA")) == (call, 401)


def test_the_calls_of_jobs_are_the_only_views_that_the_role_table_leaves_out() -> None:
    left_out = {view.__name__ for view in _views(get_resolver()) if getattr(view, "for_jobs", False)}
    assert left_out == {"HeartbeatView", "AllocateView", "RecordView", "ConfirmView", "AbortView"}


def test_tokens_are_not_logged(jobs: tuple[Job, Job], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    job = jobs[0]
    job.allocate()
    job.call("record", {"processed": 1}, expect=422)
    job.post("abort", {}, token=job.started["files_token"], expect=401)
    assert not [token for token in tokens(job).values() if token in caplog.text]


def _views(resolver: Any) -> list[Any]:
    found: list[Any] = []
    for entry in resolver.url_patterns:
        if hasattr(entry, "url_patterns"):
            found += _views(entry)
        elif hasattr(entry.callback, "view_class"):
            found.append(entry.callback.view_class)
    return found
