"""`manage.py check --deploy` refuses settings that open a production to strangers."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.core.management import call_command
from django.db import connection

from dags_app import checks as pool_checks
from tests.conftest import RUN_URL
from tests.integration.admin.test_access import PRODUCTION, manage
from wms2_project import checks, deploy_checks

LONG = "k4Zq-" * 12


@pytest.fixture(autouse=True)
def _outside_the_lab(settings: Any) -> None:
    settings.LAB = False
    settings.SECURE_SSL_REDIRECT = True


def ids(found: list[Any]) -> list[str]:
    return [message.id for message in found]


@pytest.mark.parametrize(
    "key",
    ["short", "k" * 60, "django-insecure-" + LONG, "changeme" * 10, "your-secret-key-" + LONG, "unused"],
)
def test_a_weak_key_is_refused(settings: Any, key: str) -> None:
    settings.SECRET_KEY = settings.AUDIT_KEY = key
    assert ids(deploy_checks.check_keys(None)) == ["wms2.E012"]
    settings.SECRET_KEY = LONG
    assert "WMS2_AUDIT_KEY" in deploy_checks.check_keys(None)[0].msg
    settings.AUDIT_KEY = LONG
    assert deploy_checks.check_keys(None) == []


def test_debug_and_any_host_are_refused(settings: Any) -> None:
    settings.DEBUG, settings.ALLOWED_HOSTS = True, ["wms2.example.org", "*"]
    assert ids(deploy_checks.check_debug_and_hosts(None)) == ["wms2.E013", "wms2.E014"]
    settings.DEBUG, settings.ALLOWED_HOSTS = False, ["wms2.example.org"]
    assert deploy_checks.check_debug_and_hosts(None) == []


def test_services_without_tls_are_refused(settings: Any) -> None:
    settings.CMS_SERVICES = {"dbs_url": "http://dbs.example.org", "rucio_url": "https://rucio.example.org"}
    settings.ALERT_WEBHOOK_URL, settings.AUDIT_HEAD_URL = "http://hook.example.org", "ftp://x.example.org"
    text = [message.msg for message in deploy_checks.check_service_urls(None)]
    assert [words.split()[0] for words in text] == [
        "WMS2_DBS_URL", "WMS2_ALERT_WEBHOOK_URL", "WMS2_AUDIT_HEAD_URL",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("proxies", "refused"),
    [
        ([], 1),
        (["0.0.0.0/0"], 1),
        (["::/0"], 1),
        (["10.0.0.1", "0.0.0.0/0"], 1),
        (["10.0.0.1", "10.1.0.0/16"], 0),
    ],
)
def test_no_proxy_and_a_proxy_network_of_all_are_refused(
    settings: Any, proxies: list[str], refused: int
) -> None:
    settings.TRUSTED_PROXIES = proxies
    assert ids(deploy_checks.check_proxies(None)) == ["wms2.E016"] * refused


@pytest.mark.django_db
def test_the_owner_of_the_tables_is_refused_as_the_running_role() -> None:
    text = [message.msg for message in deploy_checks.check_database_role(None)]
    assert [words for words in text if "may change the audit" in words]


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(not os.environ.get(RUN_URL), reason="this database was given with one role only")
def test_the_role_of_the_lab_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    url = urlsplit(os.environ[RUN_URL])
    call_command("database_access", url.username, verbosity=0)
    connection.close()
    monkeypatch.setitem(connection.settings_dict, "USER", url.username)
    monkeypatch.setitem(connection.settings_dict, "PASSWORD", url.password)
    try:
        assert deploy_checks.check_database_role(None) == []
    finally:
        connection.close()


def test_a_pool_whose_jobs_run_as_our_own_account_is_refused(settings: Any) -> None:
    settings.SCHEDDS = []
    assert ids(pool_checks.check_job_owner(None)) == ["wms2.E030"]  # the lab's pool proves the account by FS
    settings.JOB_USERS = ["slot1", "slot2"]
    assert pool_checks.check_job_owner(None) == checks.check_job_users(None) == []
    settings.JOB_USERS = ["slot1", checks.own_account()]
    assert ids(checks.check_job_users(None)) == ["wms2.E030"]


def test_a_schedd_that_maps_wms2_to_another_account_is_accepted(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SCHEDDS = []
    monkeypatch.setattr(pool_checks, "own_account", lambda: "another_account")
    assert pool_checks.check_job_owner(None) == []


def test_a_schedd_that_does_not_answer_is_reported_as_not_checked(settings: Any) -> None:
    settings.SCHEDDS = ["absent@nowhere.invalid"]
    assert ids(pool_checks.check_job_owner(None)) == ["wms2.I002"]


def test_the_command_refuses_them_all_at_once() -> None:
    wrong = {
        "SECRET_KEY": "changeme",
        "WMS2_DEBUG": "1",
        "WMS2_ALLOWED_HOSTS": "*",
        "WMS2_DBS_URL": "http://dbs.example.org",
        "WMS2_TRUSTED_PROXIES": "",
        "WMS2_JOB_USERS": checks.own_account(),
    }
    done = manage("check", "--deploy", **PRODUCTION | wrong)
    assert done.returncode == 1
    output = done.stdout + done.stderr
    expected = ("E012", "E013", "E014", "E015", "E016", "E030")
    assert [code for code in expected if f"wms2.{code}" not in output] == []
