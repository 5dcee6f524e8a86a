"""Alert notifications: each open alert is sent once by webhook and e-mail, as configured."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import datetime
from time import monotonic
from urllib.parse import urlsplit

from django.conf import settings
from django.core.mail import EmailMessage
from django.db.models import F

from cms.callback import post_once
from requests_app.models import Alert
from requests_app.services.alerts import unacknowledged
from wms2_project.errors import ServiceUnavailable, Wms2Error

logger = logging.getLogger(__name__)
BATCH, BATCH_SEC, MAX_ATTEMPTS = 50, 30.0, 5


def send_alerts(*, now: datetime, clock: Callable[[], float] = monotonic) -> int:
    """Send unsent alerts. Return their number. A failed alert is retried a few times.

    An unavailable or slow channel ends the batch without counting an attempt for the remaining alerts.
    """
    if not settings.ALERT_WEBHOOK_URL and not settings.ALERT_EMAIL_TO:
        return 0
    sent, began = 0, clock()
    for alert in _unsent():
        if clock() - began > BATCH_SEC:
            break
        if not _claim(alert):
            continue
        try:
            _send(alert)
        except (Wms2Error, OSError) as error:
            logger.warning("alert %s was not sent: %s", alert.pk, error)
            if isinstance(error, ServiceUnavailable | OSError):
                break
            continue
        sent += Alert.objects.filter(pk=alert.pk).update(sent_at=now)
    return sent


def _unsent() -> list[Alert]:
    """Return the next unsent open alerts, those with the fewest attempts first."""
    unsent = Alert.objects.filter(unacknowledged(), sent_at__isnull=True, send_attempts__lt=MAX_ATTEMPTS)
    return list(unsent.select_related("request").order_by("send_attempts", "id")[:BATCH])


def _claim(alert: Alert) -> bool:
    """Count the attempt before sending. Return False if another process claimed the alert."""
    untouched = Alert.objects.filter(unacknowledged(), pk=alert.pk, send_attempts=alert.send_attempts)
    return bool(untouched.update(send_attempts=F("send_attempts") + 1))


def _send(alert: Alert) -> None:
    if settings.ALERT_WEBHOOK_URL:
        _post(alert)
    if settings.ALERT_EMAIL_TO:
        _mail(alert)


def _post(alert: Alert) -> None:
    url = urlsplit(settings.ALERT_WEBHOOK_URL)
    if url.scheme != "https" or url.hostname not in settings.ALERT_WEBHOOK_HOSTS:
        raise ServiceUnavailable(
            f"the webhook must use https and an allowed host, not {url.hostname}",
            cure="Add the host to WMS2_ALERT_WEBHOOK_HOSTS",
        )
    body = {
        "id": alert.pk,
        "kind": alert.kind,
        "request": alert.request.request_name if alert.request is not None else None,
        "status": alert.request.status if alert.request is not None else None,
        "site": alert.site or None,
        "message": alert.message,
        "at": alert.created_at.isoformat(),
    }
    post_once(
        settings.ALERT_WEBHOOK_URL,
        json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
        ca_path=settings.CALLBACK_CA_BUNDLE,
        allow_private=True,  # set by the administrator, unlike a requestor's callback
    )


def _mail(alert: Alert) -> None:
    subject = f"[WMS2] {alert.kind}: {alert.subject}"
    EmailMessage(subject, alert.message, settings.ALERT_EMAIL_FROM, settings.ALERT_EMAIL_TO).send()
