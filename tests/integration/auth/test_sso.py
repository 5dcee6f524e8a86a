"""Logging in to the console at a real issuer: the code flow with PKCE and nonce, roles from its groups."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.integration.auth.issuer import CLIENT_SECRET, Issuer, running_issuer
from wms2_project.access.authentication import issuer_keys
from wms2_project.models import ApiToken, AuditEvent

pytestmark = pytest.mark.django_db
OPS = {"groups": ["/cms/ops"]}


@pytest.fixture
def issuer(settings: Any) -> Iterator[Issuer]:
    issuer_keys.cache_clear()
    with running_issuer() as issuer:
        settings.OIDC_LOGIN_ISSUER = issuer.url
        settings.OIDC_RP_CLIENT_ID, settings.OIDC_RP_CLIENT_SECRET = "wms2-console", CLIENT_SECRET
        settings.OIDC_OP_AUTHORIZATION_ENDPOINT = f"{issuer.url}/authorize"
        settings.OIDC_OP_TOKEN_ENDPOINT = f"{issuer.url}/token"
        settings.OIDC_ROLES = ["group:/cms/ops=operator", "group:/cms/all=viewer"]
        settings.AUTHENTICATION_BACKENDS = [
            "django.contrib.auth.backends.ModelBackend",
            "wms2_project.access.sso.SingleSignOn",
        ]
        settings.MIDDLEWARE = [*settings.MIDDLEWARE, "mozilla_django_oidc.middleware.SessionRefresh"]
        settings.ROOT_URLCONF = "tests.integration.auth.sso_urls"
        yield issuer
    issuer_keys.cache_clear()


def sent_to_issuer(answer: Any, issuer: Issuer) -> dict[str, str]:
    assert answer.status_code == 302
    assert answer["Location"].startswith(f"{issuer.url}/authorize?")
    return {key: values[0] for key, values in parse_qs(urlsplit(answer["Location"]).query).items()}


def come_back(browser: Client, issuer: Issuer, asked: dict[str, str], **claims: Any) -> Any:
    """Redirect the browser back with a code, as the issuer does after a login."""
    said = {"aud": "wms2-console", "nonce": asked["nonce"]} | claims
    issuer.codes["code-1"] = (asked["code_challenge"], said)
    return browser.get("/oidc/callback/", {"code": "code-1", "state": asked["state"]})


def log_in(browser: Client, issuer: Issuer, **claims: Any) -> Any:
    asked = sent_to_issuer(browser.get("/oidc/authenticate/"), issuer)
    return come_back(browser, issuer, asked, **claims)


def test_the_login_page_offers_it(issuer: Issuer) -> None:
    assert "/oidc/authenticate/" in Client().get("/admin/login/").content.decode()


def test_a_person_of_the_right_group_is_in_the_console(issuer: Issuer) -> None:
    browser = Client()
    assert log_in(browser, issuer, preferred_username="olga", **OPS)["Location"] == "/admin/"
    assert browser.get("/admin/").status_code == 200
    me = browser.get("/api/v1/me").json()
    assert (me["role"], me["username"].startswith("olga-")) == ("operator", True)
    assert not User.objects.get().has_usable_password()


def test_roles_follow_the_groups_at_each_login_and_each_change_is_audited(issuer: Issuer) -> None:
    log_in(Client(), issuer, **OPS)
    log_in(Client(), issuer, **OPS)
    browser = Client()
    log_in(browser, issuer, groups=["/cms/all"])
    assert browser.get("/api/v1/me").json()["role"] == "viewer"
    changes = AuditEvent.objects.filter(action="set roles").order_by("id").values_list("detail", flat=True)
    assert [change["roles"] for change in changes] == [["operator"], ["viewer"]]


@pytest.mark.parametrize(
    ("claims", "status"),
    [
        ({"groups": ["/cms/others"]}, 302),
        ({"aud": "another-client", **OPS}, 302),
        ({"iss": "https://evil.example.org", **OPS}, 302),
        ({"exp": 1, **OPS}, 302),
        ({"nonce": "another login", **OPS}, 400),
    ],
)
def test_a_refused_login_creates_no_session(issuer: Issuer, claims: dict[str, Any], status: int) -> None:
    browser = Client()
    answer = log_in(browser, issuer, **claims)
    assert (answer.status_code, answer.get("Location", "/admin/login/")) == (status, "/admin/login/")
    assert browser.get("/api/v1/me").status_code == 401


def test_an_unsolicited_callback_is_refused(issuer: Issuer) -> None:
    browser = Client()
    asked = sent_to_issuer(browser.get("/oidc/authenticate/"), issuer)
    assert come_back(Client(), issuer, asked, **OPS)["Location"] == "/admin/login/"
    assert come_back(browser, issuer, asked | {"code_challenge": "x"}, **OPS)["Location"] == "/admin/login/"


def test_a_session_is_renewed_at_the_issuer_or_ends(issuer: Issuer) -> None:
    browser = Client()
    log_in(browser, issuer, **OPS)
    session = browser.session
    session["oidc_id_token_expiration"] = 0
    session.save()
    asked = sent_to_issuer(browser.get("/admin/"), issuer)
    assert asked["prompt"] == "none"
    assert come_back(browser, issuer, asked, groups=["/cms/all"])["Location"] == "/admin/"
    assert browser.get("/api/v1/me").json()["role"] == "viewer"

    session = browser.session
    session["oidc_id_token_expiration"] = 0
    session.save()
    asked = sent_to_issuer(browser.get("/admin/"), issuer)
    browser.get("/oidc/callback/", {"error": "login_required", "state": asked["state"]})
    assert browser.get("/api/v1/me").status_code == 401


def test_a_session_ends_with_the_roles_from_the_issuer(issuer: Issuer) -> None:
    browser = Client()
    log_in(browser, issuer, **OPS)
    assert 0 < browser.session.get_expiry_age() <= 12 * 3600


@pytest.mark.parametrize("asked", [{}, {"days": 365}])
def test_a_token_made_in_such_a_session_ends_with_the_roles_from_the_issuer(
    issuer: Issuer, asked: dict[str, int]
) -> None:
    browser = Client()
    log_in(browser, issuer, **OPS)

    made = browser.post(
        "/api/v1/tokens", {"name": "cli", "reason": "r"} | asked, content_type="application/json"
    )

    assert made.status_code == 201, made.json()
    ends = ApiToken.objects.get().expires_at
    assert ends is not None
    assert ends <= timezone.now() + timedelta(hours=12)


def test_the_console_makes_no_longer_token_for_them_either(issuer: Issuer, console: Client) -> None:
    log_in(Client(), issuer, **OPS)
    person = User.objects.exclude(username="adam").get()
    given = {"user": person.username, "name": "cli", "days": 365, "reason": "r", "_confirmed": "1"}

    assert console.post(reverse("admin:wms2_project_apitoken_issue"), given).status_code == 200

    ends = ApiToken.objects.get().expires_at
    assert ends is not None
    assert ends <= timezone.now() + timedelta(hours=12)
