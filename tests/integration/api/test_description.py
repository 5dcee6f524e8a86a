"""The OpenAPI description is complete, free of warnings, and served without any other host."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.staticfiles import finders
from django.core.management import call_command
from django.test import Client
from drf_spectacular.generators import SchemaGenerator

from tests.integration.api.test_roles import TABLE
from wms2_project.access.roles import Role

pytestmark = pytest.mark.django_db
UNDOCUMENTED = {"schema", "docs"}
PLAIN = {re.sub(r"<\w+:(\w+)>", r"{\1}", route): methods for route, methods in TABLE.items()}


@pytest.fixture
def described(client: Client) -> dict[str, Any]:
    answer = client.get("/api/v1/schema", headers={"Accept": "application/vnd.oai.openapi+json"})
    assert answer.status_code == 200
    body: dict[str, Any] = answer.json()
    return body


def test_the_description_is_valid_and_without_warnings(tmp_path: Path) -> None:
    call_command("spectacular", "--validate", "--fail-on-warn", "--file", str(tmp_path / "schema.yml"))
    assert (tmp_path / "schema.yml").read_text().startswith("openapi: 3")


def test_every_endpoint_and_method_is_described(described: dict[str, Any]) -> None:
    paths = {
        path.removeprefix("/api/v1/"): {method.upper() for method in item if method != "parameters"}
        for path, item in described["paths"].items()
    }
    assert paths == {route: set(methods) for route, methods in PLAIN.items() if route not in UNDOCUMENTED}


def test_every_operation_describes_its_problem_responses(described: dict[str, Any]) -> None:
    for path, item in described["paths"].items():
        for method, operation in item.items():
            answers = set(operation["responses"])
            assert "405" in answers, (method, path)
            if PLAIN[path.removeprefix("/api/v1/")][method.upper()] is not Role.ANONYMOUS:
                assert {"401", "403", "429", "503"} <= answers, (method, path)
            if method == "get":
                narrowed = "fields" in {one["name"] for one in operation.get("parameters", ())}
                assert narrowed == (path != "/api/v1/metrics"), path
            if method in ("post", "patch"):
                assert {"400", "413", "415", "422"} <= answers, (method, path)
            if "{" in path:
                assert "404" in answers, (method, path)


def test_an_action_needs_its_reason_in_the_description_too(described: dict[str, Any]) -> None:
    body = described["paths"]["/api/v1/requests/{name}"]["patch"]["requestBody"]["content"][
        "application/json"
    ]
    schema = described["components"]["schemas"][body["schema"]["$ref"].rpartition("/")[2]]
    assert schema["required"] == ["reason"]


def test_a_ban_for_all_has_no_request_name(described: dict[str, Any]) -> None:
    name = described["components"]["schemas"]["BanRow"]["properties"]["request_name"]
    assert name["nullable"] or "null" in name["type"]


def test_the_docs_page_needs_no_other_host(client: Client) -> None:
    page = client.get("/api/v1/docs").content.decode()
    sources = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert len(sources) >= 4
    assert [source for source in sources if not source.startswith("/")] == []
    for source in sources:
        if source.startswith("/static/"):
            assert finders.find(source.removeprefix("/static/")), source
    assert not re.search(r"<script>", page), "the page must do without inline scripts"


def test_the_docs_script_reads_our_description(client: Client) -> None:
    answer = client.get("/api/v1/docs?script=")
    assert answer["Content-Type"].startswith("application/javascript")
    assert "/api/v1/schema" in answer.content.decode()


def test_the_description_is_written_once_per_process(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Generating it takes seconds, and it is public."""
    first = client.get("/api/v1/schema")
    monkeypatch.setattr(SchemaGenerator, "get_schema", None)
    again = client.get("/api/v1/schema")
    assert (again.content, again["Content-Type"]) == (first.content, first["Content-Type"])
    assert again.content.startswith(b"openapi: 3")
