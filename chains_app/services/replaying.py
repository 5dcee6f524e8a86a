"""Dead letters: replay and drop them."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone

from chains_app import masks
from chains_app.models import Announcement
from chains_app.selectors.templates import actual_masks, actual_template
from chains_app.services.announcing import match_announcement
from chains_app.states import ANNOUNCEMENTS, AnnouncementStatus
from wms2_project.access import audit
from wms2_project.errors import Conflict, NotFound


@dataclass(frozen=True, slots=True)
class Replayed:
    """Number of dead letters that were replayed."""

    replayed: int


def announcement_by_id(announcement_id: int) -> Announcement:
    """Return the announcement. Raise NotFound if it does not exist."""
    row = Announcement.objects.filter(pk=announcement_id).first()
    if row is None:
        raise NotFound(f"There is no announcement {announcement_id}", cure="See GET /api/v1/announcements")
    return row


def replay_announcement(*, announcement: Announcement, actor: str, reason: str) -> Announcement:
    """Match a dead letter again with the templates that are actual now."""
    row = _move(announcement, AnnouncementStatus.PENDING, "replay", actor=actor, reason=reason)
    return match_announcement(uid=row.uid)


def replay_matching(*, actor: str, reason: str) -> int:
    """Replay every dead letter that would start a chain now; return how many were replayed."""
    known = actual_masks()
    rows = Announcement.objects.filter(status=AnnouncementStatus.DEAD_LETTER, body="").order_by("id")
    wanted = []
    for row in rows.iterator(chunk_size=1000):
        named = row.template_name and actual_template(row.template_name)
        if named or (not row.template_name and masks.matching(known, row.dataset_name)):
            wanted.append(row)
    for row in wanted:
        replay_announcement(announcement=row, actor=actor, reason=reason)
    return len(wanted)


def drop_announcement(*, announcement: Announcement, actor: str, reason: str) -> Announcement:
    """Drop a dead letter: it is not shown as open any more."""
    return _move(announcement, AnnouncementStatus.DROPPED, "drop", actor=actor, reason=reason)


def _move(
    announcement: Announcement, to: AnnouncementStatus, action: str, *, actor: str, reason: str
) -> Announcement:
    audit.need_reason(reason)
    with transaction.atomic():
        row = Announcement.objects.select_for_update().get(pk=announcement.pk)
        if to not in ANNOUNCEMENTS[AnnouncementStatus(row.status)].leads_to:
            raise Conflict(f"announcement {row.pk} is {row.status}", cure="Only dead letters can be changed")
        if to is AnnouncementStatus.PENDING and not (row.dataset_name or row.template_name):
            raise Conflict(f"announcement {row.pk} could not be read: {row.reason}", cure="Drop it")
        row.status, row.decided_at = to, timezone.now()
        row.save(update_fields=["status", "decided_at"])
        audit.record(actor=actor, action=action, target=f"announcement {row.pk}", reason=reason, uid=row.uid)
    return row
