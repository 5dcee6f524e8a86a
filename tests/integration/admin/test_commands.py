"""The same actions as commands: one service each, a reason, the actor, and the services' errors."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from dags_app.models import DAG, Schedd
from requests_app.models import Request
from requests_app.services.decisions import decisions_of
from requests_app.services.importing import import_request
from requests_app.states import RequestStatus
from tests.integration.factories import (
    DOCUMENT,
    ago,
    make_dag,
    make_file,
    make_request,
    make_round,
    make_site,
)
from wms2_project.models import AuditEvent

pytestmark = pytest.mark.django_db
S = RequestStatus


@pytest.fixture(autouse=True)
def person(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WMS2_PERSON", "sam")  # set by ./wms2 to its caller


def run(*arguments: object, **options: Any) -> str:
    out = StringIO()
    call_command(*(str(one) for one in arguments), stdout=out, **options)
    return out.getvalue()


@pytest.mark.parametrize(
    ("before", "arguments", "after"),
    [
        (S.ACTIVE, ["stop", "--hold"], S.STOPPING),
        (S.QUEUED, ["stop"], S.HELD),
        (S.HELD, ["release"], S.QUEUED),
        (S.PLANNING, ["abort"], S.ABORTED),
    ],
)
def test_a_request_is_steered(before: RequestStatus, arguments: list[str], after: RequestStatus) -> None:
    row = make_request(status=before)
    output = run("request", arguments[0], row.request_name, "--reason", "because", *arguments[1:])
    row.refresh_from_db()
    last = row.transitions.last()
    assert last is not None
    assert output.startswith(f"{row}: ")
    assert (row.status, last.actor, last.reason) == (after, "user:sam", "because")


def test_a_request_is_changed_and_restarted() -> None:
    row, _ = import_request(document=DOCUMENT, actor="user:ana")
    dry = run("request", "edit", row, "--reason", "r", "--priority", 5, "--dry-run")
    assert 'now: ["priority' in dry
    with pytest.raises(CommandError, match="category_throttles"):
        run("request", "edit", row, "--reason", "r", "--category-throttles", "Merge")
    row.refresh_from_db()
    assert row.priority == DOCUMENT["priority"]
    run("request", "edit", row, "--reason", "r", "--priority", 5)
    run("request", "edit", row, "--reason", "r", "--memory-mb", 4000)
    dry = run("request", "restart", row, "--reason", "lost", "--dry-run")
    assert 'decisions: {"memory_mb": 4000}' in dry
    run("request", "edit", row, "--reason", "r", "--memory-mb", "null")
    assert "decisions: {}" in run("request", "restart", row, "--reason", "lost", "--dry-run")
    output = run("request", "restart", row, "--reason", "lost", "--cleanup-policy", "immediate_cleanup")
    newer = Request.objects.get(previous_version=row)
    assert (newer.priority, newer.cleanup_policy) == (5, "immediate_cleanup")
    assert newer.request_name in output


def test_a_release_takes_the_changes_that_rest_takes() -> None:
    make_site("T2_CH_CERN")
    make_site("T2_DE_DESY")
    row = make_request(status=S.HELD)
    lfn = make_file(row.workflow, locations=["T2_CH_CERN"]).lfn
    given = [
        "--site-bans", "T2_DE_DESY", "--excluded-files", lfn, "--memory-mb", 3000, "--retry-count", 0,
        "--time-per-event-sec", 9.5, "--error-hold-threshold", 0.5,
    ]  # fmt: skip
    dry = run("request", "release", row, "--reason", "seen", "--dry-run", *given)
    assert 'sites_left: ["T2_CH_CERN"]' in dry
    row.refresh_from_db()
    assert row.status == S.HELD
    run("request", "release", row, "--reason", "seen", *given)
    row.refresh_from_db()
    decided = decisions_of(row.workflow)
    assert row.status == S.QUEUED
    assert decided == {
        "memory_mb": 3000, "time_per_event_sec": 9.5, "retry_count": 0, "error_hold_threshold": 0.5,
        "site_bans": ["T2_DE_DESY"], "excluded_files": [lfn],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--memory-mb", 0], "memory_mb: Ensure this value is greater than or equal to 1"),
        (["--retry-count", 99], "retry_count: Ensure this value is less than or equal to 20"),
        (["--site-bans", "not a site"], r"site_bans\[0\]"),
        (["--excluded-files", "/store/data/unknown.root"], "excluded_files: not an input file"),
    ],
)
def test_a_wrong_change_of_a_release_is_refused_and_nothing_is_released(
    given: list[Any], message: str
) -> None:
    row = make_request(status=S.HELD)
    with pytest.raises(CommandError, match=message):
        run("request", "release", row, "--reason", "seen", *given)
    row.refresh_from_db()
    assert row.status == S.HELD


@pytest.mark.parametrize(
    ("option", "value", "legal"),
    [
        ("--priority", 99_999_999, "priority: Ensure this value is less than or equal to 1000000"),
        ("--memory-mb", 0, "memory_mb: Ensure this value is greater than or equal to 1"),
        (
            "--category-throttles",
            "Merging=3",
            "category_throttles: 'Merging' is unknown; use Processing, Merge, Cleanup, MergeGroup",
        ),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_range(option: str, value: object, legal: str) -> None:
    row = make_request(status=S.QUEUED)
    with pytest.raises(CommandError, match=legal):
        run("request", "edit", row, "--reason", "r", option, value)


@pytest.mark.parametrize(
    ("action", "extra", "message"),
    [
        ("fail", ["--priority", 3], "unrecognized arguments: --priority"),
        ("release", ["--hold", "--dry-run"], "unrecognized arguments: --hold"),
        ("abort", ["--site-blacklist"], "unrecognized arguments: --site-blacklist"),
    ],
)
def test_an_option_of_another_action_is_refused(action: str, extra: list[Any], message: str) -> None:
    row = make_request(status=S.HELD)
    with pytest.raises(CommandError, match=message):
        run("request", action, row, "--reason", "r", *extra)
    row.refresh_from_db()
    assert row.status == S.HELD


def test_refusals_are_printed() -> None:
    row = make_request(status=S.COMPLETED)
    with pytest.raises(CommandError, match="cannot become stopping"):
        run("request", "stop", row, "--reason", "late")
    with pytest.raises(CommandError, match="no request named unknown"):
        run("request", "stop", "unknown", "--reason", "x")
    with pytest.raises(CommandError, match="There is no DAG"):
        run("dag", "hold", "00000000-0000-0000-0000-000000000000", "--reason", "x")
    dag = make_dag(make_round(row.workflow), status="completed", completed_at=ago(minutes=1))
    with pytest.raises(CommandError, match="is completed"):
        run("dag", "remove", dag.pk, "--reason", "x")


def test_a_dag_is_rescued() -> None:
    row = make_request(status=S.HELD)
    dag = make_dag(make_round(row.workflow), status="removed", completed_at=ago(minutes=1))
    output = run("dag", "rescue", dag.pk, "--reason", "the disk is back")
    rescue = DAG.objects.get(parent=dag)
    assert str(rescue.pk) in output
    assert AuditEvent.objects.filter(action="rescue DAG").count() == 1


def test_a_schedd_is_drained_listed_and_enabled(settings: Any) -> None:
    settings.SCHEDDS = ["one@pool", "two@pool"]
    run("schedd", "drain", "two@pool", "--reason", "a spare", "--deadline-minutes", 10)
    row = Schedd.objects.get(name="two@pool")
    assert row.drain_deadline is not None
    assert row.drain_deadline > timezone.now()
    run("schedd", "enable", "two@pool", "--reason", "needed")
    kept = run("schedd", "drain", "two@pool", "--reason", "a spare", "--keep")
    assert kept == "two@pool: enabled needed\n"
    assert run("schedd", "list") == "one@pool: enabled\ntwo@pool: enabled needed\n"
    with pytest.raises(CommandError, match="arguments are required: SCHEDD"):
        run("schedd", "drain", "--reason", "x")
    with pytest.raises(CommandError, match="There is no schedd three@pool"):
        run("schedd", "drain", "three@pool", "--reason", "x")
    with pytest.raises(CommandError, match="reason"):
        run("schedd", "drain", "two@pool")


def test_a_plan_reads_paths_from_the_callers_directory_and_a_dash_as_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WMS2_FROM", str(tmp_path))
    lfn = "/store/data/Run2031A/Muons/RAW/v1/000/1.root"
    file = {"lfn": lfn, "size": 10, "events": 10, "locations": ["T2_CH_CERN"], "runs": {"1": [1]}}
    (tmp_path / "files.json").write_text(json.dumps([file]))
    (tmp_path / "doc.json").write_text(json.dumps(DOCUMENT))
    output = run("plan", "--request", "doc.json", "--files", "files.json")
    monkeypatch.setattr("sys.stdin", StringIO(json.dumps(DOCUMENT)))
    assert run("plan", "--request", "-", "--files", tmp_path / "files.json") == output
    assert "mg_000000: 1 job, 10 events" in output
    with pytest.raises(
        CommandError, match=f"{tmp_path}/none cannot be read.*pass - and send the file on standard input"
    ):
        run("plan", "--request", "none")
