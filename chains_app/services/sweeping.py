"""The sweep of chains: wakes chains with news, and claims due work."""

from __future__ import annotations

from django.conf import settings
from django.db import connection

from chains_app.models import Chain, ChainCallback, ChainDataset
from chains_app.states import OPEN, DatasetStatus
from requests_app.states import TERMINAL, CallbackStatus, RequestStatus
from wms2_project.leases import Claim, claim_due

# A chain has news if a request of it ended or was held and its step does not say so yet, or if the request of
# a held step goes on. Chains that are due anyway are left alone.
_WAKE = """
UPDATE chains_app_chain AS c
   SET next_check_at = statement_timestamp()
  FROM chains_app_chainstep s
  JOIN requests_app_request r ON r.id = s.request_id
 WHERE c.id = s.chain_id AND c.status = ANY(%(open)s) AND c.next_check_at > statement_timestamp()
   AND (s.status = 'running' AND r.status = ANY(%(news)s)
        OR s.status = 'held' AND (r.status <> ALL(%(news)s)
           OR r.status = 'completed' AND NOT coalesce(s.hold_evidence ? 'lost_producer', false)
           OR EXISTS (SELECT 1 FROM requests_app_request n WHERE n.previous_version_id = r.id)))"""


def wake_chains() -> int:
    """Make chains with news due, in one statement; return how many."""
    news = sorted({*TERMINAL, RequestStatus.HELD})
    with connection.cursor() as cursor:
        cursor.execute(_WAKE, {"open": sorted(OPEN), "news": news})
        return int(cursor.rowcount)


def claim_chains() -> list[Claim]:
    """Wake chains with news, and claim due chains."""
    wake_chains()
    return claim_due(Chain, statuses=sorted(OPEN), limit=settings.SWEEP_BATCH)


def claim_removals() -> list[Claim]:
    """Claim due removals of datasets."""
    return claim_due(ChainDataset, statuses=[DatasetStatus.REMOVING], limit=settings.SWEEP_BATCH)


def claim_callbacks() -> list[Claim]:
    """Claim due callbacks of chains."""
    return claim_due(ChainCallback, statuses=[CallbackStatus.PENDING], limit=settings.SWEEP_BATCH)
