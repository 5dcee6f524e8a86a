"""The sweep: claim due rows and send each to the queue of its status.

A claim is a lease: after a lost message, broker or worker the row becomes due again when the lease expires.
The number of messages per queue is limited, because a message that waits longer than its lease would be sent
again.
"""

from __future__ import annotations

from collections.abc import Collection

from django.conf import settings
from django.utils import timezone

from dags_app.pull.ending import EXPIRED, lease_values
from outputs_app.models import OutputBlock
from outputs_app.pipeline import Tier, statuses_of
from requests_app.admission import wake_by_news
from requests_app.lifecycle.pulling import end_leases
from requests_app.models import Callback, Request
from requests_app.states import QUEUES, SWEPT, CallbackStatus, RequestStatus
from wms2_project.leases import Claim, Leased, claim_due, claim_row, with_due_rows
from wms2_project.observation.heartbeat import LEAST_URGENT, queue_lengths

# Redis delivers messages with a smaller number first.
URGENT = 0
PRIORITIES = {Tier.PROTECT: URGENT, Tier.REQUEST: 3, Tier.POLL: LEAST_URGENT}
CALLBACKS = "callbacks"
# What the sweep does before it claims: names of conditions, see `due_groups`
NEWS, RUNNERS = "news", "runners"
BEFORE = {NEWS: "FROM wms2_project_gatenews", RUNNERS: EXPIRED}
# Rows that are claimed together: requests by queue, queued ones apart, and blocks by tier
GROUPS: dict[str, tuple[type[Leased], list[str]]] = {
    **{
        queue: (Request, sorted(one for one in SWEPT - {RequestStatus.QUEUED} if QUEUES[one] == queue))
        for queue in sorted(set(QUEUES.values()))
    },
    RequestStatus.QUEUED: (Request, [RequestStatus.QUEUED]),
    **{tier.name: (OutputBlock, statuses_of(tier)) for tier in Tier},
    CALLBACKS: (Callback, [CallbackStatus.PENDING]),
}
EVERY = tuple(GROUPS)


def due_groups() -> set[str]:
    """Return the groups of `GROUPS` that have a row to claim: most sweeps find none or one.

    First free the files of runners without a heartbeat, and wake requests at gates with news.
    """
    due = with_due_rows(GROUPS, also=BEFORE, given=lease_values())
    if due.isdisjoint(BEFORE):
        return due
    if RUNNERS in due:
        end_leases(now=timezone.now())
    wake_by_news()
    return with_due_rows(GROUPS)


def claim_requests(due: Collection[str] = EVERY) -> list[tuple[Claim, str]]:
    """Claim due requests of these groups. Return each with the queue of its status, queued requests last."""
    room, claims = _room(URGENT), list[tuple[Claim, str]]()
    for queue in sorted(set(QUEUES.values()).intersection(due)):
        _, statuses = GROUPS[queue]
        claims += [(claim, queue) for claim in claim_due(Request, statuses=statuses, limit=room[queue])]
    if RequestStatus.QUEUED not in due:
        return claims
    line = QUEUES[RequestStatus.QUEUED]
    left = _room(LEAST_URGENT)[line] - sum(queue == line for _, queue in claims)
    waiting = claim_due(Request, statuses=[RequestStatus.QUEUED], limit=max(left, 0))
    return claims + [(claim, line) for claim in waiting]


def claim_next_step(request_id: str) -> tuple[Claim, str] | None:
    """Claim a request that moved on and is due again, so that its next step does not wait for the sweep."""
    claim = claim_row(Request, request_id, statuses=sorted(SWEPT))
    return None if claim is None else (claim, QUEUES[RequestStatus(claim.status)])


def priority_of(status: str) -> int:
    """Return the message priority. Queued requests, of which there may be thousands, come last."""
    return LEAST_URGENT if status == RequestStatus.QUEUED else URGENT


def claim_blocks(due: Collection[str] = EVERY) -> list[tuple[Claim, Tier]]:
    """Claim due output blocks of these groups, the most urgent tier first."""
    claims: list[tuple[Claim, Tier]] = []
    for tier in (tier for tier in Tier if tier.name in due):
        left = max(_room(PRIORITIES[tier])["outputs"] - len(claims), 0)
        claimed = claim_due(OutputBlock, statuses=statuses_of(tier), limit=left)
        claims += [(claim, tier) for claim in claimed]
    return claims


def claim_callbacks(due: Collection[str] = EVERY) -> list[Claim]:
    """Claim due callbacks, if the group has any."""
    if CALLBACKS not in due:
        return []
    limit = _room(URGENT)["outputs"]
    return claim_due(Callback, statuses=[CallbackStatus.PENDING], limit=limit)


def _room(priority: int) -> dict[str, int]:
    """Return the number of messages of this priority each queue accepts. Less urgent ones are not counted."""
    waiting = queue_lengths(priority=priority) or {}
    names = {*QUEUES.values(), "outputs"}
    return {name: max(settings.SWEEP_BATCH - waiting.get(name, 0), 0) for name in names}
