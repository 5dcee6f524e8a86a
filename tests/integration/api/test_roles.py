"""Every endpoint × every role. The table is written by hand, the endpoints come from the URLconf."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework.test import APIClient

from tests.integration.conftest import ApiAs
from wms2_project.api.roles import Role

ANONYMOUS, VIEWER, REQUESTOR, OPERATOR = Role.ANONYMOUS, Role.VIEWER, Role.REQUESTOR, Role.OPERATOR
TABLE: dict[str, dict[str, Role]] = {
    "livez": {"GET": ANONYMOUS},
    "readyz": {"GET": ANONYMOUS},
    "health": {"GET": ANONYMOUS},
    "schema": {"GET": ANONYMOUS},
    "docs": {"GET": ANONYMOUS},
    "requests": {"GET": VIEWER, "POST": REQUESTOR},
    "requests/plan": {"POST": REQUESTOR},
    "requests/<request_name:name>": {"GET": VIEWER, "PATCH": REQUESTOR, "DELETE": REQUESTOR},
    "requests/<request_name:name>/release": {"POST": OPERATOR},
    "requests/<request_name:name>/stop": {"POST": OPERATOR},
    "requests/<request_name:name>/abort": {"POST": REQUESTOR},
    "requests/<request_name:name>/timeline": {"GET": VIEWER},
    "requests/<request_name:name>/progress": {"GET": VIEWER},
    "requests/<request_name:name>/ledger": {"GET": VIEWER},
    "requests/<request_name:name>/versions": {"GET": VIEWER},
    "workflows": {"GET": VIEWER},
    "workflows/<uuid:workflow_id>": {"GET": VIEWER},
    "workflows/<uuid:workflow_id>/status": {"GET": VIEWER},
    "admission/queue": {"GET": VIEWER},
    "admission/config": {"GET": VIEWER, "PATCH": OPERATOR},
    "lifecycle/status": {"GET": VIEWER},
    "status": {"GET": VIEWER},
    "dags": {"GET": VIEWER},
    "dags/<uuid:dag_id>": {"GET": VIEWER},
    "dags/<uuid:dag_id>/logs": {"GET": VIEWER},
    "sites": {"GET": VIEWER},
    "sites/<slug:name>": {"GET": VIEWER},
    "sites/<slug:name>/drain": {"POST": OPERATOR},
    "sites/<slug:name>/enable": {"POST": OPERATOR},
}
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def endpoints(resolver: URLResolver | None = None, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every route below /api/v1/ with its view class."""
    for entry in (resolver or get_resolver()).url_patterns:
        route = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from endpoints(entry, route)
        elif isinstance(entry, URLPattern) and route.startswith("api/v1/"):
            yield route.removeprefix("api/v1/"), entry.callback.view_class  # type: ignore[attr-defined]


def test_every_endpoint_has_a_row_in_the_table_and_the_roles_it_says() -> None:
    assert {route: view.roles for route, view in endpoints()} == TABLE


def test_every_method_a_view_offers_names_a_role() -> None:
    for route, view in endpoints():
        offered = {method for method in METHODS if hasattr(view, method.lower())}
        assert offered == set(view.roles), route


@pytest.mark.parametrize("role", list(Role))
def test_each_role_gets_exactly_what_the_table_allows(api_as: ApiAs, role: Role, monkeypatch: Any) -> None:
    monkeypatch.setattr("wms2_project.health.workers_answer", lambda: True)
    client = api_as(role)
    for route, methods in TABLE.items():
        if route == "schema" and role is not Role.ANONYMOUS:
            continue  # takes a second to write, and whoever is let in without a login is let in with one
        url = "/api/v1/" + (
            route.replace("<request_name:name>", "nobody")
            .replace("<slug:name>", "T2_XX_Nowhere")
            .replace("<uuid:workflow_id>", "00000000-0000-0000-0000-000000000000")
            .replace("<uuid:dag_id>", "00000000-0000-0000-0000-000000000000")
        )
        for method in METHODS:
            expected = _expected(methods, method, role)
            assert (method, url, _verdict(client, method, url)) == (method, url, expected)


def _expected(methods: dict[str, Role], method: str, role: Role) -> str:
    if method not in methods:
        return "not offered"
    if role >= methods[method]:
        return "allowed"
    return "log in" if role is Role.ANONYMOUS else "forbidden"


def _verdict(client: APIClient, method: str, url: str) -> str:
    answer = client.generic(method, url, "{}", content_type="application/json")
    assert answer.status_code < 500, answer.content
    return {401: "log in", 403: "forbidden", 405: "not offered"}.get(answer.status_code, "allowed")
