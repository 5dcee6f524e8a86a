"""The submit page: documents are checked as the API does, with the line of each problem."""

from __future__ import annotations

import json

import pytest
from django.test import Client
from django.urls import reverse

from console.submit.checking import check_text, line_of
from console.submit.views import EXAMPLE
from tests.integration.factories import make_request, make_user
from wms2_project.access.roles import Role

pytestmark = pytest.mark.django_db


def login(role: Role) -> Client:
    browser = Client()
    browser.force_login(make_user(role=role, is_staff=True))
    return browser


def test_the_example_is_correct() -> None:
    found = check_text(EXAMPLE.read_text())
    assert (found.problems, found.request_name) == ([], "my_first_request")


def test_every_problem_has_its_field_and_line() -> None:
    text = (
        EXAMPLE.read_text()
        .replace('"Memory": 500', '"Memory": "lots"')
        .replace("EventsPerJob", "EventPerJob")
    )
    lines = {one.field: one.line for one in check_text(text).problems}
    assert lines == {"EventPerJob": 9, "Memory": 13}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('{\n  "RequestName": "x",\n}', 3, "property name"),
        ("[1]", 1, "must be an object"),
        ("", 1, "Expecting value"),
        ("[" * 100_000, 0, "nested"),
        ('{"a": ' + "9" * 10_000 + "}", 0, "number"),
    ],
)
def test_text_that_is_not_a_document_is_named(text: str, line: int, words: str) -> None:
    (problem,) = check_text(text).problems
    assert problem.line == line
    assert words in problem.message


def test_a_nested_field_is_found_below_its_parent() -> None:
    text = json.dumps({"kind": 1, "payload_config": {"kind": 2}}, indent=1)
    assert line_of("payload_config.kind", text) == 4
    assert line_of("absent", text) == 0


def test_an_earlier_request_gives_its_document_under_another_name() -> None:
    row = make_request(request_name="ana_first", request_data={"RequestName": "ana_first", "Memory": 5})
    html = login(Role.REQUESTOR).get(reverse("console:submit"), {"from": row.request_name}).content.decode()
    assert "ana_first_copy" in html
    assert (
        "There is no request unknown"
        in login(Role.REQUESTOR).get(reverse("console:submit"), {"from": "unknown"}).content.decode()
    )


def test_viewers_may_not_submit() -> None:
    viewer = login(Role.VIEWER)
    assert viewer.get(reverse("console:submit")).status_code == 403
    assert viewer.post(reverse("console:submit-check"), "{}", content_type="text/plain").status_code == 403
    checked = login(Role.REQUESTOR).post(reverse("console:submit-check"), "{}", content_type="text/plain")
    assert checked.json()["problems"]
