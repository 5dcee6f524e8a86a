"""Flower shows no secret, needs a login, and limits password guessing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
import requests
from celery.worker.control import conf
from django.test import Client

from lab.ports import PortBook
from tests.integration.factories import make_user
from wms2_project.access.roles import Role
from wms2_project.celery import app

USER, PASSWORD = "operator", "correct-horse-battery"
CONSOLE = "https://wms2.example.org"
START_SEC = 60.0
PAGES = [
    "/", "/workers", "/tasks", "/broker", "/api/workers", "/api/tasks", "/api/queues/length", "/metrics",
    "/static/js/flower.js", "/login", "/nowhere", "/worker/any",
]  # fmt: skip


@pytest.fixture
def flower(tmp_path: Path, settings: Any) -> Iterator[str]:
    """Run a separate Flower; yield its address."""
    port = PortBook(tmp_path / "ports.json").pick("flower")
    database = {**settings.DATABASES["default"]}
    login = f"{database['USER']}:{database['PASSWORD']}@{database['HOST']}:{database['PORT']}"
    used = {"SECRET_KEY": settings.SECRET_KEY, "DATABASE_URL": f"postgres://{login}/{database['NAME']}"}
    own = {"FLOWER_BASIC_AUTH": f"{USER}:{PASSWORD}", "WMS2_THROTTLE_FAILURES": "20/year"}
    env = {**os.environ, **used, **own, "WMS2_URL": CONSOLE}
    log = (tmp_path / "flower.log").open("wb")
    argv = [sys.executable, "-m", "wms2_project.flower", "--address=127.0.0.1", f"--port={port}"]
    process = subprocess.Popen(argv, env=env, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        end = time.monotonic() + START_SEC
        while not answers(url):
            assert process.poll() is None, (tmp_path / "flower.log").read_text()
            assert time.monotonic() < end, (tmp_path / "flower.log").read_text()
            time.sleep(0.1)
        yield url
    finally:
        process.kill()
        process.wait()
        log.close()


def answers(url: str) -> bool:
    try:
        return status(f"{url}/healthcheck") == 200
    except OSError:
        return False


def status(url: str, password: str = "", session: str = "") -> int:
    call = urllib.request.Request(url)
    if session:
        call.add_header("Cookie", f"sessionid={session}")
    if password:
        call.add_header("Authorization", f"Basic {b64encode(f'{USER}:{password}'.encode()).decode()}")
    try:
        with urllib.request.urlopen(call, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_every_page_needs_the_password_and_guessing_ends(flower: str) -> None:
    assert {page: status(flower + page) for page in PAGES} == dict.fromkeys(PAGES, 401)
    assert status(f"{flower}/broker", PASSWORD) == 200
    guesses = [status(f"{flower}/broker", f"guess {n}") for n in range(20)]
    assert set(guesses[:5]) == {401}
    assert guesses[-1] == 429
    assert status(f"{flower}/broker", PASSWORD) == 429  # a correct guess among wrong ones fails
    assert status(f"{flower}/healthcheck") == 200


def test_flower_does_not_start_without_a_password() -> None:
    env = {name: value for name, value in os.environ.items() if name != "FLOWER_BASIC_AUTH"}
    argv = [sys.executable, "-m", "wms2_project.flower", "--port=1"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "FLOWER_BASIC_AUTH" in done.stderr


def test_a_worker_reports_no_secret_of_the_settings(settings: Any) -> None:
    """Flower's worker page and `celery inspect conf` print this answer of a worker."""

    class State:
        pass

    state = State()
    state.app = app  # type: ignore[attr-defined]
    result = json.dumps(conf(state, with_defaults=True))
    password = settings.REDIS_URL.partition("@")[0].rpartition(":")[2]
    assert len(password) > 10
    assert password not in result
    assert "broker_url" in result
    assert "REDIS_URL" not in result
    assert "DATABASES" not in result
    assert "CMS_SERVICES" not in result


@pytest.mark.parametrize(("role", "answer"), [(Role.OPERATOR, 200), (Role.SITE_ADMIN, 401), (None, 401)])
@pytest.mark.django_db(transaction=True)
def test_the_console_session_of_an_operator_is_enough(flower: str, role: Role | None, answer: int) -> None:
    browser = Client()
    browser.force_login(make_user(role=role))
    assert status(f"{flower}/broker", session=browser.cookies["sessionid"].value) == answer


@pytest.mark.django_db(transaction=True)
def test_a_browser_without_a_session_is_redirected_to_the_login(flower: str, settings: Any) -> None:
    accepts = {"Accept": "text/html,*/*;q=0.8"}
    sent = requests.get(f"{flower}/tasks?limit=5", headers=accepts, allow_redirects=False, timeout=10)
    url = "/admin/console/flower?page=%2Ftasks%3Flimit%3D5"
    assert (sent.status_code, sent.headers["Location"]) == (303, f"{CONSOLE}{url}")
    settings.FLOWER_URL = flower
    browser = Client()
    asked = browser.get(url)
    login = f"/admin/login/?{urlencode({'next': url}, safe='/')}"
    assert (asked.status_code, asked["Location"]) == (302, login)
    browser.force_login(make_user(role=Role.OPERATOR))
    arrived = browser.get(url)
    assert (arrived.status_code, arrived["Refresh"]) == (200, f"0; url={flower}/tasks?limit=5")
    browser.force_login(make_user(role=Role.VIEWER, is_staff=True))
    assert browser.get(url).status_code == 403


@pytest.mark.django_db
@pytest.mark.parametrize(
    "page", ["", "//evil.example", "@evil.example", ".evil.example", "https://evil.example", "/\r\nX: y"]
)
def test_the_console_leads_to_flower_only(settings: Any, page: str) -> None:
    settings.FLOWER_URL = "https://wms2.example.org:5555"
    browser = Client()
    browser.force_login(make_user(role=Role.OPERATOR))
    target = urlsplit(browser.get("/admin/console/flower", {"page": page})["Refresh"].partition("url=")[2])
    assert (target.hostname, target.port) == ("wms2.example.org", 5555)
