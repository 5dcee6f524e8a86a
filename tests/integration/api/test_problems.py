"""Every error below /api/ is a problem document."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from requests_app.models import Request
from tests.integration.conftest import ApiAs
from tests.integration.factories import DOCUMENT, ago, make_token, make_user
from wms2_project.access.roles import Role
from wms2_project.models import ApiToken

pytestmark = pytest.mark.django_db
URL = "/api/v1/requests"
CALL = f"""
import django
django.setup()
from django.test import Client
answer = Client(SERVER_NAME="127.0.0.1").get("{URL}", headers={{"Authorization": "Bearer wms2_any"}})
print(answer.status_code, answer["Retry-After"], answer["Content-Type"], answer.content.decode(), sep="\\n")
"""


def problem(answer: Any, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.content
    assert answer["Content-Type"].startswith("application/problem+json")
    body: dict[str, Any] = json.loads(answer.content)
    assert set(body) >= {"type", "title", "status", "detail", "code", "request_id"}
    assert body["status"] == status
    assert body["request_id"] == answer["X-Request-Id"]
    return body


@pytest.mark.parametrize(
    "path",
    [
        "/api",
        "/api/",
        "/api/v1",
        "/api/v2/requests",
        "/api/v1/requests/",
        "/api/v1/requests/a/b",
        "/api/v1/dags/7",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_unknown_path_is_a_404_problem(viewer: APIClient, path: str, method: str) -> None:
    problem(viewer.generic(method, path), 404)


def test_outside_the_api_a_404_is_a_page(client: Client) -> None:
    answer = client.get("/nowhere")
    assert answer.status_code == 404
    assert answer["Content-Type"].startswith("text/html")


@pytest.mark.parametrize(
    "body",
    [
        b"{", b"", b"\xff\xfe", b'{"a": NaN}', b'{"a": 1e999}', b'{"a": "\\u0000"}', b'{"a": "\\ud800"}',
        b'{"\\u0000": 1}', b"[" * 100_000, b'{"a": ' + b"1" * 5000 + b"}",
    ],
)  # fmt: skip
def test_json_that_cannot_be_read_or_stored_is_a_400(requestor: APIClient, body: bytes) -> None:
    answer = requestor.generic("POST", URL, body, "application/json")  # type: ignore[arg-type]
    problem(answer, 422 if not body else 400)
    assert not Request.objects.exists()


def test_another_content_type_is_a_415(requestor: APIClient) -> None:
    problem(requestor.generic("POST", URL, "a=1", content_type="application/x-www-form-urlencoded"), 415)


def test_a_large_body_is_a_413(requestor: APIClient, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 10_000
    at_the_limit = json.dumps(DOCUMENT)
    at_the_limit += " " * (10_000 - len(at_the_limit))
    assert requestor.generic("POST", URL, at_the_limit, content_type="application/json").status_code == 201
    problem(requestor.generic("POST", URL, at_the_limit + " ", content_type="application/json"), 413)


def test_a_method_that_is_not_offered_is_a_405(viewer: APIClient) -> None:
    answer = viewer.put(URL, {})
    problem(answer, 405)
    assert "GET" in answer["Allow"]


def test_a_format_that_is_not_offered_is_a_406(viewer: APIClient) -> None:
    problem(viewer.get(URL, headers={"Accept": "application/xml"}), 406)


def test_without_login_the_answer_names_the_ways_to_log_in(client: Client) -> None:
    answer = client.get(URL)
    problem(answer, 401)
    assert answer["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("header", ["Bearer", "Bearer wms2_wrong", "Bearer a b", "Bearer \x00"])
def test_a_wrong_token_is_a_401(client: Client, header: str) -> None:
    problem(client.get(URL, headers={"Authorization": header}), 401)


@pytest.mark.parametrize("end", ["expired", "revoked", "inactive"])
def test_a_token_that_ended_is_a_401(client: Client, end: str) -> None:
    user = make_user(role=Role.VIEWER, is_active=end != "inactive")
    token = make_token(user, expires_at=ago(hours=1) if end == "expired" else None)
    if end == "revoked":
        ApiToken.objects.update(revoked_at=ago(hours=1))
    problem(client.get(URL, headers={"Authorization": f"Bearer {token}"}), 401)


def test_a_session_needs_the_csrf_token_to_write() -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(make_user(role=Role.ADMIN))
    answer = browser.post(URL, json.dumps(DOCUMENT), content_type="application/json")
    problem(answer, 403)
    assert not Request.objects.exists()


def test_too_many_calls_are_a_429_with_a_time_to_wait(api_as: ApiAs, settings: Any) -> None:
    settings.THROTTLE_RATES = {"user": "2/minute"}
    client = api_as(Role.VIEWER)
    answers = [client.get("/api/v1/sites") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    problem(answers[-1], 429)
    assert 0 < int(answers[-1]["Retry-After"]) <= 61


def test_without_its_database_and_redis_a_call_is_a_503_with_a_cure() -> None:
    away = {"DATABASE_URL": "postgres://absent@127.0.0.1:1/none", "REDIS_URL": "redis://127.0.0.1:1/0"}
    ran = subprocess.run([sys.executable, "-c", CALL], env=os.environ | away, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    status, retry_after, kind, body = ran.stdout.split("\n", 3)
    assert (status, retry_after, kind) == ("503", "10", "application/problem+json"), ran.stderr[-3000:]
    answer_body = json.loads(body)
    assert (answer_body["detail"], answer_body["cure"]) == ("The database does not answer", "Retry later")


def test_a_bug_is_a_500_without_internal_details(viewer: APIClient, monkeypatch: Any) -> None:
    def broken(*args: Any) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("requests_app.api.requests.render_rows", broken)
    answer = viewer.get(URL)
    assert "secret" not in answer.content.decode()
    assert problem(answer, 500)["code"] == "internal_error"


def test_a_harmless_request_id_is_kept(viewer: APIClient) -> None:
    answer = viewer.get(f"{URL}/unknown", headers={"X-Request-Id": "call-7"})
    assert problem(answer, 404)["request_id"] == "call-7"


@pytest.mark.parametrize("path", ["requests/%00", "requests/%2e%2e", "sites/%0a", "requests/a%2fb"])
def test_strange_paths_are_404s(viewer: APIClient, path: str) -> None:
    problem(viewer.get(f"/api/v1/{path}"), 404)
