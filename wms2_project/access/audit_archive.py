"""Files of audit rows that left the database: compressed JSON lines, which continue the chain of seals.

Rows leave in the order of the chain, in two steps. First a file of them is written, read back and verified,
and the head records the last of them, its seal and its time, with a keyed hash. From then on the rows may be
deleted; a trigger refuses to delete any other. The processes' own database role may not delete any: the
second step is left to the owner of the tables.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Min, QuerySet

from sandbox.atomic import replacing, sync
from wms2_project.access import audit
from wms2_project.access.audit import AuditBroken
from wms2_project.locks import lock_key
from wms2_project.models import AuditEvent, AuditHead

ROWS_PER_FILE = 20_000
ROWS_PER_DELETE = 2_000
KEPT_ROWS = 2  # the sealer compares the last row with the one before it
_COLUMNS = [field.attname for field in AuditEvent._meta.concrete_fields]


def archive_root() -> Path:
    """Return the directory of the files that are kept after their rows or directories were deleted."""
    return Path(settings.ARCHIVE_ROOT or Path(settings.SUBMIT_ROOT, "archive"))


def audit_folder() -> Path:
    """Return the directory of the files of the audit."""
    return archive_root() / "audit"


def old_rows(*, before: datetime) -> int:
    """Return how many rows are to leave the database: exported ones, and those to be exported."""
    head = AuditHead.objects.first()
    if head is None:
        return 0
    last = head.number - KEPT_ROWS
    return AuditEvent.objects.filter(number__lte=last, at__lt=_limit(before)).count()


def oldest_row() -> datetime | None:
    """Return the time of the first row that may leave the database; None if there is none."""
    head = AuditHead.objects.first()
    kept = head.number - KEPT_ROWS if head else 0
    first = AuditEvent.objects.filter(number__lte=kept).order_by("number").first()
    return first.at if first else None


def export_rows(*, before: datetime) -> int:
    """Write the next rows of one month that are older than `before` to a file; return how many.

    Raise AuditBroken if they are not as they were sealed: then nothing is recorded as exported.
    """
    head = AuditHead.objects.first()
    rows = _next_rows(head, before=_limit(before)) if head else []
    if head is None or not rows:
        return 0
    path = audit_folder() / f"audit-{rows[0].number:012d}-{rows[-1].number:012d}.jsonl.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, mode=0o600) as handle, gzip.open(handle, "wb") as packed:
        for row in rows:
            packed.write(_line(row))
    sync(path.parent)
    found = list(chain_flaws(read_file(path), number=head.dropped, seal=head.dropped_seal))
    if found:
        raise AuditBroken(f"{path} was written and does not continue the chain: {found[0]}")
    _record(rows[-1], latest=max(row.at for row in rows))
    return len(rows)


def exported_rows() -> QuerySet[AuditEvent]:
    """Return the rows that are in files and not deleted yet, in the order of the chain."""
    dropped = AuditHead.objects.values_list("dropped", flat=True).first() or 0
    return AuditEvent.objects.filter(number__lte=dropped).order_by("number")


def delete_exported() -> int:
    """Delete some rows that are in files; return how many. The role must be allowed to, see `may_delete`."""
    keys = list(exported_rows().values_list("pk", flat=True)[:ROWS_PER_DELETE])
    return AuditEvent.objects.filter(pk__in=keys).delete()[0] if keys else 0


def may_delete() -> bool:
    """Return whether the database role of this process may delete audit rows."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT has_table_privilege(current_user, %s::regclass, 'DELETE')", [AuditEvent._meta.db_table]
        )
        row = cursor.fetchone()
    return bool(row and row[0])


def archive_flaws(folder: Path) -> Iterator[str]:
    """Yield one sentence per flaw of the files of dropped rows; nothing if they are whole."""
    head = AuditHead.objects.first()
    if head is None or not head.dropped:
        return
    last, seal = 0, ""
    for path in sorted(folder.glob("audit-*.jsonl.gz")):
        try:
            for row in read_file(path):
                if (row.number or 0) > head.dropped:
                    break  # written, and not recorded as exported yet
                yield from chain_flaws([row], number=last, seal=seal)
                last, seal = row.number or 0, row.seal
        except (OSError, EOFError, ValueError, TypeError) as error:
            yield f"{path} cannot be read: {error}"
    if (last, seal) != (head.dropped, head.dropped_seal):
        yield f"{folder} ends at number {last}; rows up to number {head.dropped} left the database"


def chain_flaws(rows: Iterable[AuditEvent], *, number: int, seal: str) -> Iterator[str]:
    """Yield the flaws of rows that follow this number and seal."""
    for row in rows:
        if row.number != number + 1:
            yield f"numbers {number + 1} to {(row.number or 0) - 1} are missing: rows were removed"
        elif row.seal != audit.seal_of(seal, row.number, row):
            yield f"number {row.number} (row {row.pk}) does not follow the row before it"
        if row.mark != audit.mark_of(row):
            yield f"number {row.number} (row {row.pk}) was edited, or not written by WMS2"
        number, seal = row.number or 0, row.seal


def archived_heads(folder: Path, numbers: set[int]) -> set[tuple[int, str]]:
    """Return number and seal of those of these numbers that are in the files."""
    return {
        (row.number or 0, row.seal)
        for path in sorted(folder.glob("audit-*.jsonl.gz"))
        for row in read_file(path)
        if row.number in numbers
    }


def read_file(path: Path) -> Iterator[AuditEvent]:
    """Yield the rows of a file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            values: dict[str, Any] = json.loads(line)
            yield AuditEvent(**values | {"at": datetime.fromisoformat(values["at"])})


def _limit(before: datetime) -> datetime:
    """Return the time before which rows may leave. Rows newer than an unsealed one stay."""
    waiting = AuditEvent.objects.filter(number__isnull=True).aggregate(at=Min("at"))["at"]
    return min(before, waiting) if waiting else before


def _next_rows(head: AuditHead, *, before: datetime) -> list[AuditEvent]:
    """Return the rows after the exported ones, up to the first that is too new or of another month."""
    rows = AuditEvent.objects.filter(number__gt=head.dropped, number__lte=head.number - KEPT_ROWS)
    found: list[AuditEvent] = []
    for row in rows.order_by("number")[:ROWS_PER_FILE]:
        if row.at >= before or (found and _month(row) != _month(found[0])):
            break
        found.append(row)
    return found


def _month(row: AuditEvent) -> tuple[int, int]:
    return row.at.year, row.at.month


def _line(row: AuditEvent) -> bytes:
    values = {name: getattr(row, name) for name in _COLUMNS} | {"at": row.at.isoformat()}
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _record(last: AuditEvent, *, latest: datetime) -> None:
    """Record in the head that the rows up to this one are in files."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [lock_key("audit chain")])
        head = AuditHead.objects.get()
        head.dropped, head.dropped_seal = last.number or 0, last.seal
        head.dropped_at = max(latest, head.dropped_at or latest)
        head.dropped_mark = audit.dropped_mark(head)
        head.save(update_fields=["dropped", "dropped_seal", "dropped_at", "dropped_mark"])
