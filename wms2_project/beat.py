"""A Celery Beat of which several may run: a PostgreSQL advisory lock makes exactly one the leader.

Two ordinary schedulers would send every task twice. The lock belongs to the leader's database session, so
another Beat takes over within seconds of the leader's death.
"""

from __future__ import annotations

import logging

from django.db import Error as DatabaseError
from django.db import connection
from django_celery_beat.schedulers import DatabaseScheduler

from wms2_project.checks import refuse_to_start_unless_configured
from wms2_project.locks import lock_key

logger = logging.getLogger(__name__)
STANDBY_SEC = 2.0


class LeaderScheduler(DatabaseScheduler):  # type: ignore[misc]
    """Sends due tasks only while it holds the leader lock; otherwise retries the lock every two seconds."""

    _leads = False

    def setup_schedule(self) -> None:
        """Exit if WMS2 is not configured, before anything else of Celery runs, then read the schedule."""
        refuse_to_start_unless_configured()
        super().setup_schedule()

    def tick(self, *args: object, **kwargs: object) -> float:
        """Send due tasks if this process leads; return the seconds Beat may sleep."""
        try:
            leads = self._hold_lock()
        except DatabaseError:
            logger.exception("beat cannot reach the database; retrying")
            connection.close()
            leads = False
        if leads != self._leads:
            logger.warning("this beat %s", "is the leader now" if leads else "is on standby")
            self._leads = leads
        return float(super().tick(*args, **kwargs)) if leads else STANDBY_SEC

    @staticmethod
    def _hold_lock() -> bool:
        """Return whether this session holds the leader lock, taking it once if it is free."""
        key = lock_key("beat-leader")
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT CASE WHEN EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory'"
                " AND pid = pg_backend_pid() AND (classid::bigint << 32 | objid::bigint) = %s)"
                " THEN true ELSE pg_try_advisory_lock(%s) END",
                [key, key],
            )
            row = cursor.fetchone()
        return bool(row and row[0])
