"""The audit page: changes, newest first, filtered by the address, with differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict

from console.fragments import Fragment, about
from console.page import Page
from wms2_project.access.audit import shown_detail
from wms2_project.access.roles import Role
from wms2_project.changes import Topic
from wms2_project.models import AuditEvent

SHOWN = 100
FILTERS = ("actor", "action", "target")


@dataclass(frozen=True, slots=True)
class Difference:
    """One changed value."""

    name: str
    before: str
    after: str


def differences(detail: Mapping[str, Any]) -> list[Difference]:
    """Return the changed values from the formats of services: `changes` with `previous`, or `before`."""
    changes, previous = detail.get("changes"), detail.get("previous")
    if isinstance(changes, Mapping):
        old = previous if isinstance(previous, Mapping) else {}
        return [Difference(name, _text(old.get(name)), _text(value)) for name, value in changes.items()]
    if "before" in detail:
        return [Difference("status", _text(detail["before"]), _text(detail.get("after")))]
    return [
        Difference(name, "", _text(value)) for name, value in detail.items() if value not in (None, "", [])
    ]


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def _read(of: str, role: Role) -> Mapping[str, Any]:
    wanted = {name: value for name, value in QueryDict(of).items() if name in FILTERS and value}
    rows = list(AuditEvent.objects.filter(**wanted).order_by("-at", "-id")[: SHOWN + 1])
    to_admin = role >= Role.ADMIN
    return {
        "rows": [(row, _of_row(row, to_admin=to_admin)) for row in rows[:SHOWN]],
        "more": len(rows) > SHOWN,
        "wanted": {name: wanted.get(name, "") for name in FILTERS},
        "filtered": bool(wanted),
    }


def _of_row(row: AuditEvent, *, to_admin: bool) -> list[Difference]:
    found = differences(shown_detail(row, to_admin=to_admin))
    moved = row.detail.get("before") is not None and "after" not in row.detail
    return [Difference("status", found[0].before, row.action)] if moved and found else found


AUDIT = Page(
    fragment=Fragment(
        name="audit",
        template="console/audit/fragment.html",
        read=_read,
        topics=about(Topic.AUDIT),
        role=Role.OPERATOR,
    ),
    title="Audit",
    about="Who changed what, when and why",
    template="console/audit.html",
)
