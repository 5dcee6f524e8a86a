"""Certificates are accepted only if a trusted proxy reports them."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client, RequestFactory

from tests.integration.factories import make_user
from wms2_project.access.people import link_identity, unlink_identity
from wms2_project.access.proxies import client_address, normal_dn, without_proxy
from wms2_project.access.roles import Role
from wms2_project.errors import Conflict
from wms2_project.models import X509, AuditEvent, Identity

pytestmark = pytest.mark.django_db
DN = "/DC=ch/DC=cern/OU=Users/CN=ana/CN=123456/CN=Ana Example"
ROBOT = "/DC=ch/DC=cern/OU=Robots/CN=Robot: wms2"
PROXY = "10.1.2.3"


@pytest.fixture(autouse=True)
def _proxy(settings: Any) -> None:
    settings.TRUSTED_PROXIES = ["10.1.0.0/16", "::1"]
    link(make_user("ana", role=Role.REQUESTOR), DN)


def link(user: Any, dn: str) -> Identity:
    return link_identity(user=user, issuer=X509, subject=dn, actor="user:adam", reason="a new certificate")


def me(dn: str = DN, *, peer: str = PROXY, verify: str = "SUCCESS", **headers: str) -> Any:
    said = {"X-SSL-Client-S-DN": dn, "X-SSL-Client-Verify": verify} | headers
    return Client(REMOTE_ADDR=peer).get("/api/v1/me", headers=said)


@pytest.mark.parametrize(
    "dn",
    [
        DN,
        "CN=Ana Example,CN=123456,CN=ana,OU=Users,DC=cern,DC=ch",
        f"{DN}/CN=proxy",
        f"{DN}/CN=1234567890/CN=987654321",
    ],
)
def test_the_linked_person_is_known_in_every_spelling_and_by_proxy(dn: str) -> None:
    answer = me(dn)
    assert (answer.status_code, answer.json()) == (
        200,
        {"username": "ana", "actor": "user:ana", "role": "requestor", "sites": [], "groups": []},
    )
    assert Identity.objects.get().last_used_at


@pytest.mark.parametrize("peer", ["10.2.0.1", "127.0.0.1", ""])
def test_the_header_from_another_address_is_ignored(peer: str) -> None:
    assert me(peer=peer, **{"X-Forwarded-For": PROXY}).status_code == 401


@pytest.mark.parametrize("verify", ["NONE", "FAILED:expired", ""])
def test_a_certificate_the_proxy_did_not_verify_is_ignored(verify: str) -> None:
    assert me(verify=verify).status_code == 401


def test_without_trusted_proxies_no_certificate_is_accepted(settings: Any) -> None:
    settings.TRUSTED_PROXIES = []
    assert me().status_code == 401


def test_an_unknown_certificate_is_refused_with_its_name() -> None:
    answer = me("/DC=org/CN=eve")
    assert answer.status_code == 401
    assert "/DC=org/CN=eve" in answer.json()["detail"]


def test_a_slash_in_a_value_does_not_make_another_identity() -> None:
    assert me("CN=ana/CN=123456/CN=Ana Example,OU=Users,DC=cern,DC=ch").status_code == 401


def test_a_robot_is_a_certificate_with_a_role() -> None:
    link(make_user("robot-wms2", role=Role.OPERATOR), ROBOT)
    assert me(ROBOT).json()["role"] == "operator"


def test_another_sites_page_cannot_act_with_the_certificate() -> None:
    said = {"X-SSL-Client-S-DN": DN, "X-SSL-Client-Verify": "SUCCESS"}
    body = {"name": "mine", "reason": "r"}

    def post(**headers: str) -> int:
        client = Client(REMOTE_ADDR=PROXY)
        sent = said | headers
        return client.post("/api/v1/tokens", body, "application/json", headers=sent).status_code

    assert post(**{"Sec-Fetch-Site": "cross-site"}) == 403
    assert post() == 201


def test_one_certificate_is_one_person_and_every_link_is_audited() -> None:
    with pytest.raises(Conflict, match="already linked"):
        link(make_user("eve"), DN)
    unlink_identity(identity=Identity.objects.get(), actor="user:adam", reason="left")
    assert me().status_code == 401
    actions = AuditEvent.objects.order_by("id").values_list("action", "actor")
    assert list(actions) == [("link", "user:adam"), ("unlink", "user:adam")]


@pytest.mark.parametrize(
    ("given", "normal"),
    [
        ("", ""),
        ("/CN=a\x00b", ""),
        ("x" * 501, ""),
        (r"CN=Doe\, Jane,DC=ch", "/DC=ch/CN=Doe, Jane"),
    ],
)
def test_names_are_brought_into_one_form(given: str, normal: str) -> None:
    assert normal_dn(given) == normal


def test_only_trailing_proxy_parts_are_dropped() -> None:
    assert without_proxy("/CN=ana/CN=42/CN=Ana") == "/CN=ana/CN=42/CN=Ana"
    assert without_proxy("/CN=Ana/CN=limited proxy/CN=7") == "/CN=Ana"


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("8.8.8.8", "1.1.1.1", "8.8.8.8"),
        (PROXY, "1.1.1.1", "1.1.1.1"),
        (PROXY, "6.6.6.6, 1.1.1.1, 10.1.9.9", "1.1.1.1"),
        (PROXY, "nonsense", PROXY),
        (PROXY, "", PROXY),
    ],
)
def test_the_callers_address_is_the_last_one_our_proxies_did_not_make(
    peer: str, forwarded: str, address: str
) -> None:
    request = RequestFactory().get("/", REMOTE_ADDR=peer, headers={"X-Forwarded-For": forwarded})
    assert client_address(request) == address
