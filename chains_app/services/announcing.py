"""Announcements: store an announced dataset once, and start a chain for every actual template it matches.

Storing and matching are two transactions: a row that was stored and not matched, because its process died, is
matched by the next sweep.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from time import monotonic
from typing import Any, NamedTuple

from django.db import transaction
from django.utils import timezone

from chains_app import masks
from chains_app.cwl.values import bind_inputs
from chains_app.models import MAX_UID, Announcement, Template
from chains_app.selectors.ancestry import ancestor_templates
from chains_app.selectors.templates import actual_masks, actual_template, workflow_of
from chains_app.services.generating import generate_chain
from chains_app.states import AnnouncementStatus
from requests_app.services.callbacks import check_url
from wms2_project.access import audit
from wms2_project.errors import InvalidInput
from wms2_project.failpoints import failpoint
from wms2_project.grammar import Name, check
from wms2_project.locks import try_lock
from wms2_project.postgresql.prepared import execute_prepared

logger = logging.getLogger(__name__)
MAX_BODY = 64 * 1024  # characters kept of a message that cannot be read
ANNOUNCED = "announced"  # reason of an announcement without one
UNMATCHED = "No actual template matches the name"
MATCH_BATCH = 500  # pending announcements that are read at once
MAX_PRIORITY = 1_000_000
_OTHER_TYPES = {"parameters": "jsonb", "priority": "int", "decided_at": "timestamptz"}


class NewAnnouncement(NamedTuple):
    """An announcement to store: valid values of the columns. Cheaper than a model, for thousands a second."""

    uid: str
    actor: str
    dataset_name: str = ""
    template_name: str = ""
    parameters: str = "{}"  # JSON
    priority: int | None = None
    correlation_id: str = ""
    callback_url: str = ""
    status: str = AnnouncementStatus.PENDING.value
    reason: str = ""
    body: str = ""
    decided_at: datetime | None = None


def announce(
    *,
    uid: str,
    name: str,
    actor: str,
    template: str | None = None,
    parameters: Any = None,
    priority: Any = None,
    correlation_id: str | None = None,
    callback_url: str | None = None,
    reason: str = ANNOUNCED,
) -> Announcement:
    """Store an announcement and match it. A known uid returns the first announcement unchanged.

    Raises InvalidInput, storing nothing, for values outside the grammar. A valid announcement that starts no
    chain becomes a dead letter with a reason.
    """
    row = build_announcement(
        uid=uid, name=name, actor=actor, template=template, parameters=parameters, priority=priority,
        correlation_id=correlation_id, callback_url=callback_url,
    )  # fmt: skip
    with transaction.atomic():
        if store_announcements([row]):
            number = Announcement.objects.values_list("pk", flat=True).get(uid=uid)
            audit.record(
                actor=actor, action="announce", target=f"announcement {number}", reason=reason, uid=uid
            )
    failpoint("announce.stored")
    return match_announcement(uid=uid)


def build_announcement(
    *,
    uid: str,
    name: str,
    actor: str,
    template: str | None = None,
    parameters: Any = None,
    priority: Any = None,
    correlation_id: str | None = None,
    callback_url: str | None = None,
) -> NewAnnouncement:
    """Return the announcement, validated and not stored. Raise InvalidInput for illegal values."""
    fields: dict[str, str] = {}
    if not isinstance(uid, str) or not 0 < len(uid) <= MAX_UID or not uid.isprintable():
        fields["uid"] = f"a text of 1 to {MAX_UID} printable characters is needed"
    if name or not template:
        _collect(fields, "name", Name.DATASET, name)
    if template:
        _collect(fields, "template", Name.WORD, template)
    if correlation_id and not str(correlation_id).isprintable():
        fields["correlation_id"] = "only printable characters are allowed"
    if priority is not None and (type(priority) is not int or not 0 <= priority <= MAX_PRIORITY):
        fields["priority"] = f"a whole number from 0 to {MAX_PRIORITY} is needed"
    if parameters is not None and not isinstance(parameters, Mapping):
        fields["parameters"] = "an object with values of the template's inputs is needed"
    if callback_url:
        try:
            check_url(callback_url)
        except InvalidInput as error:
            fields |= error.fields
    if fields:
        text = "; ".join(f"{field}: {message}" for field, message in fields.items())
        raise InvalidInput(text, fields=fields)
    return NewAnnouncement(
        uid=uid,
        actor=actor,
        dataset_name=name or "",
        template_name=template or "",
        parameters=json.dumps(dict(parameters)) if parameters else "{}",
        priority=priority,
        correlation_id=str(correlation_id or "")[:200],
        callback_url=callback_url or "",
    )


def store_announcements(rows: Sequence[NewAnnouncement]) -> int:
    """Store announcements in one statement; return how many are new. Known uids change nothing."""
    columns = dict(zip(NewAnnouncement._fields, zip(*rows, strict=True), strict=True))
    equal = {name: values[0] for name, values in columns.items() if values.count(values[0]) == len(values)}
    equal.pop("uid", None)
    lists = {name: list(values) for name, values in columns.items() if name not in equal}
    ((new,),) = execute_prepared(_store_statement(tuple(equal)), equal | lists)
    return int(new)


@cache
def _store_statement(equal: tuple[str, ...]) -> str:
    """Return the INSERT that takes a value for each of these columns and an array for each other column.

    An array per column takes half the time of a parameter per value; texts are sent as they are (%b).
    """
    lists = [name for name in NewAnnouncement._fields if name not in equal]
    values = ", ".join(f"%({name})s::{_OTHER_TYPES.get(name, 'text')}" for name in equal)
    arrays = ", ".join(
        f"%({name})s::{_OTHER_TYPES[name]}[]" if name in _OTHER_TYPES else f"%({name})b::text[]"
        for name in lists
    )
    return f"""
  WITH stored AS (
INSERT INTO chains_app_announcement ({", ".join([*equal, *lists])}, received_at)
SELECT {values + ", " if equal else ""}given.*, clock_timestamp()
  FROM unnest({arrays}) AS given
    ON CONFLICT DO NOTHING RETURNING 1)
SELECT count(*) FROM stored"""  # noqa: S608 — ours


def build_dead_letter(*, body: str, reason: str, actor: str, uid: str = "") -> NewAnnouncement:
    """Return the dead letter of a message that cannot be read, not stored. Equal messages have one uid."""
    digest = hashlib.sha256(body.encode(errors="replace")).hexdigest()
    return NewAnnouncement(
        uid=uid if 0 < len(uid) <= MAX_UID and uid.isprintable() else f"sha256:{digest}",
        actor=actor,
        body=body.replace("\x00", "\ufffd")[:MAX_BODY],
        reason=reason[:1000],
        status=AnnouncementStatus.DEAD_LETTER.value,
        decided_at=timezone.now(),
    )


def match_pending(*, seconds: float = math.inf) -> int:
    """Match announcements that were stored and not matched yet, the oldest first; return how many.

    One worker at a time matches, for a limited time. An announcement that raises an error stays pending.
    """
    until, last, matched = monotonic() + seconds, 0, 0
    with try_lock("match announcements") as held:
        while held and monotonic() < until:
            rows = _pending(after=last)
            if not rows:
                break
            last = rows[-1].pk
            hopeless = _bury_unmatched(rows)
            for row in rows:
                if row.pk not in hopeless and monotonic() < until:
                    matched += _matched(row)
            matched += len(hopeless)
    return matched


def _pending(*, after: int) -> list[Announcement]:
    rows = Announcement.objects.filter(status=AnnouncementStatus.PENDING, pk__gt=after)
    return list(rows.order_by("pk")[:MATCH_BATCH])


def _bury_unmatched(rows: Sequence[Announcement]) -> set[int]:
    """Turn announcements that match no mask into dead letters, in one statement; return their ids."""
    known = actual_masks()
    found = {row.pk for row in rows if not row.template_name and not masks.matching(known, row.dataset_name)}
    if found:
        pending = Announcement.objects.filter(pk__in=found, status=AnnouncementStatus.PENDING)
        pending.update(status=AnnouncementStatus.DEAD_LETTER, reason=UNMATCHED, decided_at=timezone.now())
    return found


def _matched(row: Announcement) -> bool:
    try:
        match_announcement(uid=row.uid)
    except Exception:  # a bug must not stop the announcements after this one
        logger.exception("announcement %s is not matched", row.pk)
        return False
    return True


def match_announcement(*, uid: str) -> Announcement:
    """Start a chain for every matching actual template, or make the announcement a dead letter."""
    with transaction.atomic():
        row = Announcement.objects.select_for_update().get(uid=uid)
        if row.status != AnnouncementStatus.PENDING:
            return row
        started, refused = 0, []
        for template in _wanted(row):
            values, problems = bind_inputs(
                workflow_of(template), dataset=row.dataset_name, parameters=row.parameters
            )
            if problems:
                refused.append(f"{template}: {'; '.join(map(str, problems))}")
                continue
            generate_chain(template=template, announcement=row, inputs=values)
            started += 1
        row.status = AnnouncementStatus.MATCHED if started else AnnouncementStatus.DEAD_LETTER
        row.reason = "; ".join(refused)[:4000] if refused else ("" if started else _unmatched(row))
        row.decided_at = timezone.now()
        row.save(update_fields=["status", "reason", "decided_at"])
        failpoint("announce.matched")
    return row


def _wanted(row: Announcement) -> list[Template]:
    """Return the actual templates that the announcement starts, those of its own ancestry excluded."""
    excluded = ancestor_templates(row.dataset_name)
    if row.template_name:
        named = actual_template(row.template_name)
        return [] if named is None or named.name in excluded else [named]
    found = masks.matching(actual_masks(), row.dataset_name)
    return list(Template.objects.filter(pk__in=found).exclude(name__in=excluded).order_by("name"))


def _unmatched(row: Announcement) -> str:
    excluded = ancestor_templates(row.dataset_name)
    if row.template_name in excluded and actual_template(row.template_name):
        return f"The dataset is a product of {row.template_name} itself. Clone the template to repeat it"
    if row.template_name:
        return f"There is no actual template named {row.template_name}"
    if excluded and masks.matching(actual_masks(), row.dataset_name):
        return f"Only templates of its own ancestry match: {', '.join(sorted(excluded))}"
    return UNMATCHED


def _collect(fields: dict[str, str], field: str, kind: Name, value: object) -> None:
    try:
        check(kind, value, field=field)
    except InvalidInput as error:
        fields |= error.fields
