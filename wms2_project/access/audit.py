"""The audit: one row per change, written in the transaction of the change, and tamper-evident.

Every row has a mark from the start: a keyed hash of its content and a nonce. Without the key no row can be
written, edited or copied. After the commit the row is sealed: it gets the next number of one chain and a
keyed hash over the seal before it, which makes removed and moved rows detectable. Sealing is not part of
the change, because a lock on the head of the chain would serialise all transactions and deadlock some. The
sealer first checks that the chain still ends where it ended and that its last row is unchanged; otherwise
it seals nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection, transaction
from django.db.models import Count, Min

from wms2_project.changes import Topic, announce, request_topic
from wms2_project.errors import InvalidInput, PermanentError
from wms2_project.locks import lock_key
from wms2_project.models import ApiToken, AuditEvent, AuditHead, Identity
from wms2_project.observation.logs import current_request_id
from wms2_project.observation.tracing import current_traceparent

logger = logging.getLogger(__name__)
_BATCH = 500
_PERSONAL = frozenset({"subject"})
_CONTENT = ("actor", "action", "target", "reason", "detail", "request_id", "traceparent")
UNSEALED_ALLOWED_SEC = 300.0


class AuditBroken(PermanentError):
    """The end of the chain differs from what was sealed."""

    code = "audit_broken"

    def __init__(self, message: str) -> None:
        super().__init__(message, cure="Run manage.py verify_audit and compare with the heads in the logs")


def need_reason(reason: str) -> None:
    """Raise InvalidInput unless the reason has text."""
    if not reason.strip():
        raise InvalidInput("a reason is needed", fields={"reason": "give a reason for the audit"})


def record(*, actor: str, action: str, target: str, reason: str, **detail: Any) -> None:
    """Write an audit row in the current transaction and seal it after the commit."""
    need_reason(reason)
    event = AuditEvent(
        actor=actor,
        action=action,
        target=target,
        reason=reason,
        detail=detail,
        request_id=current_request_id(),
        traceparent=current_traceparent(),
    )
    event.mark = mark_of(event)
    event.save(force_insert=True)
    transaction.on_commit(seal_soon)
    announce(Topic.AUDIT, request_topic(target))


def record_move(*, actor: str, target: str, before: str, after: str, reason: str) -> None:
    """Record a change of status unless the system made it; the status history has those."""
    if not actor.startswith("system:"):
        record(actor=actor, action=after, target=target, reason=reason, before=before)


def shown_detail(event: AuditEvent, *, to_admin: bool) -> dict[str, Any]:
    """Return the detail; without the subjects of identities unless the reader is an admin."""
    return {name: value for name, value in event.detail.items() if to_admin or name not in _PERSONAL}


def mark_of(event: AuditEvent) -> str:
    """Return the keyed hash of the row's content, equal before storing and after reading."""
    content = [event.at.isoformat(), *(getattr(event, name) for name in _CONTENT)]
    if nonce := getattr(event, "nonce", ""):  # rows of older versions have none
        content.append(nonce)
    return _keyed(json.dumps(_canonical(content), separators=(",", ":")))


def seal_pending() -> int:
    """Append committed, unsealed rows to the chain, under a lock, and return how many.

    Rows that WMS2 did not write stay unsealed. Raise AuditBroken if the end of the chain was changed.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [lock_key("audit chain")])
        kept = _checked_head()
        number, seal = kept.number, kept.seal
        pending = AuditEvent.objects.filter(number__isnull=True).order_by("id")[:_BATCH]
        written = [event for event in pending if _is_new(event, dropped_at=kept.dropped_at)]
        for event in written:
            number += 1
            seal = seal_of(seal, number, event)
            AuditEvent.objects.filter(pk=event.pk).update(number=number, seal=seal)
        if written:
            head = {"number": number, "seal": seal, "mark": head_mark(number, seal)}
            if not AuditHead.objects.filter(pk=1).update(**head):
                AuditHead.objects.create(pk=1, **head)
    if written:
        logger.info("audit head %d:%s", number, seal)
    return len(written)


def _checked_head() -> AuditHead:
    """Return the record of the head after checking the last number and its seal against it."""
    kept = AuditHead.objects.first()
    last, before = [*AuditEvent.objects.filter(number__isnull=False).order_by("-number")[:2], None, None][:2]
    if kept is None and last is None:
        return AuditHead(number=0, seal="")
    ends = (last.number, last.seal) if last else (0, "")
    if kept is None or kept.mark != head_mark(kept.number, kept.seal) or ends != (kept.number, kept.seal):
        once = f"number {kept.number}" if kept else "a number that is no longer recorded"
        raise AuditBroken(f"the audit was sealed up to {once} and ends at number {ends[0]} now")
    if last is None or last.mark != mark_of(last) or last.seal != seal_of(_end_of(before), ends[0], last):
        raise AuditBroken(f"number {ends[0]} of the audit was changed after it was sealed")
    return kept


def _end_of(event: AuditEvent | None) -> str:
    return event.seal if event else ""


def _is_new(event: AuditEvent, *, dropped_at: datetime | None) -> bool:
    """Return whether WMS2 wrote the row, and it is no copy of one that left the database with its nonce."""
    return (
        bool(event.nonce) and event.mark == mark_of(event) and (dropped_at is None or event.at > dropped_at)
    )


def head_mark(number: int, seal: str) -> str:
    """Return the keyed hash of the record of the head."""
    return _keyed(f"head {number} {seal}")


def dropped_mark(head: AuditHead) -> str:
    """Return the keyed hash of the record of the rows that left the database."""
    at = head.dropped_at.isoformat() if head.dropped_at else ""
    return _keyed(f"dropped {head.dropped} {head.dropped_seal} {at}")


def unsealed_sec(*, now: datetime) -> float:
    """Return the age of the oldest unsealed row; 0 if there is none."""
    oldest = AuditEvent.objects.filter(number__isnull=True).aggregate(at=Min("at"))["at"]
    return max(0.0, (now - oldest).total_seconds()) if oldest else 0.0


def unshipped_sec(*, now: datetime) -> float:
    """Return how long the head has been waiting to be shipped; 0 if shipping is off or complete."""
    head = AuditHead.objects.first() if settings.AUDIT_HEAD_URL else None
    if head is None or head.shipped >= head.number:
        return 0.0
    oldest = AuditEvent.objects.filter(number__gt=head.shipped).aggregate(at=Min("at"))["at"]
    return max(0.0, (now - oldest).total_seconds()) if oldest else 0.0


def flaws() -> Iterator[str]:
    """Yield one sentence per flaw of the audit; nothing if it is intact."""
    if not AuditEvent.objects.exists() and (ApiToken.objects.exists() or Identity.objects.exists()):
        yield "it is empty, though tokens or identities were given out: all rows were removed"
    yield from _head_flaws()
    head = AuditHead.objects.first() or AuditHead()
    if head.dropped and head.dropped_mark != dropped_mark(head):
        yield f"the record that rows up to number {head.dropped} are in files was not written by WMS2"
    expected, seal = head.dropped + 1, head.dropped_seal
    rows = AuditEvent.objects.filter(number__isnull=False).order_by("number")
    for event in rows.iterator(chunk_size=2000):
        if (event.number or 0) <= head.dropped:  # in a file, and not deleted yet
            if event.mark != mark_of(event):
                yield f"number {event.number} (row {event.pk}) was edited, or not written by WMS2"
            continue
        if event.number != expected:
            yield f"numbers {expected} to {(event.number or 0) - 1} are missing: rows were removed"
        elif event.seal != seal_of(seal, expected, event):
            yield f"number {event.number} (row {event.pk}) does not follow the row before it"
        if event.mark != mark_of(event):
            yield f"number {event.number} (row {event.pk}) was edited, or not written by WMS2"
        expected, seal = (event.number or 0) + 1, event.seal
    for event in AuditEvent.objects.filter(number__isnull=True).order_by("id").iterator(chunk_size=2000):
        if not _is_new(event, dropped_at=head.dropped_at):
            yield f"row {event.pk} was not written by WMS2, or copied from a row that left the database"
    copies = AuditEvent.objects.exclude(nonce="").values("nonce").annotate(n=Count("id")).filter(n__gt=1)
    for copy in copies.order_by("nonce").iterator(chunk_size=2000):
        yield f"{copy['n']} rows have the nonce {copy['nonce']}: rows were copied"


def _head_flaws() -> Iterator[str]:
    try:
        with transaction.atomic():
            _checked_head()
    except AuditBroken as error:
        yield error.message


def seal_soon() -> None:
    """Seal after a commit. A failure undoes nothing: the next event or tidy-up retries."""
    try:
        while seal_pending() == _BATCH:
            pass
    except DatabaseError:
        logger.exception("the audit could not be sealed; retried with the next event")
    except AuditBroken as error:
        logger.error("nothing is sealed: %s", error)


def seal_of(previous: str, number: int, event: AuditEvent) -> str:
    """Return the keyed hash that ties the row to its number and to the seal before it."""
    return _keyed(f"{previous} {number} {event.pk} {event.mark}")


def _keyed(text: str) -> str:
    return hmac.new(settings.AUDIT_KEY.encode(), text.encode(), hashlib.sha256).hexdigest()


def _canonical(value: Any) -> Any:
    """Return one spelling per value: PostgreSQL reorders keys and returns 1e22 as an integer."""
    if isinstance(value, dict):
        return [[str(key), _canonical(value[key])] for key in sorted(value)]
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{Decimal(str(value)).normalize():f}"
    return value if isinstance(value, bool) or value is None else str(value)
