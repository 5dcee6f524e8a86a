"""Who changed what, and why: written in the transaction of the change itself, and tamper-evident.

Every row carries a mark, a keyed hash of its content, from birth: without the key nobody can write or edit
one. Once committed it is sealed: given the next number of one chain and a keyed hash over the seal before it,
so that a row taken out or moved is seen. Sealing is apart from the change, because a lock on the head of the
chain inside everybody's transactions would order them all, and deadlock some.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection, transaction

from wms2_project.errors import InvalidInput
from wms2_project.locks import lock_key
from wms2_project.logs import current_request_id
from wms2_project.models import ApiToken, AuditEvent, Identity
from wms2_project.tracing import current_traceparent

logger = logging.getLogger(__name__)
_BATCH = 500
_PERSONAL = frozenset({"subject"})
_CONTENT = ("actor", "action", "target", "reason", "detail", "request_id", "traceparent")


def need_reason(reason: str) -> None:
    """Refuse to act without one."""
    if not reason.strip():
        raise InvalidInput("a reason is needed", fields={"reason": "say why, for those who come after"})


def record(*, actor: str, action: str, target: str, reason: str, **detail: Any) -> None:
    """Keep who did this to what, and why."""
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
    transaction.on_commit(_seal_soon)


def record_move(*, actor: str, target: str, before: str, after: str, reason: str) -> None:
    """Keep that somebody changed a status; what the machine does by itself, the status history tells."""
    if not actor.startswith("system:"):
        record(actor=actor, action=after, target=target, reason=reason, before=before)


def shown_detail(event: AuditEvent, *, to_admin: bool) -> dict[str, Any]:
    """Return the detail without what only admins may know: whose certificate or account it is outside."""
    return {name: value for name, value in event.detail.items() if to_admin or name not in _PERSONAL}


def mark_of(event: AuditEvent) -> str:
    """The keyed hash of the row's content, the same before storing and after reading."""
    content = [event.at.isoformat(), *(getattr(event, name) for name in _CONTENT)]
    return _keyed(json.dumps(_canonical(content), separators=(",", ":")))


def seal_pending() -> int:
    """Append every committed row without a seal to the chain; answer how many. One sealer at a time."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [lock_key("audit chain")])
        head = AuditEvent.objects.filter(number__isnull=False).order_by("-number").first()
        number, seal = (head.number or 0, head.seal) if head else (0, "")
        pending = list(AuditEvent.objects.filter(number__isnull=True).order_by("id")[:_BATCH])
        for event in pending:
            number += 1
            seal = _seal(seal, number, event)
            AuditEvent.objects.filter(pk=event.pk).update(number=number, seal=seal)
    return len(pending)


def flaws() -> Iterator[str]:
    """What is wrong with the audit, one sentence each; nothing when it is whole."""
    if not AuditEvent.objects.exists() and (ApiToken.objects.exists() or Identity.objects.exists()):
        yield "it is empty, though tokens or identities were given out: all rows were removed"
    expected, seal = 1, ""
    rows = AuditEvent.objects.filter(number__isnull=False).order_by("number")
    for event in rows.iterator(chunk_size=2000):
        if event.number != expected:
            yield f"numbers {expected} to {(event.number or 0) - 1} are missing: rows were removed"
        elif event.seal != _seal(seal, expected, event):
            yield f"number {event.number} (row {event.pk}) does not follow the row before it"
        if event.mark != mark_of(event):
            yield f"number {event.number} (row {event.pk}) was edited, or not written by WMS2"
        expected, seal = (event.number or 0) + 1, event.seal
    for event in AuditEvent.objects.filter(number__isnull=True).order_by("id").iterator(chunk_size=2000):
        if event.mark != mark_of(event):
            yield f"row {event.pk} was not written by WMS2"


def _seal_soon() -> None:
    """After the commit, so a failure here undoes nothing: the next event seals this one too."""
    try:
        seal_pending()
    except DatabaseError:
        logger.exception("the audit could not be sealed; the next event does it")


def _seal(previous: str, number: int, event: AuditEvent) -> str:
    return _keyed(f"{previous} {number} {event.pk} {event.mark}")


def _keyed(text: str) -> str:
    return hmac.new(settings.AUDIT_KEY.encode(), text.encode(), hashlib.sha256).hexdigest()


def _canonical(value: Any) -> Any:
    """One spelling per value: PostgreSQL gives 1e22 back as a whole number, and keys in another order."""
    if isinstance(value, dict):
        return [[str(key), _canonical(value[key])] for key in sorted(value)]
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{Decimal(str(value)).normalize():f}"
    return value if isinstance(value, bool) or value is None else str(value)
