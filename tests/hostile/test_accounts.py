"""An account without a role has no access; password guessing from one address locks out no other address."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from rest_framework.test import APIClient

from tests.integration.factories import make_request, make_token, make_user
from wms2_project.access.roles import Role, role_of

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"


def test_an_account_without_a_role_is_no_viewer() -> None:
    user = make_user("nina")
    user.groups.create(name="operators")
    assert role_of(user) is Role.ANONYMOUS
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {make_token(user)}")
    assert client.get("/api/v1/requests").status_code == 403
    assert client.get("/api/v1/sites").status_code == 403


def test_the_console_shows_nothing_to_an_account_without_a_role() -> None:
    name = make_request().request_name
    User.objects.create_user("nina", password=PASSWORD, is_staff=True)
    browser = Client()
    browser.post("/admin/login/", {"username": "nina", "password": PASSWORD, "next": "/admin/"})
    for page in ("/admin/", "/admin/requests_app/request/", "/admin/wms2_project/auditevent/"):
        answer = browser.get(page, follow=True)
        assert name not in answer.content.decode()
        assert "Waits for a person" not in answer.content.decode()
    browser.force_login(User.objects.get(username="nina"))
    assert browser.get("/admin/")["Location"] == "/admin/login/?next=/admin/"


@pytest.fixture
def logins(settings: Any) -> None:
    settings.THROTTLE_RATES = settings.THROTTLE_RATES | {"logins": "3/year", "login_names": "9/year"}
    User.objects.create_superuser("adam", password=PASSWORD)


def login(password: str, address: str, name: str = "adam") -> str:
    answer = Client(REMOTE_ADDR=address).post(
        "/admin/login/", {"username": name, "password": password, "next": "/admin/"}
    )
    if answer.status_code == 302:
        return "in"
    return "too many" if "Too many attempts" in answer.content.decode() else "wrong"


@pytest.mark.usefixtures("logins")
def test_one_address_cannot_lock_a_name_for_others() -> None:
    guesses = [login("guess", "6.6.6.6") for _ in range(20)]
    assert guesses == ["wrong"] * 3 + ["too many"] * 17
    assert login(PASSWORD, "6.6.6.6") == "too many"
    assert login(PASSWORD, "9.9.9.9") == "in"


@pytest.mark.usefixtures("logins")
def test_one_network_of_ipv6_addresses_counts_as_one_address() -> None:
    guesses = [login("guess", f"2001:db8:0:1::{n:x}") for n in range(1, 20)]
    assert guesses == ["wrong"] * 3 + ["too many"] * 16
    assert login(PASSWORD, "2001:db8:0:2::1") == "in"


@pytest.mark.usefixtures("logins")
def test_guessing_from_many_addresses_ends_too() -> None:
    guesses = [login("guess", f"6.6.{n}.6") for n in range(12)]
    assert guesses == ["wrong"] * 9 + ["too many"] * 3
