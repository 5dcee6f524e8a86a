"""A requestor cannot take over another's request, nor use another's name, group or position in the queue."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from rest_framework.test import APIClient

from dags_app.adapters import build_reqmgr2, use_adapters
from requests_app.models import Request
from tests.integration.conftest import ApiAs
from tests.integration.factories import DOCUMENT, make_document, make_request
from tests.stand_in import FromSettings
from wms2_project.access.roles import Role

pytestmark = pytest.mark.django_db
URL = "/api/v1/requests"
NAME = DOCUMENT["request_name"]
BY_NAME = {"request_name": NAME, "source": "reqmgr2"}
Known = Callable[..., None]


@pytest.fixture
def reqmgr2(settings: Any) -> Iterator[Known]:
    """Yield a ReqMgr2 with one document, which a test sets."""
    document: dict[str, Any] = dict(DOCUMENT)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"result": [{NAME: document}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Silence."""

    def known(**values: Any) -> None:
        document.update(values)
        for name in [name for name, value in document.items() if value is None]:
            del document[name]

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/reqmgr2"
    settings.CMS_SERVICES = settings.CMS_SERVICES | {"reqmgr2_url": url}
    with use_adapters(reqmgr2=FromSettings(build_reqmgr2)):
        yield known
    server.shutdown()
    server.server_close()


@pytest.fixture
def mallory(api_as: ApiAs) -> APIClient:
    return api_as(Role.REQUESTOR, "mallory")


def join(name: str, *groups: str) -> None:
    user = User.objects.get(username=name)
    user.groups.add(*(Group.objects.get_or_create(name=f"member:{one}")[0] for one in groups))


@pytest.mark.parametrize("draft", [False, True])
def test_a_user_cannot_import_the_request_of_another_from_reqmgr2(
    reqmgr2: Known, mallory: APIClient, requestor: APIClient, draft: bool
) -> None:
    """Otherwise mallory could abort it, and its name would be taken."""
    answer = mallory.post(URL, BY_NAME | {"draft": draft})
    assert (answer.status_code, "ana" in answer.json()["detail"]) == (403, True), answer.json()
    assert not Request.objects.exists()
    assert requestor.post(URL, BY_NAME).status_code == 201


@pytest.mark.parametrize("written", ["Ana", "ANA", "ana-2"])
def test_names_are_compared_exactly(reqmgr2: Known, requestor: APIClient, written: str) -> None:
    reqmgr2(requestor=written)
    assert requestor.post(URL, BY_NAME).status_code == 403


def test_a_document_of_reqmgr2_without_a_requestor_has_no_owner(reqmgr2: Known, requestor: APIClient) -> None:
    reqmgr2(requestor=None)
    assert requestor.post(URL, BY_NAME).status_code == 403
    assert not Request.objects.exists()


def test_a_request_imported_by_an_operator_belongs_to_its_requestor(
    reqmgr2: Known, operator: APIClient, requestor: APIClient, mallory: APIClient
) -> None:
    assert operator.post(URL, BY_NAME).status_code == 201
    row = Request.objects.get()
    assert (row.requestor, row.submitted_by) == ("ana", "olga")
    assert mallory.delete(f"{URL}/{NAME}?reason=mine").status_code == 403
    assert requestor.delete(f"{URL}/{NAME}?reason=wrong").status_code == 200


@pytest.mark.parametrize("spelling", ["requestor", "Requestor"])
def test_a_document_does_not_name_another_requestor(mallory: APIClient, spelling: str) -> None:
    document = {name: value for name, value in DOCUMENT.items() if name != "requestor"}
    answer = mallory.post(URL, document | {spelling: "ana"})
    assert (answer.status_code, answer.json()["cure"] != "") == (403, True), answer.json()
    batch = mallory.post(f"{URL}/batch", {"requests": [document | {spelling: "ana"}]}).json()
    assert batch["results"][0]["status"] == 403
    assert not Request.objects.exists()
    assert mallory.post(URL, document).status_code == 201
    assert Request.objects.get().requestor == "mallory"


def test_a_draft_from_reqmgr2_is_no_way_to_a_higher_priority(reqmgr2: Known, requestor: APIClient) -> None:
    """The priority in ReqMgr2 is kept; a priority set by the requestor has the usual limit."""
    reqmgr2(priority=600_000)
    assert requestor.post(URL, BY_NAME | {"draft": True}).status_code == 201

    def edit(**changes: Any) -> int:
        return requestor.patch(f"{URL}/{NAME}", {"reason": "sooner", **changes}).status_code

    assert edit(memory_mb=3000) == 200
    assert edit(priority=1_000_000) == 403
    assert edit(document={"RequestPriority": 600_001}) == 403
    assert Request.objects.get().priority == 600_000
    assert edit(priority=400_000) == 200


def test_a_requestor_uses_only_groups_of_their_own(requestor: APIClient, settings: Any) -> None:
    settings.OPEN_GROUPS = ["DATAOPS"]
    join("ana", "higgs")
    for group, status in (
        ("top", 403),
        ("Higgs", 403),
        ("member:top", 422),
        ("higgs", 201),
        ("DATAOPS", 201),
    ):
        document = make_document(group=group)
        answer = requestor.post(URL, document)
        assert (group, answer.status_code) == (group, status), answer.json()
    assert sorted(Request.objects.values_list("group", flat=True)) == ["DATAOPS", "higgs"]


def test_a_requestor_without_a_group_names_none_or_an_open_one(requestor: APIClient, settings: Any) -> None:
    settings.OPEN_GROUPS = ["DATAOPS"]
    answer = requestor.post(URL, DOCUMENT | {"group": "higgs"})
    assert (answer.status_code, "higgs" in answer.json()["detail"]) == (403, True)
    assert requestor.post(URL, DOCUMENT).status_code == 201


def test_an_operator_names_any_group_and_reqmgr2s_stands(
    reqmgr2: Known, operator: APIClient, requestor: APIClient
) -> None:
    reqmgr2(group="top")
    assert requestor.post(URL, BY_NAME).status_code == 201
    assert operator.post(URL, make_document(group="higgs")).status_code == 201


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_draft_is_not_moved_to_another_group(requestor: APIClient, dry_run: bool) -> None:
    join("ana", "higgs")
    assert requestor.post(URL, DOCUMENT | {"group": "higgs", "draft": True}).status_code == 201
    body = {"reason": "more room there", "dry_run": dry_run}
    answer = requestor.patch(f"{URL}/{NAME}", body | {"document": {"Group": "top"}})
    assert answer.status_code == 403
    assert requestor.patch(f"{URL}/{NAME}", body | {"memory_mb": 3000}).status_code == 200
    assert Request.objects.get().group == "higgs"


def test_a_membership_is_no_role(api_as: ApiAs) -> None:
    nina = api_as(Role.ANONYMOUS)
    user = User.objects.create_user("nina")
    join("nina", "higgs", "operator")
    nina.force_authenticate(user)
    assert nina.get(URL).status_code == 403


@pytest.mark.parametrize("source", ["document", "draft", "reqmgr2"])
def test_no_interface_replaces_a_request_of_another_user(
    reqmgr2: Known, requestor: APIClient, source: str
) -> None:
    make_request(request_name="bobs", requestor="bob", submitted_by="bob")
    replaces = {"previous_version_request": "bobs"}
    if source == "document":
        answer = requestor.post(URL, DOCUMENT | replaces)
    elif source == "reqmgr2":
        reqmgr2(**replaces)
        answer = requestor.post(URL, BY_NAME)
    else:
        assert requestor.post(URL, DOCUMENT | {"draft": True}).status_code == 201
        answer = requestor.patch(f"{URL}/{NAME}", {"reason": "newer", "document": replaces})
    assert answer.status_code == 403, answer.json()
    assert not Request.objects.filter(previous_version__isnull=False).exists()
