"""The first administrator from files, and the checks that run before anything starts."""

from __future__ import annotations

import os
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from tests.integration.factories import make_token, make_user
from wms2_project import checks
from wms2_project.models import ApiToken

PASSWORD, TOKEN = "correct horse battery", "wms2_" + "t" * 40
PRODUCTION = {
    "SECRET_KEY": "k4Zq-" * 12,
    "DATABASE_URL": "postgres://absent@127.0.0.1:5432/nothing",
    "REDIS_URL": "redis://127.0.0.1:6379/15",
    "WMS2_SUBMIT_ROOT": "/srv/wms2/dags",
    "WMS2_STORAGE_PREFIX": "/storage/{site}",
    "WMS2_ALLOWED_HOSTS": "wms2.example.org",
    "WMS2_TRUSTED_PROXIES": "10.0.0.1",
    "WMS2_JOB_USERS": "slot1,slot2",
    **dict.fromkeys(checks.NEEDED_SERVICES.values(), "https://service.example.org"),
}
LAB = {name: PRODUCTION[name] for name in ("SECRET_KEY", "DATABASE_URL", "REDIS_URL", "WMS2_SUBMIT_ROOT")}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    made = {"password_file": tmp_path / "password", "token_file": tmp_path / "token"}
    for path, text in zip(made.values(), (PASSWORD, TOKEN), strict=True):
        path.write_text(text + "\n")
        path.chmod(0o600)
    return made


def ensure(files: dict[str, Path]) -> str:
    out = StringIO()
    call_command("ensure_access", username="operator", stdout=out, **files)
    return out.getvalue()


@pytest.mark.django_db
def test_the_administrator_can_log_in_and_the_token_works(files: dict[str, Path], client: Client) -> None:
    result = ensure(files)
    assert client.login(username="operator", password=PASSWORD)
    assert client.get("/admin/").status_code == 200
    answer = Client().get("/api/v1/sites", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200
    assert PASSWORD not in result
    assert TOKEN not in result


@pytest.mark.django_db
def test_repeating_it_changes_nothing(files: dict[str, Path]) -> None:
    ensure(files)
    before = list(User.objects.values()), list(ApiToken.objects.values())
    assert "nothing to change" in ensure(files)
    assert (list(User.objects.values()), list(ApiToken.objects.values())) == before


@pytest.mark.django_db
def test_new_secrets_replace_the_old_ones(files: dict[str, Path]) -> None:
    ensure(files)
    files["token_file"].write_text("wms2_" + "n" * 40)
    files["password_file"].write_text("another long password")
    ensure(files)
    assert User.objects.get().check_password("another long password")
    assert ApiToken.objects.count() == 1
    assert Client().get("/api/v1/sites", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 401


@pytest.mark.django_db
def test_a_token_that_is_anothers_is_refused(files: dict[str, Path]) -> None:
    make_token(make_user(), clear_text=TOKEN)
    with pytest.raises(CommandError, match="another name"):
        ensure(files)
    assert not User.objects.filter(username="operator").exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("spoil", "match"),
    [
        (lambda path: path.unlink(), "cannot be read"),
        (lambda path: path.write_text(" \n"), "is empty"),
        (lambda path: path.chmod(0o644), "chmod 600"),
        (lambda path: path.write_text("short"), "wms2_"),
    ],
)
def test_a_bad_file_is_named_with_its_cure(files: dict[str, Path], spoil: Any, match: str) -> None:
    spoil(files["token_file"])
    with pytest.raises(CommandError, match=match) as refused:
        ensure(files)
    assert str(files["token_file"]) in str(refused.value)
    assert not User.objects.exists()


def manage(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return python("manage.py", *arguments, **environment)


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=Path(__file__).parents[3],
        env=inherited | {"PYTHONDONTWRITEBYTECODE": "1"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_complete_production_passes_every_check() -> None:
    done = manage("check", "--deploy", "--fail-level", "WARNING", **PRODUCTION)
    assert done.returncode == 0, done.stdout + done.stderr


def test_all_missing_parts_are_reported_at_once_with_their_cure() -> None:
    wrong = {"SECRET_KEY": "", "DATABASE_URL": "sqlite:///nothing.db", "REDIS_URL": PRODUCTION["REDIS_URL"]}
    done = manage("check", **wrong)
    assert done.returncode != 0
    output = done.stdout + done.stderr
    for code in ("wms2.E001", "wms2.E002", "wms2.E003", "wms2.E004", "wms2.E005"):
        assert code in output
    for variable in ("SECRET_KEY", "DATABASE_URL", "WMS2_SUBMIT_ROOT", *checks.NEEDED_SERVICES.values()):
        assert variable in output


@pytest.mark.parametrize(
    ("variable", "value", "problem"),
    [
        ("WMS2_STORAGE_PREFIX", "davs:/se/{site}", "neither an absolute path nor a URL"),
        ("WMS2_STORAGE_PREFIX", "/storage", "without {site}"),
        ("WMS2_SITE_STORAGE", "{not json", "not a JSON object"),
        ("WMS2_SITE_STORAGE", '{"CERN": ["/a"]}', "'CERN', which is not a site name"),
        ("WMS2_SITE_STORAGE", '{"T2_CH_CERN": "/a"}', "T2_CH_CERN: it is not a list"),
        ("WMS2_SITE_STORAGE", '{"T2_CH_CERN": ["/a", "http://se/b"]}', "'http://se/b'"),
        ("WMS2_STORAGE_CA_FILE", "/no/such/ca.pem", "not a file that can be read"),
    ],
)
def test_a_malformed_storage_prefix_is_found_at_start(variable: str, value: str, problem: str) -> None:
    done = manage("check", **PRODUCTION | {variable: value})
    assert done.returncode != 0
    assert "wms2.E018" in done.stderr
    assert problem in done.stderr
    assert variable in done.stderr


def test_prefixes_of_sites_need_no_default() -> None:
    own = {"WMS2_STORAGE_PREFIX": "", "WMS2_SITE_STORAGE": '{"T2_CH_CERN": ["davs://se.example.org/cms"]}'}
    assert manage("check", **PRODUCTION | own).returncode == 0


def test_the_lab_needs_no_outside_services() -> None:
    done = manage("check", WMS2_LAB="1", **LAB)
    assert done.returncode == 0, done.stdout + done.stderr


CELERY = ("celery", "-A", "wms2_project.celery")


@pytest.mark.parametrize(
    ("start", "root", "message"),
    [
        (("manage.py", "check"), "dags", "is not an absolute path"),
        (("-c", "import wms2_project.wsgi"), "", "is not set"),
        (("-m", *CELERY, "worker", "-P", "solo", "-Q", "outputs"), "", "is not set"),
        (("-m", *CELERY, "beat", "--pidfile=", "-S", "wms2_project.beat:LeaderScheduler"), "", "is not set"),
    ],
    ids=["manage", "web", "worker", "beat"],
)
def test_nothing_starts_without_an_absolute_submit_root(
    start: tuple[str, ...], root: str, message: str
) -> None:
    done = python(*start, **LAB | {"WMS2_LAB": "1", "WMS2_SUBMIT_ROOT": root})
    assert done.returncode == 1
    assert f"WMS2_SUBMIT_ROOT {message}" in done.stderr
    assert "absolute path of the directory" in done.stderr
