"""Above the list of requests: how many are in each status, as links that filter the list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.urls import reverse

from console.fragments import Fragment, about
from requests_app.states import STATUSES, TERMINAL, RequestStatus
from wms2_project.access.roles import Role
from wms2_project.changes import Topic

MOST = 2_000  # counted per status, so that the list costs the same for any number of requests
_COUNTS = f"""
SELECT s.status, (SELECT count(*) FROM (
         SELECT 1 FROM requests_app_request r WHERE r.status = s.status LIMIT {MOST}) counted)
  FROM unnest(%s::text[]) AS s(status)"""  # noqa: S608 — ours


@dataclass(frozen=True, slots=True)
class Chip:
    """A status with its number of requests, at most MOST; ended requests are not counted."""

    status: str
    tone: str
    why: str
    url: str
    count: int | None

    @property
    def name(self) -> str:
        return self.status.replace("_", " ")

    @property
    def has_more(self) -> bool:
        """Whether there are more requests than were counted."""
        return self.count == MOST


def _read(of: str, _role: Role) -> Mapping[str, Any]:
    listed = reverse("admin:requests_app_request_changelist")
    chips = list(_chips(listed))
    return {
        "chips": [one for one in chips if one.count != 0 or one.status == of],
        "chosen": of if of in {one.status for one in chips} else "",
        "all": listed,
    }


def _chips(listed: str) -> list[Chip]:
    with connection.cursor() as cursor:
        cursor.execute(_COUNTS, [[str(one) for one in RequestStatus if one not in TERMINAL]])
        counts: dict[str, int] = dict(cursor.fetchall())
    return [
        Chip(
            status=str(status),
            tone=STATUSES[status].colour or "neutral",
            why=STATUSES[status].why,
            url=f"{listed}?status__exact={status}",
            count=None if status in TERMINAL else min(counts[status], MOST),
        )
        for status in RequestStatus
    ]


REQUESTS = Fragment(
    name="requests",
    template="console/requests/fragment.html",
    read=_read,
    topics=about(Topic.FLEET),
)
