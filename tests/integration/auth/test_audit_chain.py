"""The audit is one chain, also with concurrent writers. tests/hostile/test_audit.py tampers with it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction

from tests.integration.factories import make_token, make_user
from wms2_project.access import audit
from wms2_project.models import AuditEvent

pytestmark = pytest.mark.django_db
committed = pytest.mark.django_db(transaction=True)


EVENTS = "wms2_project_auditevent"


def write(count: int, actor: str = "user:olga") -> None:
    for number in range(count):
        detail = {"old": {"b": 1.0, "a": [1e22, 0.1, None, True]}, "text": "é\n\"'"}
        audit.record(actor=actor, action="change", target=f"thing {number}", reason="a test", **detail)


def write_sealed(count: int) -> None:
    """Seal the rows of a test whose transaction never commits."""
    write(count)
    audit.seal_pending()


def verify(*arguments: str) -> str:
    out = StringIO()
    call_command("verify_audit", *arguments, stdout=out)
    return out.getvalue()


@committed
def test_an_untouched_audit_is_whole_and_sealed_at_commit() -> None:
    write(5)
    assert list(AuditEvent.objects.order_by("id").values_list("number", flat=True)) == [1, 2, 3, 4, 5]
    assert verify().startswith("whole; head 5:")


def test_an_empty_audit_is_whole() -> None:
    assert "empty" in verify()


def test_an_audit_that_was_emptied_is_not_whole() -> None:
    make_token(make_user("olga"))
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {EVENTS} RESTART IDENTITY")
    with pytest.raises(CommandError, match="all rows were removed"):
        verify()


def test_the_audit_cannot_be_emptied_at_one_stroke() -> None:
    write_sealed(1)
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {EVENTS} ENABLE TRIGGER audit_event_kept")  # as it is outside the tests
        with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
            cursor.execute(f"TRUNCATE {EVENTS}")
    assert AuditEvent.objects.count() == 1


@pytest.mark.parametrize(
    "change", [{"reason": "x"}, {"number": 9, "seal": "0"}, {"number": None}, {"seal": "0"}]
)
def test_a_sealed_row_cannot_be_changed(change: dict[str, object]) -> None:
    write_sealed(1)
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        AuditEvent.objects.update(**change)
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        AuditEvent.objects.all().delete()


@committed
def test_an_event_of_a_failed_change_is_no_event() -> None:
    write(1)
    with transaction.atomic():
        write(1)
        transaction.set_rollback(True)
    write(1)
    assert verify().startswith("whole; head 2:")


def in_threads(count: int, work: Callable[[int], None]) -> None:
    def one(index: int) -> None:
        try:
            work(index)
        finally:
            connection.close()

    threads = [threading.Thread(target=one, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)


@committed
def test_many_writers_make_one_chain() -> None:
    def work(index: int) -> None:
        for _ in range(10):
            with transaction.atomic():
                write(2, actor=f"user:writer{index}")

    in_threads(4, work)
    assert AuditEvent.objects.count() == 80
    assert verify().startswith("whole; head 80:")


@pytest.mark.parametrize("head", ["junk", "7", "x:" + "a" * 64, "9" * 30 + ":" + "a" * 64, "7:short"])
def test_an_invalid_head_is_refused(head: str) -> None:
    with pytest.raises(CommandError, match="is not NUMBER:SEAL"):
        verify("--head", head)
