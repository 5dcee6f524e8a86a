"""`manage.py doctor` checks every part of the installation, names what to fix, and sets its exit code."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from requests_app.selectors import installation
from requests_app.selectors.installation import Finding, examine

pytestmark = pytest.mark.django_db


def test_every_part_is_examined_and_each_problem_has_a_cure() -> None:
    found = {one.name: one for one in examine(now=timezone.now())}
    parts = {"settings", "database", "migrations", "redis", "beat", "schedd", "clock", "credentials", "sweep"}
    assert parts | {"workers.lifecycle", "rucio", "dbs", "audit chain"} <= set(found)
    assert all(one.cure for one in found.values() if not one.works)
    assert found["clock"].works


def test_a_missing_directory_and_a_silent_streams_process_are_found(settings: Any, tmp_path: Path) -> None:
    settings.SUBMIT_ROOT, settings.STREAMS_PORT = str(tmp_path / "gone"), 1
    wrong = {one.name: one for one in examine(now=timezone.now()) if not one.works}
    assert "no such directory" in wrong[f"disk {settings.SUBMIT_ROOT}"].detail
    assert "uvicorn" in wrong["streams"].cure


def test_the_exit_code_and_the_lines_follow_the_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    from requests_app.management.commands import doctor

    good, bad = Finding("redis", True), Finding("beat", False, "none leads", "Start a Beat")
    monkeypatch.setattr(doctor, "examine", lambda now: iter([good, bad]))
    out = StringIO()
    with pytest.raises(CommandError, match="1 problem"):
        call_command("doctor", stdout=out)
    lines = ["ok      redis", "PROBLEM beat: none leads", "        fix: Start a Beat"]
    assert out.getvalue().splitlines() == lines
    monkeypatch.setattr(doctor, "examine", lambda now: iter([good]))
    call_command("doctor", "--problems", stdout=(quiet := StringIO()))
    assert quiet.getvalue() == ""


def test_a_check_that_breaks_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(now: object) -> Any:
        raise OSError("the disk is gone")

    monkeypatch.setattr(installation, "_disks", broken)
    found = [one.name for one in examine(now=timezone.now())]
    assert "broken" in found
    assert "audit chain" in found
