"""The sweep: claim what is due and hand it to the queue of its status.

Losing a message, a broker or a worker loses nothing: the claim is a lease, and what is not done when
it runs out is due again.
"""

from __future__ import annotations

from django.conf import settings

from outputs_app.models import OutputBlock
from outputs_app.states import MOVING
from requests_app.models import Request
from requests_app.states import QUEUES, SWEPT, RequestStatus
from wms2_project.leases import Claim, claim_due


def claim_requests() -> list[tuple[Claim, str]]:
    """Due requests, each with the queue that works on its status."""
    claims = claim_due(Request, statuses=sorted(SWEPT), limit=settings.SWEEP_BATCH)
    return [(claim, QUEUES[RequestStatus(claim.status)]) for claim in claims]


def claim_blocks() -> list[Claim]:
    """Due output blocks."""
    return claim_due(OutputBlock, statuses=sorted(MOVING), limit=settings.SWEEP_BATCH)
