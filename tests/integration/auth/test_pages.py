"""Pages: a content policy without inline scripts, safe cookies, limited login attempts."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse

from tests.integration.factories import make_request, make_site
from wms2_project.console import ReadOnlyAdmin
from wms2_project.middleware import policy_for
from wms2_project.models import AuditEvent

pytestmark = pytest.mark.django_db
INLINE = re.compile(
    r"<script(?![^>]*\bsrc=)(?![^>]*application/json)[^>]*>|\son\w+\s*=\s*[\"']|javascript:", re.IGNORECASE
)
LISTS = [
    reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    for model, page in admin.site._registry.items()
    if isinstance(page, ReadOnlyAdmin)
]


@pytest.mark.parametrize("url", ["/admin/", "/admin/password_change/", "/api/v1/docs", *LISTS])
def test_no_page_has_an_inline_script(console: Client, url: str, settings: Any) -> None:
    settings.STREAMS_PORT = 0
    make_request()
    make_site()
    answer = console.get(url, follow=True)
    assert answer.status_code == 200
    assert INLINE.findall(answer.content.decode()) == []
    policy = answer["Content-Security-Policy"]
    scripts = next(part for part in policy.split("; ") if part.startswith("script-src"))
    assert "inline" not in scripts
    assert "http" not in policy


def test_a_page_may_listen_to_the_streams_process_of_its_host(console: Client, settings: Any) -> None:
    settings.STREAMS_PORT = 9000
    policy = console.get("/admin/")["Content-Security-Policy"]
    assert "connect-src 'self' http://testserver:9000" in policy.split("; ")


def test_data_may_load_nothing(client: Client) -> None:
    for path in ("/api/v1/livez", "/api/v1/nowhere"):
        assert client.get(path)["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert "unsafe-eval" not in policy_for("/api/v1/docs")


def test_the_login_page_keeps_the_policy_and_sets_safe_cookies(client: Client, settings: Any) -> None:
    settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = True
    answer = client.get("/admin/login/")
    assert INLINE.findall(answer.content.decode()) == []
    cookie = answer.cookies["csrftoken"]
    assert (cookie["secure"], cookie["samesite"]) == (True, "Lax")


def test_guessing_a_password_ends(django_user_model: Any, settings: Any) -> None:
    settings.THROTTLE_RATES = settings.THROTTLE_RATES | {"logins": "3/year", "login_names": "3/year"}
    django_user_model.objects.create_superuser("adam", password="correct horse battery")

    def login(password: str, address: str) -> tuple[int, bool]:
        answer = Client(REMOTE_ADDR=address).post(
            "/admin/login/", {"username": "adam", "password": password, "next": "/admin/"}
        )
        return answer.status_code, "Too many attempts" in answer.content.decode()

    assert login("correct horse battery", "9.9.9.9") == (302, False)
    assert [login("guess", f"1.1.1.{n}") for n in range(2)] == [(200, False)] * 2
    assert login("correct horse battery", "2.2.2.2") == (200, True)


def test_changes_in_django_forms_are_audited_and_accounts_are_not_deleted(console: Client) -> None:
    password = {"password1": "correct horse battery", "password2": "correct horse battery"}
    console.post("/admin/auth/user/add/", {"username": "bob", **password, "usable_password": "true"})
    bob = User.objects.get(username="bob")
    role = Group.objects.get_or_create(name="operator")[0]
    console.post(
        f"/admin/auth/user/{bob.pk}/change/",
        {"username": "bob", "is_active": "on", "groups": [role.pk], "date_joined_0": "2031-01-01",
         "date_joined_1": "00:00:00"},
    )  # fmt: skip
    console.post(f"/admin/auth/user/{bob.pk}/password/", {**password, "usable_password": "true"})
    events = AuditEvent.objects.filter(target="person bob").order_by("id")
    assert [event.action for event in events] == ["add person", "change person", "change person"]
    assert {event.actor for event in events} == {"user:adam"}
    assert [event.detail["roles"] for event in events] == [[], ["operator"], ["operator"]]
    assert "correct horse" not in str(list(events.values()))
    assert console.post(f"/admin/auth/user/{bob.pk}/delete/", {"post": "yes"}).status_code == 403


def test_ones_own_new_password_is_in_the_audit(console: Client) -> None:
    adam = User.objects.get()
    adam.set_password("correct horse battery")
    adam.save()
    console.force_login(adam)
    given = {"old_password": "correct horse battery"}
    new = {"new_password1": "another long phrase 9", "new_password2": "another long phrase 9"}

    wrong = console.post("/admin/password_change/", {"old_password": "guess"} | new)
    right = console.post("/admin/password_change/", given | new)

    assert (wrong.status_code, right.status_code) == (200, 302)
    adam.refresh_from_db()
    assert adam.check_password("another long phrase 9")
    (event,) = AuditEvent.objects.all()
    assert (event.actor, event.action, event.target) == ("user:adam", "change password", "person adam")
    assert "phrase" not in str(event.detail)
    assert console.get(right["Location"]).status_code == 200
