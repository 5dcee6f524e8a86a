"""Tampering with the audit by the owner of its table is detected, given a head stored elsewhere."""

from __future__ import annotations

import json
import logging
import socket
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from requests_app.services.audit_export import ship_audit_head
from tests.integration.receiver import Receiver, certificate, receiver
from wms2_project.access import audit
from wms2_project.models import AuditEvent

__all__ = ["certificate", "receiver"]  # fixtures
pytestmark = pytest.mark.django_db
NAMES = {
    "EVENTS": "wms2_project_auditevent",
    "HEAD": "wms2_project_audithead",
    "COLUMNS": "at, actor, action, target, reason, detail, request_id, traceparent",
}
COPY = (
    "INSERT INTO EVENTS (COLUMNS, nonce, mark, number, seal)"
    " SELECT COLUMNS, nonce, mark, NUMBER, seal FROM EVENTS WHERE number = 2"
)
UNSEAL, ONE = "UPDATE EVENTS SET number = NULL, seal = ''", "DELETE FROM EVENTS WHERE target = 'thing 3'"
TAMPERINGS = {
    "edit the reason": "UPDATE EVENTS SET reason = 'another' WHERE number = 3",
    "edit the actor": "UPDATE EVENTS SET actor = 'user:eve' WHERE number = 3",
    "edit the time": "UPDATE EVENTS SET at = at - interval '1 day' WHERE number = 3",
    "edit the detail": "UPDATE EVENTS SET detail = '{}' WHERE number = 3",
    "edit the target of the last row": "UPDATE EVENTS SET target = 'x' WHERE number = 5",
    "edit the id of the call": "UPDATE EVENTS SET request_id = 'x' WHERE number = 3",
    "edit the trace": "UPDATE EVENTS SET traceparent = 'x' WHERE number = 3",
    "edit the nonce": "UPDATE EVENTS SET nonce = 'x' WHERE number = 3",
    "give a row another key": "UPDATE EVENTS SET id = id + 1000 WHERE number = 3",
    "delete the first row": "DELETE FROM EVENTS WHERE number = 1",
    "delete a row": "DELETE FROM EVENTS WHERE number = 3",
    "delete the last row": "DELETE FROM EVENTS WHERE number = 5",
    "cut the tail": "DELETE FROM EVENTS WHERE number > 2",
    "cut the tail and the record of the head": "DELETE FROM EVENTS WHERE number > 2; DELETE FROM HEAD",
    "delete all rows": "DELETE FROM EVENTS",
    "empty the table": "TRUNCATE EVENTS RESTART IDENTITY",
    "empty everything": "TRUNCATE EVENTS, HEAD RESTART IDENTITY",
    "delete a row and number the others anew": (
        "DELETE FROM EVENTS WHERE number = 3; UPDATE EVENTS SET number = 3 WHERE number = 4;"
        "UPDATE EVENTS SET number = 4 WHERE number = 5"
    ),
    "exchange two rows": (
        "UPDATE EVENTS SET number = 99 WHERE number = 2; UPDATE EVENTS SET number = 2 WHERE number = 3;"
        "UPDATE EVENTS SET number = 3 WHERE number = 99"
    ),
    "unseal the tail, to have it sealed again": f"{UNSEAL} WHERE number > 3",
    "unseal the tail and delete a row": f"{UNSEAL} WHERE number > 2; {ONE}",
    "unseal everything and delete a row": f"{UNSEAL}; {ONE}; TRUNCATE HEAD",
    "copy a row": f"DROP INDEX audit_nonce_once; {COPY.replace('NUMBER', 'NULL')}",
    "copy a row to the end": f"DROP INDEX audit_nonce_once; {COPY.replace('NUMBER', '6')}",
    "copy a row under another nonce": COPY.replace(" nonce, mark, NUMBER", " 'another', mark, NULL"),
    "write a row": (
        "INSERT INTO EVENTS (COLUMNS, nonce, mark, seal) VALUES"
        " (now(), 'user:olga', 'x', 'y', 'z', '{}', '', '', 'new', '', '')"
    ),
    "remove the mark and the seal": "UPDATE EVENTS SET mark = '', seal = '' WHERE number = 5",
    "block the chain with a high number": (
        "UPDATE EVENTS SET number = 999999 WHERE number = 5; UPDATE HEAD SET number = 999999"
    ),
    "put an older copy of both tables back": (
        "DELETE FROM EVENTS WHERE number > 3; UPDATE HEAD SET number = 3, seal = 'SEAL3', mark = 'MARK3'"
    ),
}


def write(count: int) -> None:
    for number in range(1, count + 1):
        audit.record(
            actor="user:olga", action="change", target=f"thing {number}", reason="a test", old=[1, "x"]
        )


def verify(*arguments: str) -> str:
    out = StringIO()
    call_command("verify_audit", *arguments, stdout=out)
    return out.getvalue()


def tamper(statements: str) -> None:
    """Change the table as its owner, with its triggers disabled."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE wms2_project_auditevent DISABLE TRIGGER USER")
        for name, meant in NAMES.items():
            statements = statements.replace(name, meant)
        cursor.execute(statements)
        cursor.execute("ALTER TABLE wms2_project_auditevent ENABLE TRIGGER USER")


def head_record() -> tuple[str, str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT seal, mark FROM wms2_project_audithead")
        row: tuple[str, str] = cursor.fetchone()
        return row


@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_tampering_is_found_with_a_head_kept_elsewhere(tampering: str) -> None:
    write(3)
    audit.seal_pending()
    seal, mark = head_record()
    write(2)
    audit.seal_pending()
    head = verify().strip().rpartition(" ")[2]
    tamper(TAMPERINGS[tampering].replace("SEAL3", seal).replace("MARK3", mark))
    write(6)  # WMS2 continues meanwhile
    with pytest.raises(CommandError, match="is not whole"):
        verify("--head", head)


def test_an_untouched_audit_is_intact() -> None:
    write(3)
    head = verify().strip().rpartition(" ")[2]
    write(3)
    assert verify("--head", head).startswith("whole; head 6:")


def test_nothing_is_sealed_after_a_head_that_does_not_hold(caplog: pytest.LogCaptureFixture) -> None:
    write(3)
    audit.seal_pending()
    tamper("DELETE FROM EVENTS WHERE number = 3")
    write(1)
    with pytest.raises(audit.AuditBroken, match="number 3"):
        audit.seal_pending()
    assert AuditEvent.objects.filter(number__isnull=True).count() == 1


def test_a_row_not_written_by_wms2_is_not_sealed_and_holds_up_no_other() -> None:
    tamper(TAMPERINGS["write a row"])
    write(2)
    assert audit.seal_pending() == 2
    assert list(AuditEvent.objects.filter(number__isnull=True).values_list("target", flat=True)) == ["y"]


def health_of_audit(client: Any) -> tuple[bool, str]:
    parts = {part["name"]: part for part in client.get("/api/v1/status").json()["parts"]}
    return parts["audit"]["works"], parts["audit"]["detail"]


def test_rows_left_unsealed_are_a_fault_of_health(operator: Any) -> None:
    write(1)
    assert health_of_audit(operator) == (True, "")
    tamper("UPDATE EVENTS SET at = at - interval '10 minutes'")
    works, detail = health_of_audit(operator)
    assert not works
    assert "verify_audit" in detail


def test_every_head_is_logged_and_the_log_proves_a_cut(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    with caplog.at_level(logging.INFO, logger="wms2_project.access.audit"):
        for _ in range(2):
            write(2)
            audit.seal_pending()
    log = tmp_path / "wms2.log"
    log.write_text("".join(json.dumps({"message": record.getMessage()}) + "\n" for record in caplog.records))
    assert log.read_text().count("audit head") == 2
    assert verify("--heads", str(log)).startswith("whole; head 4:")
    tamper("TRUNCATE EVENTS, HEAD RESTART IDENTITY")
    write(6)
    with pytest.raises(CommandError, match=r"number 2 .*cut off"):
        verify("--heads", str(log))


def test_the_head_is_shipped_once_and_again_after_an_outage(receiver: str, settings: Any) -> None:
    settings.AUDIT_HEAD_URL = f"{receiver}/heads"
    assert not ship_audit_head()
    write(2)
    audit.seal_pending()
    Receiver.answers = [503]
    assert [ship_audit_head(), ship_audit_head(), ship_audit_head()] == [False, True, False]
    body = json.loads(Receiver.got[-1][1])
    assert verify("--head", body["head"]).startswith("whole; head 2:")
    write(1)
    audit.seal_pending()
    assert ship_audit_head()
    assert json.loads(Receiver.got[-1][1])["number"] == 3


def test_a_head_that_is_not_shipped_is_a_fault_of_health(operator: Any, settings: Any) -> None:
    settings.AUDIT_HEAD_URL = "https://127.0.0.1:1/heads"
    write(1)
    audit.seal_pending()
    assert not ship_audit_head()
    assert health_of_audit(operator) == (True, "")
    tamper("UPDATE EVENTS SET at = at - interval '10 minutes'")
    works, detail = health_of_audit(operator)
    assert not works
    assert "WMS2_AUDIT_HEAD_URL" in detail


def test_the_head_is_sent_to_syslog(settings: Any) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as daemon:
        daemon.bind(("127.0.0.1", 0))
        daemon.settimeout(30)
        settings.AUDIT_HEAD_URL = f"syslog://127.0.0.1:{daemon.getsockname()[1]}"
        write(1)
        audit.seal_pending()
        assert ship_audit_head()
        result = daemon.recv(1000).decode()
    assert verify("--head", result.rpartition(" ")[2]).startswith("whole; head 1:")
