"""Every endpoint × every role. The table is written by hand, the endpoints come from the URLconf."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest
from rest_framework.test import APIClient

from tests.integration.conftest import ApiAs
from tests.integration.factories import OWN_SITE
from wms2_project.access.roles import Role
from wms2_project.api.endpoints import METHODS, endpoints

STARTED_BY_JOBS = "workflows/<uuid:workflow_id>/runners"
ANONYMOUS, VIEWER, REQUESTOR, SITE_ADMIN, OPERATOR, ADMIN = Role
TABLE: dict[str, dict[str, Role]] = {
    "livez": {"GET": ANONYMOUS},
    "readyz": {"GET": ANONYMOUS},
    "health": {"GET": ANONYMOUS},
    "me": {"GET": VIEWER},
    "tokens": {"GET": VIEWER, "POST": VIEWER},
    "tokens/<uuid:token_id>": {"GET": VIEWER, "DELETE": VIEWER},
    "identities": {"GET": ADMIN, "POST": ADMIN},
    "identities/<int:identity_id>": {"GET": ADMIN, "DELETE": ADMIN},
    "schema": {"GET": ANONYMOUS},
    "docs": {"GET": ANONYMOUS},
    "requests": {"GET": VIEWER, "POST": REQUESTOR},
    "requests/batch": {"POST": REQUESTOR},
    "requests/plan": {"POST": REQUESTOR},
    "requests/<request_name:name>": {"GET": VIEWER, "PATCH": REQUESTOR, "DELETE": REQUESTOR},
    "requests/<request_name:name>/release": {"POST": OPERATOR},
    "requests/<request_name:name>/rescue": {"POST": OPERATOR},
    "requests/<request_name:name>/fail": {"POST": OPERATOR},
    "requests/<request_name:name>/invalidate": {"POST": OPERATOR},
    "requests/<request_name:name>/fail-files": {"POST": OPERATOR},
    "requests/<request_name:name>/errors": {"GET": VIEWER},
    "errors": {"GET": VIEWER},
    "alerts": {"GET": VIEWER},
    "alerts/<int:alert_id>/acknowledge": {"POST": OPERATOR},
    "audit": {"GET": OPERATOR},
    "requests/<request_name:name>/submit": {"POST": REQUESTOR},
    "requests/<request_name:name>/stop": {"POST": OPERATOR},
    "requests/<request_name:name>/share": {"POST": OPERATOR},
    "requests/<request_name:name>/abort": {"POST": REQUESTOR},
    "requests/<request_name:name>/restart": {"POST": OPERATOR},
    "requests/<request_name:name>/timeline": {"GET": VIEWER},
    "requests/<request_name:name>/progress": {"GET": VIEWER},
    "requests/<request_name:name>/history": {"GET": VIEWER},
    "requests/<request_name:name>/graph": {"GET": VIEWER},
    "requests/<request_name:name>/graph/nodes": {"GET": VIEWER},
    "requests/<request_name:name>/why": {"GET": VIEWER},
    "requests/<request_name:name>/ledger": {"GET": VIEWER},
    "requests/<request_name:name>/versions": {"GET": VIEWER},
    "requests/<request_name:name>/outputs": {"GET": VIEWER},
    "public/requests/<uuid:request_id>": {"GET": ANONYMOUS},
    "workflows": {"GET": VIEWER},
    "workflows/<uuid:workflow_id>": {"GET": VIEWER},
    "workflows/<uuid:workflow_id>/status": {"GET": VIEWER},
    "workflows/<uuid:workflow_id>/runners": {"GET": VIEWER},
    "templates": {"GET": VIEWER, "POST": OPERATOR},
    "templates/check": {"POST": OPERATOR},
    "templates/<template_name:template>/<int:number>": {"GET": VIEWER, "PATCH": OPERATOR, "DELETE": OPERATOR},
    "templates/<template_name:template>/<int:number>/activate": {"POST": OPERATOR},
    "templates/<template_name:template>/<int:number>/archive": {"POST": OPERATOR},
    "templates/<template_name:template>/<int:number>/start": {"POST": OPERATOR},
    "templates/<template_name:template>/<int:number>/clone": {"POST": OPERATOR},
    "chains": {"GET": VIEWER},
    "chains/<int:number>": {"GET": VIEWER},
    "chains/<int:number>/events": {"GET": VIEWER},
    "chains/<int:number>/graph": {"GET": VIEWER},
    "chains/<int:number>/progress": {"GET": VIEWER},
    "chains/<int:number>/why": {"GET": VIEWER},
    "chains/<int:number>/cleanup": {"GET": VIEWER},
    "chains/<int:number>/cancel": {"POST": OPERATOR},
    "chains/<int:number>/retry": {"POST": OPERATOR},
    "chains/<int:number>/skip": {"POST": OPERATOR},
    "chains/<int:number>/approve": {"POST": OPERATOR},
    "chains/<int:number>/reject": {"POST": OPERATOR},
    "announcements": {"GET": VIEWER},
    "announcements/replay": {"POST": OPERATOR},
    "announcements/<int:announcement_id>": {"GET": VIEWER},
    "announcements/<int:announcement_id>/replay": {"POST": OPERATOR},
    "announcements/<int:announcement_id>/drop": {"POST": OPERATOR},
    "datasets": {"POST": OPERATOR},
    "datasets/lineage": {"GET": VIEWER},
    "metrics/templates": {"GET": VIEWER},
    "workflows/<uuid:workflow_id>/runners/events": {"GET": VIEWER},
    "admission/queue": {"GET": VIEWER},
    "admission/config": {"GET": VIEWER, "PATCH": OPERATOR},
    "quotas": {"GET": REQUESTOR},
    "quotas/<quota_scope:scope>/<quota_name:name>": {"PATCH": OPERATOR},
    "lifecycle/status": {"GET": VIEWER},
    "metrics/workflows": {"GET": VIEWER},
    "metrics/failures": {"GET": VIEWER},
    "metrics/throughput": {"GET": VIEWER},
    "status": {"GET": VIEWER},
    "metrics": {"GET": VIEWER},
    "dags": {"GET": VIEWER},
    "dags/<uuid:dag_id>": {"GET": VIEWER},
    "dags/<uuid:dag_id>/logs": {"GET": VIEWER},
    "dags/<uuid:dag_id>/nodes": {"GET": VIEWER},
    "dags/<uuid:dag_id>/nodes/<group_name:group>/<node_name:node>": {"GET": VIEWER},
    "dags/<uuid:dag_id>/hold": {"POST": OPERATOR},
    "dags/<uuid:dag_id>/release": {"POST": OPERATOR},
    "dags/<uuid:dag_id>/remove": {"POST": OPERATOR},
    "dags/<uuid:dag_id>/rescue": {"POST": OPERATOR},
    "sandboxes": {"PUT": REQUESTOR},
    "quarantine": {"GET": VIEWER},
    "quarantine/<int:replica_id>/lift": {"POST": SITE_ADMIN},
    "schedds": {"GET": VIEWER},
    "schedds/<schedd_name:name>/drain": {"POST": OPERATOR},
    "schedds/<schedd_name:name>/fence": {"POST": OPERATOR},
    "schedds/<schedd_name:name>/enable": {"POST": OPERATOR},
    "sites": {"GET": VIEWER},
    "sites/<slug:name>": {"GET": VIEWER, "PATCH": SITE_ADMIN},
    "sites/<slug:name>/drain": {"POST": SITE_ADMIN},
    "sites/<slug:name>/disable": {"POST": SITE_ADMIN},
    "sites/<slug:name>/maintenance": {"POST": SITE_ADMIN},
    "sites/<slug:name>/enable": {"POST": SITE_ADMIN},
    "sites/<slug:name>/ban": {"POST": SITE_ADMIN, "DELETE": SITE_ADMIN},
}


def test_every_endpoint_has_a_row_in_the_table_with_its_roles() -> None:
    assert {route: view.roles for route, view in endpoints()} == TABLE


def test_every_method_a_view_offers_names_a_role() -> None:
    for route, view in endpoints():
        offered = {method for method in METHODS if hasattr(view, method.lower())}
        assert offered == set(view.roles), route


@pytest.mark.parametrize("role", list(Role))
def test_each_role_gets_exactly_what_the_table_allows(
    api_as: ApiAs, role: Role, own_health: None, settings: Any
) -> None:
    settings.THROTTLE_RATES = dict.fromkeys(settings.THROTTLE_RATES, "10000/minute")
    client = api_as(role)
    for route, methods in TABLE.items():
        if route == "schema" and role is not Role.ANONYMOUS:
            continue  # takes a second to write, and endpoints without login are open to all
        url = "/api/v1/" + (
            re.sub("<int:[a-z_]+>", "1", re.sub("<uuid:[a-z_]+>", str(UUID(int=0)), route))
            .replace("<request_name:name>", "unknown")
            .replace("<quota_scope:scope>/<quota_name:name>", "requestor/ana")
            .replace("<slug:name>", OWN_SITE)  # sites of others are tested in tests/integration/auth
            .replace("<schedd_name:name>", "nowhere@pool")
            .replace("<template_name:template>", "unknown")
            .replace("<group_name:group>/<node_name:node>", "mg_000000/merge")
        )
        for method in METHODS:
            if (method, route) == ("POST", STARTED_BY_JOBS):
                continue  # the same path with a job's token: tests/integration/pull
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
