"""The console's buttons: each requires a reason, calls one service, and shows its error."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse

from dags_app.models import Schedd
from requests_app.admission import change_limits, limits
from requests_app.models import AdmissionConfig, Request
from requests_app.services.importing import import_request
from requests_app.states import RequestStatus
from requests_app.transitions import transition
from tests.integration.factories import (
    DOCUMENT,
    ago,
    make_dag,
    make_request,
    make_round,
    make_site,
    make_token,
    make_user,
)
from wms2_project.access.roles import Role
from wms2_project.models import ApiToken

pytestmark = pytest.mark.django_db
S = RequestStatus


def action(row: Any, name: str) -> str:
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_{name}", args=[row.pk])


def messages(answer: Any) -> list[str]:
    return [str(message) for message in get_messages(answer.wsgi_request)]


def press(console: Client, row: Any, name: str, **answers: Any) -> Any:
    return console.post(action(row, name), {"_confirmed": "1"} | answers)


@pytest.fixture
def onlooker(db: None) -> Client:
    """Return the browser of a viewer."""
    browser = Client()
    browser.force_login(make_user("vera", role=Role.VIEWER, is_staff=True))
    return browser


def test_release_asks_for_confirmation_and_then_queues(console: Client) -> None:
    row = make_request(status=S.HELD)
    form = console.get(action(row, "release"))
    assert row.request_name in form.content.decode()

    answer = press(console, row, "release", reason="fixed")

    assert answer.status_code == 302
    assert answer["Location"] == reverse("admin:requests_app_request_change", args=[row.pk])
    row.refresh_from_db()
    last = row.transitions.last()
    assert row.status == S.QUEUED
    assert last is not None
    assert (last.actor, last.reason) == ("user:adam", "fixed")


def test_without_a_reason_nothing_happens(console: Client) -> None:
    row = make_request(status=S.HELD)
    answer = press(console, row, "release", reason="   ")
    assert answer.status_code == 200
    assert "This field is required" in answer.content.decode()
    row.refresh_from_db()
    assert row.status == S.HELD


def test_a_refusal_is_shown_as_the_service_words_it(console: Client) -> None:
    row = make_request(status=S.COMPLETED)
    answer = press(console, row, "release", reason="try")
    assert messages(answer) == [f"{row} is completed, not held. Only held requests can be released"]


def test_a_refusal_keeps_the_entered_values(console: Client) -> None:
    row = make_request(status=S.COMPLETED)
    answer = press(console, row, "stop", reason="a long explanation")
    assert answer.status_code == 409
    assert "a long explanation" in answer.content.decode()


def test_a_form_of_an_old_version_is_explained_and_can_be_confirmed_again(console: Client) -> None:
    row = make_request(status=S.HELD)
    opened = row.version
    transition(request=row, to=S.QUEUED, actor="user:olga", reason="released by another operator")
    answer = press(console, row, "abort", reason="a long explanation", version=opened)
    assert answer.status_code == 412
    html = answer.content.decode()
    assert "It is queued now" in messages(answer)[0]
    assert "a long explanation" in html
    assert f'name="version" value="{row.version}"' in html
    again = press(console, row, "abort", reason="a long explanation", version=row.version)
    assert again.status_code == 302


def test_the_form_updates_the_effect_of_a_release_while_typing(console: Client) -> None:
    make_site("T2_CH_CERN")
    make_site("T2_DE_DESY")
    row = make_request(status=S.HELD)
    shown = console.get(action(row, "release")).content.decode()
    assert "T2_CH_CERN, T2_DE_DESY" in shown
    effect = console.post(action(row, "release"), {"_preview": "1", "site_bans": "T2_CH_CERN"})
    assert "T2_CH_CERN, T2_DE_DESY" not in effect.content.decode()
    assert "<form" not in effect.content.decode()
    row.refresh_from_db()
    assert row.status == S.HELD


def test_an_operation_without_a_dry_run_lists_the_affected_objects(console: Client) -> None:
    row = make_request(status=S.ACTIVE)
    make_dag(make_round(row.workflow))
    assert "3 running" in console.get(action(row, "stop")).content.decode()


def test_the_form_of_a_refused_operation_lists_possible_operations(console: Client) -> None:
    shown = console.get(action(make_request(status=S.COMPLETED), "release")).content.decode()
    assert "It is completed now. Release is possible: held." in shown
    assert "Possible now: Restart, Invalidate outputs." in shown


def test_stop_can_stay_held(console: Client) -> None:
    row = make_request(status=S.ACTIVE)
    make_dag(make_round(row.workflow))
    press(console, row, "stop", reason="maintenance", hold="on")
    row.refresh_from_db()
    assert (row.status, row.hold_after_stop) == (S.STOPPING, True)


def test_the_priority_is_changed(console: Client) -> None:
    row = make_request(status=S.QUEUED, priority=5)
    assert 'value="5"' in console.get(action(row, "edit")).content.decode()
    press(console, row, "edit", reason="conference", priority="900")
    row.refresh_from_db()
    assert row.priority == 900


def test_abort(console: Client) -> None:
    row = make_request(status=S.QUEUED)
    press(console, row, "abort", reason="mistake")
    row.refresh_from_db()
    assert row.status == S.ABORTED


@pytest.mark.parametrize(
    ("status", "buttons"),
    [
        (S.HELD, {"Release", "Rescue", "Edit", "Restart", "Fail", "Abort"}),
        (S.ACTIVE, {"Stop", "Edit", "Restart", "Fail", "Abort"}),
        (S.COMPLETED, {"Restart", "Invalidate outputs"}),
        (S.QUEUED, {"Stop", "Edit", "Restart", "Abort"}),
        (S.NEW, {"Submit", "Edit", "Abort"}),
    ],
)
def test_only_useful_buttons_are_shown(console: Client, status: RequestStatus, buttons: set[str]) -> None:
    row = make_request(status=status)
    html = console.get(reverse("admin:requests_app_request_change", args=[row.pk])).content.decode()
    names = {
        "Submit": "submit", "Release": "release", "Stop": "stop", "Edit": "edit", "Abort": "abort",
        "Fail": "fail", "Rescue": "rescue", "Restart": "restart", "Invalidate outputs": "invalidate",
    }  # fmt: skip
    assert {label for label, name in names.items() if action(row, name) in html} == buttons


def test_a_bulk_action_reports_one_result_per_row(console: Client) -> None:
    held, done = make_request(status=S.HELD), make_request(status=S.COMPLETED)
    url = reverse("admin:requests_app_request_changelist")
    chosen = {"action": "release_selected", "_selected_action": [str(held.pk), str(done.pk)]}

    form = console.post(url, chosen)
    assert held.request_name in form.content.decode()
    assert Request.objects.filter(status=S.HELD).count() == 1

    answer = console.post(url, chosen | {"_confirmed": "1", "reason": "all fixed"})

    html = answer.content.decode()
    assert "1 of 2 done" in html
    assert "Released" in html
    assert "not held" in html
    held.refresh_from_db()
    assert held.status == S.QUEUED


def test_a_viewer_sees_no_buttons_and_cannot_use_them(onlooker: Client) -> None:
    row = make_request(status=S.HELD)
    site = make_site()
    html = onlooker.get(reverse("admin:requests_app_request_change", args=[row.pk])).content.decode()
    assert action(row, "release") not in html
    for target, name in ((row, "release"), (row, "abort"), (site, "drain"), (limits(), "edit")):
        assert press(onlooker, target, name, reason="r").status_code == 403, name
    answer = onlooker.post(
        reverse("admin:requests_app_request_changelist"),
        {"action": "abort_selected", "_selected_action": [str(row.pk)], "_confirmed": "1", "reason": "r"},
    )
    row.refresh_from_db()
    assert row.status == S.HELD
    assert answer.status_code == 200  # the list again: the action is not offered


def test_a_site_is_drained_and_enabled(console: Client) -> None:
    site = make_site()
    press(console, site, "drain", reason="cooling", until="2099-01-01 12:00")
    site.refresh_from_db()
    assert (site.status, site.drain_until and site.drain_until.year) == ("draining", 2099)
    press(console, site, "enable", reason="cool")
    site.refresh_from_db()
    assert site.status == "enabled"


def test_a_drain_that_is_over_already_is_refused(console: Client) -> None:
    site = make_site()
    answer = press(console, site, "drain", reason="cooling", until="2001-01-01 12:00")
    assert "Must be in the future" in answer.content.decode()
    site.refresh_from_db()
    assert site.status == "enabled"


def limits_answers(**changes: Any) -> dict[str, Any]:
    config = limits()
    names = ("max_active_dags", "storage_critical_fraction", "version")
    return {name: getattr(config, name) for name in names} | {"reason": "r"} | changes


def test_limits_are_changed_through_the_service(console: Client) -> None:
    press(console, limits(), "edit", **limits_answers(max_active_dags=7, paused="on", reason="too hot"))
    config = AdmissionConfig.objects.get()
    assert (config.max_active_dags, config.paused, config.pause_reason) == (7, True, "too hot")
    assert config.updated_by == "user:adam"


def test_limits_changed_meanwhile_are_not_overwritten(console: Client) -> None:
    read = limits_answers(max_active_dags=7)
    change_limits(changes={"max_active_dags": 50}, actor="user:olga", reason="first")
    answer = press(console, limits(), "edit", **read)
    assert "changed since you read them" in messages(answer)[0]
    assert AdmissionConfig.objects.get().max_active_dags == 50


def test_a_token_is_shown_once_and_works(console: Client, client: Client) -> None:
    user = make_user("robot", role=Role.OPERATOR)
    url = reverse("admin:wms2_project_apitoken_issue")
    asked = {"user": "robot", "name": "cron", "days": "30", "reason": "nightly", "_confirmed": "1"}
    answer = console.post(url, asked)
    html = answer.content.decode()
    clear_text = next(
        word for word in html.replace("<", " ").replace(">", " ").split() if word.startswith("wms2_")
    )

    assert "no-store" in answer["Cache-Control"]
    assert client.get("/api/v1/sites", headers={"Authorization": f"Bearer {clear_text}"}).status_code == 200
    token = ApiToken.objects.get()
    assert (token.user, token.name, token.expires_at is not None) == (user, "cron", True)
    assert clear_text not in console.get(reverse("admin:wms2_project_apitoken_changelist")).content.decode()


def test_a_revoked_token_works_no_more(console: Client, client: Client) -> None:
    clear_text = make_token(make_user(role=Role.VIEWER))
    token = ApiToken.objects.get()
    assert console.get(action(token, "revoke")).status_code == 200
    assert client.get("/api/v1/sites", headers={"Authorization": f"Bearer {clear_text}"}).status_code == 200
    press(console, token, "revoke", reason="lost")
    assert client.get("/api/v1/sites", headers={"Authorization": f"Bearer {clear_text}"}).status_code == 401


def test_users_see_and_create_only_their_own_tokens(onlooker: Client) -> None:
    other = make_user("another_person", role=Role.OPERATOR)
    make_token(other)
    token = ApiToken.objects.get()
    html = onlooker.get(reverse("admin:wms2_project_apitoken_changelist")).content.decode()
    assert "another_person" not in html
    assert onlooker.post(action(token, "revoke")).status_code == 404
    asked = {"user": "another_person", "name": "mine", "reason": "r", "_confirmed": "1"}
    answer = onlooker.post(reverse("admin:wms2_project_apitoken_issue"), asked)
    assert "Only admins can create tokens for others" in messages(answer)[0]
    assert ApiToken.objects.count() == 1
    assert (
        onlooker.post(reverse("admin:wms2_project_apitoken_issue"), asked | {"user": ""}).status_code == 200
    )
    assert set(ApiToken.objects.values_list("user__username", flat=True)) == {"another_person", "vera"}


def test_sites_memory_and_throttles_are_changed(console: Client) -> None:
    make_site()
    row = make_request(status=S.QUEUED)
    assert "Outranks measurements" in console.get(action(row, "edit")).content.decode()
    answers = {"memory_mb": "3000", "site_whitelist": "T2_CH_CERN", "site_blacklist": ""}
    press(console, row, "edit", reason="bigger", category_throttles="Merge=3", **answers)
    row.workflow.refresh_from_db()
    assert (row.workflow.chosen_memory_mb, row.workflow.site_whitelist) == (3000, ["T2_CH_CERN"])
    assert row.workflow.category_throttles == {"Merge": 3}
    refused = press(console, row, "edit", reason="x", **answers | {"site_blacklist": "T2_CH_CERN"})
    assert "nothing was changed" in messages(refused)[-1]


def test_restart_from_the_console(console: Client) -> None:
    made, _ = import_request(document=DOCUMENT, actor="user:ana")
    answer = press(console, made, "restart", reason="lost", cleanup_policy="immediate_cleanup")
    newer = Request.objects.get(previous_version=made)
    assert messages(answer) == [f"{made} is aborted; {newer} replaces it."]
    assert newer.cleanup_policy == "immediate_cleanup"


def test_rescue_from_the_console(console: Client) -> None:
    row = make_request(status=S.HELD)
    assert "has no DAG" in messages(press(console, row, "rescue", reason="again"))[-1]
    make_dag(make_round(row.workflow), status="partial", completed_at=ago(minutes=1))
    press(console, row, "rescue", reason="again")
    row.refresh_from_db()
    assert (row.status, row.workflow.dags.latest("created_at").kind) == (S.QUEUED, "rescue")


@pytest.mark.parametrize("name", ["hold", "release", "remove"])
def test_a_dag_that_is_not_queued_is_not_steered(console: Client, name: str) -> None:
    dag = make_dag(make_round(make_request().workflow), status="stopped", completed_at=ago(minutes=1))
    assert "is stopped" in messages(press(console, dag, name, reason="why not"))[0]
    page = console.get(reverse("admin:dags_app_dag_change", args=[dag.pk])).content.decode()
    assert action(dag, name) not in page


def test_a_schedd_is_drained_and_enabled(console: Client, settings: Any) -> None:
    settings.SCHEDDS = ["one@pool"]
    row = Schedd.objects.create(name="one@pool")
    press(console, row, "drain", reason="kernel update", deadline_minutes="30")
    row.refresh_from_db()
    assert (row.status, row.drain_deadline is not None) == ("draining", True)
    press(console, row, "enable", reason="done")
    row.refresh_from_db()
    assert (row.status, row.drain_deadline) == ("enabled", None)
