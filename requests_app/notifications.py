"""Alerts beyond the console: each open alert is sent once to the channels the settings name."""

from __future__ import annotations

import json
import logging
from datetime import datetime
from time import monotonic
from urllib.parse import urlsplit

from django.conf import settings
from django.core.mail import EmailMessage
from django.db.models import F

from cms.callback import post_once
from requests_app.alerts import unacknowledged
from requests_app.models import Alert
from wms2_project.errors import ServiceUnavailable, Wms2Error

logger = logging.getLogger(__name__)
BATCH, BATCH_SEC, MAX_ATTEMPTS = 50, 30.0, 5


def send_alerts(*, now: datetime) -> int:
    """Send what is unsent; an alert that cannot be sent is tried a few times more. Never twice at once.

    A channel that does not answer, or slowly, ends the batch: the rest is as little tried as it was.
    """
    if not settings.ALERT_WEBHOOK_URL and not settings.ALERT_EMAIL_TO:
        return 0
    sent, began = 0, monotonic()
    for alert in _unsent():
        if monotonic() - began > BATCH_SEC:
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
    """The next open alerts nobody was told of, the least tried first."""
    unsent = Alert.objects.filter(unacknowledged(), sent_at__isnull=True, send_attempts__lt=MAX_ATTEMPTS)
    return list(unsent.select_related("request").order_by("send_attempts", "id")[:BATCH])


def _claim(alert: Alert) -> bool:
    """Count it as tried before anything leaves; False if somebody else does so just now."""
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
            f"the webhook's host {url.hostname} is not allowed, or not https",
            cure="Name it in WMS2_ALERT_WEBHOOK_HOSTS",
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
        allow_private=True,  # the operator's own choice, unlike a requestor's callback
    )


def _mail(alert: Alert) -> None:
    subject = f"[WMS2] {alert.kind}: {alert.subject}"
    EmailMessage(subject, alert.message, settings.ALERT_EMAIL_FROM, settings.ALERT_EMAIL_TO).send()
