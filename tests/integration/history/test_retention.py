"""Rows past their time are removed in batches; the ledger, and the audit with its chain, are kept."""

from __future__ import annotations

import gzip
import json
from dataclasses import asdict
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from console.request.work import coverage_of
from dags_app.models import DAGEvent, InputFile, Workflow
from dags_app.selectors import InputLedger, ledger_of
from dags_app.services import input_folding
from requests_app.health import _retention as retention_health
from requests_app.models import Request, RetentionRecord
from requests_app.selectors.progress import progress_of
from requests_app.services.retention import apply_retention, plan_retention, retention_lags
from requests_app.states import RequestStatus
from tests.integration.factories import ago, make_dag, make_file, make_request, make_round
from wms2_project.access import audit, audit_archive
from wms2_project.models import AuditEvent, AuditHead

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _policy(settings: Any, tmp_path: Path) -> None:
    settings.KEEP_FILES_DAYS, settings.KEEP_EVENTS_DAYS, settings.KEEP_AUDIT_DAYS = 100, 100, 100
    settings.ARCHIVE_ROOT = str(tmp_path / "archive")


def ended_request(days: float, *, files: int = 5) -> Request:
    """Return a request that completed long ago, with one file excluded and one beyond the early stop."""
    request = make_request(status=RequestStatus.COMPLETED, status_since=ago(days=days))
    round_ = make_round(request.workflow, status="resolved")
    for number in range(1, files + 1):
        held = {"state": "processed", "round": round_, "first_group": 0, "last_group": 0}
        make_file(request.workflow, lumis=[[1, number, number]], **held)
    excluded = {"state": "excluded", "excluded_by": "user:olga", "excluded_reason": "corrupt"}
    make_file(request.workflow, lumis=[[1, 90, 90]], **excluded)
    make_file(request.workflow, lumis=[[1, 91, 91]], state="excluded", wanted=[])
    return request


def retain(*only: str, seconds: float = 60.0) -> dict[str, int]:
    outcomes = apply_retention(now=timezone.now(), seconds=seconds, only=only, rest=0.0)
    assert [one.message for one in outcomes if one.message] == []
    return {one.name: one.rows for one in outcomes}


def shown(workflow: Workflow) -> tuple[Any, Any]:
    ledger = asdict(ledger_of(workflow=workflow))
    del ledger["folded_at"]
    request = Request.objects.get(workflow=workflow)
    parts = [(part.label, part.count, part.events) for part in coverage_of(workflow, progress_of(request))]
    return json.loads(json.dumps(ledger)), parts


def test_files_of_old_requests_are_folded_and_shown_as_before() -> None:
    old, young = ended_request(200), ended_request(50)
    before = shown(old.workflow)
    assert retain("files") == {"files": 6}
    assert shown(old.workflow) == before
    assert before[0]["states"]["processed"] == {"files": 5, "events": 500, "lumis": {"1": [[1, 5]]}}
    assert list(old.workflow.input_files.values_list("excluded_by", flat=True)) == ["user:olga"]
    assert young.workflow.input_files.count() == 7
    folded = ledger_of(workflow=old.workflow)
    assert isinstance(folded, InputLedger)
    assert folded.folded_at is not None
    assert retain("files") == {"files": 0}


def test_an_interrupted_folding_continues_where_it_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_folding, "ROWS_PER_DELETE", 2)
    requests = [ended_request(300), ended_request(200)]
    before = [shown(one.workflow) for one in requests]
    removed = [retain("files", seconds=0.0)["files"] for _ in range(10)]
    assert (max(removed), sum(removed)) == (2, 12)
    assert [shown(one.workflow) for one in requests] == before


def test_requests_that_have_been_folded_are_not_read_again() -> None:
    ended_request(200)
    retain("files")
    late = ended_request(150)  # a row from before the record, which no request can get
    assert retain("files") == {"files": 0}
    RetentionRecord.objects.update(through=None)
    assert retain("files") == {"files": 6}
    assert late.workflow.input_files.count() == 1


def test_files_of_a_running_dag_are_kept() -> None:
    request = ended_request(200)
    make_dag(request.workflow.rounds.get())
    assert retain("files") == {"files": 0}


def test_a_dry_run_counts_and_changes_nothing() -> None:
    ended_request(200)
    write_audit([200, 200, 200, 200])
    out = StringIO()
    call_command("retention", "--dry-run", stdout=out)
    counts = {one.name: one.rows for one in plan_retention(now=timezone.now())}
    assert counts == {"files": 6, "events": 0, "audit": 2}
    assert "files: 6 rows from before" in out.getvalue()
    assert (InputFile.objects.count(), AuditEvent.objects.count()) == (7, 4)
    assert not audit_archive.audit_folder().exists()


def make_event(days: float) -> DAGEvent:
    request = make_request()
    dag = make_dag(make_round(request.workflow))
    with patch("django.utils.timezone.now", return_value=ago(days=days)):
        return DAGEvent.objects.create(dag=dag, event_type="observed")


def test_old_events_are_removed_and_the_database_refuses_young_ones() -> None:
    kept = [make_event(40)]  # by a wrong clock, before older ones
    make_event(200)
    assert retention_lags(now=timezone.now())["events"].days == 100
    make_event(300)
    kept.append(make_event(1))
    assert retain("events") == {"events": 2}
    assert list(DAGEvent.objects.order_by("id")) == kept
    kept[0].delete()
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        kept[1].delete()
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        DAGEvent.objects.update(event_type="x")


def write_audit(days: list[float]) -> None:
    for number, age in enumerate(days):
        event = AuditEvent(
            at=ago(days=age),
            actor="user:olga",
            action="change",
            target=f"thing {number}",
            reason="é\n",
            detail={"old": {"b": 1e22, "a": [0.1, None, True]}},
        )
        event.mark = audit.mark_of(event)
        event.save(force_insert=True)
    audit.seal_pending()


def verify(*arguments: str) -> str:
    out = StringIO()
    call_command("verify_audit", *arguments, stdout=out)
    return out.getvalue()


def files() -> list[Path]:
    return sorted(audit_archive.audit_folder().iterdir())


def test_the_audit_is_archived_by_month_with_an_unbroken_chain() -> None:
    write_audit([400, 400, 300, 300, 300, 10, 5])
    heads = [f"{row.number}:{row.seal}" for row in AuditEvent.objects.order_by("number")]
    assert retain("audit") == {"audit": 5}
    assert [path.name for path in files()] == [
        "audit-000000000001-000000000002.jsonl.gz",
        "audit-000000000003-000000000005.jsonl.gz",
    ]
    assert list(AuditEvent.objects.order_by("number").values_list("number", flat=True)) == [6, 7]
    write_audit([1])
    found = verify(*(word for head in heads for word in ("--head", head)))
    assert found.startswith("whole; head 8:")
    assert retain("audit") == {"audit": 0}


def test_a_head_that_the_files_do_not_have_is_reported() -> None:
    write_audit([400] * 4)
    retain("audit")
    wrong = f"1:{'0' * 64}"
    with pytest.raises(CommandError, match="number 1 is not in the chain"):
        verify("--head", wrong)
    assert verify("--without-archive", "--head", wrong).startswith("whole")


def test_rows_that_were_edited_are_not_exported() -> None:
    write_audit([400] * 5)
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE wms2_project_auditevent DISABLE TRIGGER USER")
        cursor.execute("UPDATE wms2_project_auditevent SET reason = 'another' WHERE number = 2")
        cursor.execute("ALTER TABLE wms2_project_auditevent ENABLE TRIGGER USER")
    outcome = apply_retention(now=timezone.now(), seconds=60, only=["audit"], rest=0.0)[0]
    assert "number 2" in outcome.message
    assert (AuditHead.objects.get().dropped, AuditEvent.objects.count()) == (0, 5)


def _edit(path: Path) -> None:
    lines = gzip.decompress(path.read_bytes()).replace(b"user:olga", b"user:eve", 1)
    path.write_bytes(gzip.compress(lines))


@pytest.mark.parametrize(
    "damage", [_edit, Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-20])]
)
def test_damage_of_the_files_is_found(damage: Any) -> None:
    write_audit([400] * 5)
    retain("audit")
    damage(files()[0])
    with pytest.raises(CommandError, match="is not whole"):
        verify()


def test_the_record_of_dropped_rows_cannot_be_forged() -> None:
    write_audit([400] * 5)
    seal = AuditEvent.objects.get(number=3).seal
    AuditHead.objects.update(dropped=3, dropped_seal=seal, dropped_at=timezone.now())
    AuditEvent.objects.filter(number__lte=3).delete()  # as the owner may after that
    with pytest.raises(CommandError, match="was not written by WMS2"):
        verify("--without-archive")


def test_a_copy_of_a_row_that_left_the_database_is_not_sealed() -> None:
    write_audit([400] * 5)
    copied = AuditEvent.objects.get(number=1)
    retain("audit")
    copied.pk, copied.number, copied.seal = None, None, ""
    copied.save(force_insert=True)
    assert audit.seal_pending() == 0
    with pytest.raises(CommandError, match="copied from a row that left the database"):
        verify()


def test_rows_that_are_not_in_files_or_are_young_cannot_be_deleted() -> None:
    write_audit([400, 20, 10, 5])
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        AuditEvent.objects.filter(number=1).delete()
    AuditHead.objects.update(dropped=2)
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        AuditEvent.objects.filter(number=2).delete()


def test_a_role_that_may_not_delete_exports_and_health_names_the_cure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_audit([400] * 5)
    monkeypatch.setattr(audit_archive, "may_delete", lambda: False)
    outcome = apply_retention(now=timezone.now(), seconds=60, only=["audit"], rest=0.0)[0]
    assert (outcome.rows, AuditEvent.objects.count(), len(files())) == (0, 5, 1)
    assert verify().startswith("whole")
    (part,) = retention_health()
    assert not part.works
    assert "audit have been past their time for 300 days" in part.detail
    assert "database role" in part.detail
    monkeypatch.undo()
    call_command("retention", "--only", "audit", stdout=StringIO())
    assert AuditEvent.objects.count() == 2
    assert retention_health()[0].works


def test_lags_are_zero_without_old_rows() -> None:
    ended_request(50)
    write_audit([50] * 4)
    assert set(retention_lags(now=timezone.now()).values()) == {timedelta(0)}


def test_another_process_that_applies_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("requests_app.management.commands.retention.apply_retention", lambda **_: [])
    with pytest.raises(CommandError, match="another process"):
        call_command("retention")


def test_times_of_the_files_are_those_of_the_rows() -> None:
    write_audit([400] * 4)
    at = AuditEvent.objects.get(number=1).at
    retain("audit")
    row = next(audit_archive.read_file(files()[0]))
    assert (row.at, row.reason) == (at, "é\n")
    assert isinstance(row.at, datetime)
