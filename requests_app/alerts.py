"""Alerts: something a person on shift should know, said once however often it is noticed.

An alert is open while what it tells holds. Acknowledging it says that a person has taken it on: it stays open
and counts on, but nobody else is notified. After its end the same trouble is a new alert.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from django.db import transaction
from django.db.models import Count, F, Q
from django.db.models.functions import Now
from django.utils import timezone

from requests_app.models import Alert, Request
from wms2_project import audit, metrics
from wms2_project.errors import Conflict, NotFound
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
    """Count the open alerts that nobody has acknowledged, by kind."""
    rows = Alert.objects.filter(unacknowledged()).order_by().values_list("kind")
    return dict(rows.annotate(n=Count("id")))


def unacknowledged() -> Q:
    """Match open alerts that nobody has acknowledged."""
    return Q(closed_at__isnull=True, acknowledged_at__isnull=True)


def alert_by_id(alert_id: int) -> Alert:
    """Return the alert; raise NotFound if there is none."""
    alert = Alert.objects.select_related("request").filter(pk=alert_id).first()
    if alert is None:
        raise NotFound(f"There is no alert {alert_id}")
    return alert


def acknowledge_alert(*, alert_id: int, actor: str, reason: str) -> Alert:
    """Note who has taken the alert on, and why. Repeating it changes nothing.

    Raises NotFound for an unknown alert, Conflict if it is closed or somebody else acknowledged it.
    """
    audit.need_reason(reason)
    with transaction.atomic():
        alert = Alert.objects.select_for_update(of=("self",)).filter(pk=alert_id).first()
        if alert is None:
            raise NotFound(f"There is no alert {alert_id}")
        if alert.closed_at is not None:
            raise Conflict(f"Alert {alert_id} is closed", cure="Nothing is left to acknowledge")
        if alert.acknowledged_at is None:
            alert.acknowledged_at, alert.acknowledged_by = timezone.now(), actor
            alert.acknowledge_reason = reason
            alert.save(update_fields=["acknowledged_at", "acknowledged_by", "acknowledge_reason"])
            detail = {"alert": alert.pk, "kind": alert.kind}
            audit.record(actor=actor, action="acknowledge", target=alert.subject, reason=reason, **detail)
        elif alert.acknowledged_by != actor:
            raise Conflict(
                f"Alert {alert_id} is acknowledged by {alert.acknowledged_by}: {alert.acknowledge_reason}",
                cure="Ask them",
            )
    return alert


def close_alerts(*, request: Request, kind: str = "") -> None:
    """What was alerted no longer holds: everything about the request, or alerts of one kind."""
    alerts = Alert.objects.filter(request=request, closed_at__isnull=True)
    (alerts.filter(kind=kind) if kind else alerts).update(closed_at=Now())


def close_others(*, kind: str, than: Collection[Request]) -> None:
    """Alerts of this kind hold for these requests and for no other any more."""
    opened = Alert.objects.filter(kind=kind, closed_at__isnull=True)
    opened.exclude(request__in=than).update(closed_at=Now())
