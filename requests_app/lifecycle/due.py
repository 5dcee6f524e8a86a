"""The sweep: claim what is due and hand it to the queue of its status.

Losing a message, a broker or a worker loses nothing: the claim is a lease, and what is not done when
it runs out is due again. So a queue gets no more than it can hold: what waits there for longer than a
lease would be handed out again and again.
"""

from __future__ import annotations

from django.conf import settings

from outputs_app.models import OutputBlock
from outputs_app.pipeline import Tier, statuses_of
from requests_app.admission import wake_by_news
from requests_app.models import Callback, Request
from requests_app.states import QUEUES, SWEPT, CallbackStatus, RequestStatus
from wms2_project.leases import Claim, claim_due
from wms2_project.pulse import LEAST_URGENT, queue_lengths

# Of two messages Redis hands out the one with the smaller number first.
URGENT = 0
PRIORITIES = {Tier.PROTECT: URGENT, Tier.REQUEST: 3, Tier.POLL: LEAST_URGENT}


def claim_requests() -> list[tuple[Claim, str]]:
    """Due requests, each with the queue that works on its status; who waits for a place comes last."""
    wake_by_news()
    room, line = _room(URGENT), QUEUES[RequestStatus.QUEUED]
    claims: list[tuple[Claim, str]] = []
    for queue in sorted(set(QUEUES.values())):
        statuses = sorted(one for one in SWEPT - {RequestStatus.QUEUED} if QUEUES[one] == queue)
        claims += [(claim, queue) for claim in claim_due(Request, statuses=statuses, limit=room[queue])]
    left = _room(LEAST_URGENT)[line] - sum(queue == line for _, queue in claims)
    waiting = claim_due(Request, statuses=[RequestStatus.QUEUED], limit=max(left, 0))
    return claims + [(claim, line) for claim in waiting]


def priority_of(status: str) -> int:
    """How urgent a look at a request is: thousands may wait for a place, and all else goes before them."""
    return LEAST_URGENT if status == RequestStatus.QUEUED else URGENT


def claim_blocks() -> list[tuple[Claim, Tier]]:
    """Due output blocks, the most urgent tier first."""
    claims: list[tuple[Claim, Tier]] = []
    for tier in Tier:
        left = max(_room(PRIORITIES[tier])["outputs"] - len(claims), 0)
        claimed = claim_due(OutputBlock, statuses=statuses_of(tier), limit=left)
        claims += [(claim, tier) for claim in claimed]
    return claims


def claim_callbacks() -> list[Claim]:
    """Ends that requestors have not been told of yet."""
    limit = _room(URGENT)["outputs"]
    return claim_due(Callback, statuses=[CallbackStatus.PENDING], limit=limit)


def _room(priority: int) -> dict[str, int]:
    """How many messages of this priority each queue still takes: those behind them do not count."""
    waiting = queue_lengths(priority=priority) or {}
    names = {*QUEUES.values(), "outputs"}
    return {name: max(settings.SWEEP_BATCH - waiting.get(name, 0), 0) for name in names}
