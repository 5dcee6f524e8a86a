"""Alerts: something a person on shift should know, said once however often it is noticed."""

from __future__ import annotations

import logging

from django.db.models import F
from django.db.models.functions import Now

from requests_app.models import Alert, Request

logger = logging.getLogger(__name__)


def raise_alert(*, request: Request, kind: str, message: str) -> None:
    """Open an alert of this kind for the request, or count one more sight of the open one."""
    seen = Alert.objects.filter(request=request, kind=kind, closed_at__isnull=True)
    if seen.update(message=message, last_seen_at=Now(), count=F("count") + 1):
        return
    Alert.objects.create(request=request, kind=kind, message=message)
    logger.error("alert %s: %s", kind, message)


def close_alerts(*, request: Request) -> None:
    """The request moved on: what was alerted about its last status no longer holds."""
    Alert.objects.filter(request=request, closed_at__isnull=True).update(closed_at=Now())
