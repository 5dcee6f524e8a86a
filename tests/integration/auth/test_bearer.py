"""Bearer tokens of a running issuer: which are accepted, and which are not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import jwt
import pytest
from django.contrib.auth.models import User
from django.test import Client

from requests_app.models import Request
from tests.integration.auth.issuer import AUDIENCE, Issuer, running_issuer
from tests.integration.factories import DOCUMENT, make_site, make_user
from wms2_project.access import issuer_keys as keys
from wms2_project.access.authentication import issuer_keys
from wms2_project.access.people import link_identity
from wms2_project.access.roles import Role
from wms2_project.models import Identity

pytestmark = pytest.mark.django_db
ME = "/api/v1/me"
OPS = {"wlcg.groups": ["/cms", "/cms/ops"]}


@pytest.fixture
def issuer(settings: Any) -> Iterator[Issuer]:
    issuer_keys.cache_clear()
    with running_issuer() as issuer:
        settings.OIDC_ISSUERS = [issuer.url]
        settings.OIDC_AUDIENCES = [AUDIENCE]
        settings.OIDC_ROLES = [
            "group:/cms/ops=operator",
            "group:/cms/T2_CH_CERN=site_admin:T2_CH_CERN",
            "scope:wms2.submit=requestor",
        ]
        yield issuer
    issuer_keys.cache_clear()


def get(token: str, url: str = ME) -> Any:
    return Client().get(url, headers={"Authorization": f"Bearer {token}"})


def refusal(answer: Any) -> str:
    assert answer.status_code == 401, answer.content
    return str(answer.json()["detail"])


def test_a_group_gives_its_role(issuer: Issuer) -> None:
    body = get(issuer.token(**OPS)).json()
    assert (body["role"], body["sites"]) == ("operator", [])
    assert body["username"].startswith("ana-")


def test_a_scope_gives_its_role_and_lets_one_submit(issuer: Issuer) -> None:
    token = issuer.token(scope="openid wms2.submit")
    document = {key: value for key, value in DOCUMENT.items() if key != "requestor"}
    made = Client().post(
        "/api/v1/requests",
        document,
        content_type="application/json",
        headers={"Authorization": f"Bearer {token}"},
    )
    assert made.status_code == 201, made.content
    assert Request.objects.get().requestor == User.objects.get().username


def test_a_site_group_makes_the_admin_of_that_site(issuer: Issuer) -> None:
    body = get(issuer.token(groups=["/cms/T2_CH_CERN"])).json()
    assert (body["role"], body["sites"]) == ("site_admin", ["T2_CH_CERN"])


def test_a_token_without_a_mapped_group_opens_nothing(issuer: Issuer) -> None:
    assert get(issuer.token(groups=["/cms/others"])).status_code == 403


def test_elliptic_keys_work_too(issuer: Issuer) -> None:
    issuer.add_key("ec-1", "ES256")
    assert get(issuer.token(key_id="ec-1", **OPS)).status_code == 200


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"exp": int(time.time()) - 3600}, "expired"),
        ({"exp": None}, "exp"),
        ({"aud": "https://other.example.org"}, "udience"),
        ({"aud": None}, "aud"),
        ({"sub": None}, "sub"),
        ({"nbf": int(time.time()) + 3600}, "not yet valid"),
        ({"iss": "https://evil.example.org"}, "issuer"),
        ({"iss": None}, "issuer"),
    ],
)
def test_a_wrong_claim_is_refused_with_its_name(issuer: Issuer, claims: dict[str, Any], words: str) -> None:
    assert words in refusal(get(issuer.token(**OPS, **claims)))
    assert not User.objects.exists()


def test_the_scope_every_token_must_have(issuer: Issuer, settings: Any) -> None:
    settings.OIDC_SCOPE = "wms2"
    assert "lacks the scope wms2" in refusal(get(issuer.token(**OPS)))
    assert get(issuer.token(**OPS, scope="openid wms2")).status_code == 200


def test_a_signature_of_another_key_is_refused(issuer: Issuer) -> None:
    good = get(issuer.token(**OPS))
    issuer.add_key("rsa-1", "RS256")  # the same id, another key than the one we hold
    assert good.status_code == 200
    assert "ignature" in refusal(get(issuer.token(**OPS)))


def test_an_unsigned_or_symmetric_token_is_refused(issuer: Issuer) -> None:
    claims = {"iss": issuer.url, "sub": "ana", "aud": AUDIENCE, "exp": int(time.time()) + 300, **OPS}
    unsigned = jwt.encode(claims, None, algorithm="none", headers={"kid": "rsa-1"})
    shared = jwt.encode(claims, "x" * 40, algorithm="HS256", headers={"kid": "rsa-1"})
    for token in (unsigned, shared):
        assert "signature algorithm" in refusal(get(token))


@pytest.mark.parametrize("token", ["x", "a.b.c", "eyJhbGciOiJSUzI1NiJ9.e30.x", "é" * 10, "x" * 9000])
def test_nonsense_is_a_401(issuer: Issuer, token: str) -> None:
    refusal(get(token))


def test_keys_are_fetched_once_and_new_ones_are_found(issuer: Issuer, monkeypatch: Any) -> None:
    for _ in range(3):
        assert get(issuer.token(**OPS)).status_code == 200
    assert issuer.asked.count("/keys") == 1
    issuer.add_key("rsa-2", "RS256")
    assert "not published" in refusal(get(issuer.token(key_id="rsa-2", **OPS)))  # fetched a moment ago
    assert issuer.asked.count("/keys") == 1
    monkeypatch.setattr(keys, "ASK_AGAIN_SEC", 0.0)
    assert get(issuer.token(key_id="rsa-2", **OPS)).status_code == 200


def test_known_keys_outlive_a_silent_issuer(issuer: Issuer, monkeypatch: Any) -> None:
    assert get(issuer.token(**OPS)).status_code == 200
    issuer.broken = True
    monkeypatch.setattr(keys, "FRESH_SEC", 0.0)
    monkeypatch.setattr(keys, "ASK_AGAIN_SEC", 0.0)
    assert get(issuer.token(**OPS)).status_code == 200


def test_an_issuer_that_never_answered_is_a_503_not_a_401(issuer: Issuer) -> None:
    issuer.broken = True
    answer = get(issuer.token(**OPS))
    assert (answer.status_code, answer.json()["code"]) == (503, "service_unavailable")


def test_the_same_person_again_is_the_same_user(issuer: Issuer) -> None:
    names = {get(issuer.token(**OPS)).json()["username"] for _ in range(2)}
    other = get(issuer.token(sub="bob", preferred_username="ana", **OPS)).json()["username"]
    assert len(names) == 1
    assert other not in names
    assert Identity.objects.count() == 2
    assert Identity.objects.filter(last_used_at__isnull=False).count() == 2


def test_a_token_cannot_borrow_the_rights_of_a_local_account(issuer: Issuer) -> None:
    admin = make_user("ana", role=Role.ADMIN)
    link_identity(user=admin, issuer=issuer.url, subject="ana", actor="system:test", reason="a test")
    body = get(issuer.token(scope="wms2.submit")).json()
    assert (body["username"], body["role"]) == ("ana", "requestor")


def test_a_closed_account_stays_closed(issuer: Issuer) -> None:
    get(issuer.token(**OPS))
    User.objects.update(is_active=False)
    assert "deactivated" in refusal(get(issuer.token(**OPS)))


def test_a_bearer_token_makes_no_api_token(issuer: Issuer) -> None:
    answer = Client().post(
        "/api/v1/tokens",
        {"name": "mine", "reason": "to keep"},
        content_type="application/json",
        headers={"Authorization": f"Bearer {issuer.token(**OPS)}"},
    )
    assert answer.status_code == 403


def test_a_sites_admin_by_token_drains_the_own_site_only(issuer: Issuer) -> None:
    make_site("T2_CH_CERN")
    make_site("T1_US_FNAL")
    token = issuer.token(groups=["/cms/T2_CH_CERN"])

    def drain(site: str) -> int:
        return (
            Client()
            .post(
                f"/api/v1/sites/{site}/drain",
                {"reason": "cooling"},
                content_type="application/json",
                headers={"Authorization": f"Bearer {token}"},
            )
            .status_code
        )

    assert (drain("T2_CH_CERN"), drain("T1_US_FNAL")) == (200, 403)
