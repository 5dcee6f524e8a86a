"""Stores a batch of messages: every one becomes an announcement or a dead letter, in one transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings

from chains_app.intake.messages import Refused, read_message
from chains_app.services.announcing import (
    NewAnnouncement,
    build_announcement,
    build_dead_letter,
    store_announcements,
)
from chains_app.states import AnnouncementStatus
from wms2_project.errors import InvalidInput
from wms2_project.failpoints import failpoint

MAX_KEPT_BYTES = 64 * 1024  # of a dead letter


@dataclass(frozen=True, slots=True)
class Taken:
    """Counts of a batch of messages by result."""

    announcements: int
    dead_letters: int
    ignored: int


def take_messages(bodies: Sequence[bytes], *, source: str) -> Taken:
    """Read messages and store them."""
    return store_messages(read_messages(bodies, source=source))


def read_messages(bodies: Sequence[bytes], *, source: str) -> list[NewAnnouncement | None]:
    """Return a row for each message: an announcement or a dead letter; None for events to be ignored."""
    actor, event_types = actor_of(source), frozenset(settings.INTAKE_EVENT_TYPES)
    return [_row(body, actor, event_types) for body in bodies]


def store_messages(rows: Sequence[NewAnnouncement | None]) -> Taken:
    """Store what was read. A repeated message, or one with a known uid, changes nothing.

    When this returns, the rows are committed and the messages may be acknowledged. Raises DatabaseError.
    """
    stored = [row for row in rows if row is not None]
    if stored:
        store_announcements(stored)
    failpoint("intake.stored")
    dead = sum(row.status == AnnouncementStatus.DEAD_LETTER for row in stored)
    return Taken(len(stored) - dead, dead, len(rows) - len(stored))


def actor_of(source: str) -> str:
    """Return the actor of announcements that come from this source."""
    return f"system:intake-{source}"


def _row(body: bytes, actor: str, event_types: frozenset[str]) -> NewAnnouncement | None:
    try:
        found = read_message(body, event_types=event_types)
        return None if found is None else build_announcement(actor=actor, **found._asdict())
    except (Refused, InvalidInput) as error:
        # A uid of its own: a corrected message with the uid of the sender is still accepted.
        uid = f"sha256:{hashlib.sha256(body).hexdigest()}"
        return build_dead_letter(body=_kept(body), reason=str(error), actor=actor, uid=uid)


def _kept(body: bytes) -> str:
    """Return the beginning of a message as text of at most MAX_KEPT_BYTES."""
    text = body[:MAX_KEPT_BYTES].decode(errors="replace").replace("\x00", "\ufffd")
    return text.encode()[:MAX_KEPT_BYTES].decode(errors="ignore")
