"""The sweep: claim what is due and hand it to the queue of its status.

Losing a message, a broker or a worker loses nothing: the claim is a lease, and what is not done when
it runs out is due again.
"""

from __future__ import annotations

from django.conf import settings

from outputs_app.models import OutputBlock
from outputs_app.pipeline import TIER_OF, Tier
from requests_app.models import Callback, Request
from requests_app.states import QUEUES, SWEPT, CallbackStatus, RequestStatus
from wms2_project.leases import Claim, claim_due


def claim_requests() -> list[tuple[Claim, str]]:
    """Due requests, each with the queue that works on its status."""
    claims = claim_due(Request, statuses=sorted(SWEPT), limit=settings.SWEEP_BATCH)
    return [(claim, QUEUES[RequestStatus(claim.status)]) for claim in claims]


def claim_blocks() -> list[tuple[Claim, Tier]]:
    """Due output blocks, the most urgent tier first."""
    claims: list[tuple[Claim, Tier]] = []
    for tier in Tier:
        statuses = [status.value for status, of in TIER_OF.items() if of is tier]
        left = settings.SWEEP_BATCH - len(claims)
        claims += [(claim, tier) for claim in claim_due(OutputBlock, statuses=statuses, limit=left)]
    return claims


def claim_callbacks() -> list[Claim]:
    """Ends that requestors have not been told of yet."""
    return claim_due(Callback, statuses=[CallbackStatus.PENDING], limit=settings.SWEEP_BATCH)
