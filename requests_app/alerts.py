"""Alerts: something a person on shift should know, said once however often it is noticed."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from django.db.models import Count, F
from django.db.models.functions import Now

from requests_app.models import Alert, Request
from wms2_project import metrics
from wms2_project.logs import bind

logger = logging.getLogger(__name__)


def raise_alert(*, request: Request, kind: str, message: str) -> None:
    """Open an alert of this kind for the request, or count one more sight of the open one."""
    _raise(Alert(request=request, kind=kind, message=message))


def raise_site_alerts(*, kind: str, messages: Mapping[str, str]) -> None:
    """Alerts of this kind hold for these sites, with these messages, and for no other site any more."""
    for site, message in messages.items():
        _raise(Alert(site=site, kind=kind, message=message))
    opened = Alert.objects.filter(kind=kind, request__isnull=True, closed_at__isnull=True)
    opened.exclude(site__in=list(messages)).update(closed_at=Now())


def _raise(alert: Alert) -> None:
    metrics.count(metrics.ALERTS, alert.kind)
    seen = Alert.objects.filter(
        request=alert.request, site=alert.site, kind=alert.kind, closed_at__isnull=True
    )
    if seen.update(message=alert.message, last_seen_at=Now(), count=F("count") + 1):
        return
    alert.save(force_insert=True)
    with bind(request=alert.subject, alert=alert.kind):
        logger.error("alert: %s", alert.message)


def open_alerts() -> dict[str, int]:
    """How many requests and sites are alerted about, by kind of alert: what a metric of alerts shows."""
    rows = Alert.objects.filter(closed_at__isnull=True).order_by().values_list("kind")
    return dict(rows.annotate(n=Count("id")))


def close_alerts(*, request: Request, kind: str = "") -> None:
    """What was alerted no longer holds: everything about the request, or alerts of one kind."""
    alerts = Alert.objects.filter(request=request, closed_at__isnull=True)
    (alerts.filter(kind=kind) if kind else alerts).update(closed_at=Now())


def close_others(*, kind: str, than: Collection[Request]) -> None:
    """Alerts of this kind hold for these requests and for no other any more."""
    opened = Alert.objects.filter(kind=kind, closed_at__isnull=True)
    opened.exclude(request__in=than).update(closed_at=Now())
