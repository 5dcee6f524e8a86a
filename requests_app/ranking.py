"""Rank of queued requests: weighted priority, hours in the queue and retries, in closed form.

The weights are admission limits, so operators change them at any time. How often the ranks are computed
changes nothing: see docs/adr/0017-rank-in-closed-form.md.
"""

from __future__ import annotations

from django.db import connection

from requests_app.models import AdmissionConfig
from requests_app.states import RequestStatus

MAX_RANK = 1e12
MAX_HOURS, MAX_RETRIES = 24 * 365, 100
# Rows that a worker has locked keep their rank until the next time: waiting for them could deadlock.
_REFRESH = """
WITH queued AS (
    SELECT id, priority, status_since FROM requests_app_request
     WHERE status = %(queued)s ORDER BY id FOR UPDATE SKIP LOCKED),
ranked AS (
    SELECT q.id, least(%(most)s,
        c.priority_weight * q.priority
        + c.ageing_weight * least(greatest(extract(epoch FROM now() - q.status_since) / 3600, 0), %(hours)s)
        + CASE WHEN c.retry_weight = 0 THEN 0 ELSE c.retry_weight * least(%(retries)s, (
            SELECT count(*) FROM requests_app_statustransition t
             WHERE t.request_id = q.id AND t.to_status = %(retried)s)) END) AS rank
      FROM queued q, requests_app_admissionconfig c)
UPDATE requests_app_request r SET rank = ranked.rank FROM ranked
 WHERE r.id = ranked.id AND r.rank <> ranked.rank"""


def refresh_ranks() -> int:
    """Compute the rank of every queued request, in one statement. Return the number of ranks that changed."""
    with connection.cursor() as cursor:
        cursor.execute(
            _REFRESH,
            {
                "queued": RequestStatus.QUEUED,
                "retried": RequestStatus.RESUBMITTING,
                "most": MAX_RANK,
                "hours": MAX_HOURS,
                "retries": MAX_RETRIES,
            },
        )
        return int(cursor.rowcount)


def initial_rank(priority: int) -> float:
    """Return the rank of a request that has not waited yet."""
    weight = AdmissionConfig.objects.values_list("priority_weight", flat=True).first()
    return min((1.0 if weight is None else weight) * priority, MAX_RANK)
