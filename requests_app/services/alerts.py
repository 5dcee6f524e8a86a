"""Alerts for operators on shift. Repeated detections count on the same alert.

An alert is open while its condition lasts. An acknowledged alert stays open and keeps counting, but sends no
further notifications. A recurrence after it was closed opens a new alert.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from django.db import transaction
from django.db.models import Count, F, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from requests_app.models import Alert, Request
from wms2_project.access import audit
from wms2_project.changes import Topic, announce
from wms2_project.errors import Conflict, NotFound
from wms2_project.observation import counters
from wms2_project.observation.logs import bind

logger = logging.getLogger(__name__)
Kept = Mapping[str, Collection[Request]]  # by kind: the requests whose condition lasts


def raise_alert(*, request: Request, kind: str, message: str) -> None:
    """Open an alert of this kind for the request, or count one more detection on the open one."""
    _raise(Alert(request=request, kind=kind, message=message))


def raise_site_alerts(*, kind: str, messages: Mapping[str, str]) -> None:
    """Open or update alerts of this kind for the given sites; close those of all other sites."""
    for site, message in messages.items():
        _raise(Alert(site=site, kind=kind, message=message))
    opened = Alert.objects.filter(kind=kind, request__isnull=True, closed_at__isnull=True)
    _close(opened.exclude(site__in=list(messages)))


def _raise(alert: Alert) -> None:
    counters.count(counters.ALERTS, alert.kind)
    seen = Alert.objects.filter(
        request=alert.request, site=alert.site, kind=alert.kind, closed_at__isnull=True
    )
    if seen.update(message=alert.message, last_seen_at=Now(), count=F("count") + 1):
        return
    alert.save(force_insert=True)
    announce(Topic.ALERTS)
    with bind(request=alert.subject, alert=alert.kind):
        logger.error("alert: %s", alert.message)


def open_alerts() -> dict[str, int]:
    """Count open, unacknowledged alerts by kind."""
    rows = Alert.objects.filter(unacknowledged()).order_by().values_list("kind")
    return dict(rows.annotate(n=Count("id")))


def unacknowledged() -> Q:
    """Return a filter for open, unacknowledged alerts."""
    return Q(closed_at__isnull=True, acknowledged_at__isnull=True)


def alert_by_id(alert_id: int) -> Alert:
    """Return the alert. Raise NotFound if it does not exist."""
    alert = Alert.objects.select_related("request").filter(pk=alert_id).first()
    if alert is None:
        raise NotFound(f"There is no alert {alert_id}")
    return alert


def acknowledge_alert(*, alert_id: int, actor: str, reason: str) -> Alert:
    """Record who acknowledged the alert, and why. Repeating it changes nothing.

    Raises NotFound for an unknown alert, Conflict if it is closed or acknowledged by someone else.
    """
    audit.need_reason(reason)
    with transaction.atomic():
        alert = Alert.objects.select_for_update(of=("self",)).filter(pk=alert_id).first()
        if alert is None:
            raise NotFound(f"There is no alert {alert_id}")
        if alert.closed_at is not None:
            raise Conflict(f"Alert {alert_id} is closed", cure="Closed alerts need no acknowledgement")
        if alert.acknowledged_at is None:
            alert.acknowledged_at, alert.acknowledged_by = timezone.now(), actor
            alert.acknowledge_reason = reason
            alert.save(update_fields=["acknowledged_at", "acknowledged_by", "acknowledge_reason"])
            detail = {"alert": alert.pk, "kind": alert.kind}
            announce(Topic.ALERTS)
            audit.record(actor=actor, action="acknowledge", target=alert.subject, reason=reason, **detail)
        elif alert.acknowledged_by != actor:
            raise Conflict(
                f"Alert {alert_id} was acknowledged by {alert.acknowledged_by}: {alert.acknowledge_reason}",
                cure="No second acknowledgement is needed",
            )
    return alert


def close_alerts(*, request: Request, kind: str = "") -> None:
    """Close the request's open alerts: all, or those of one kind."""
    alerts = Alert.objects.filter(request=request, closed_at__isnull=True)
    _close(alerts.filter(kind=kind) if kind else alerts)


def close_others(kept: Kept) -> None:
    """Close the alerts of these kinds on all requests but those given with the kind, in one statement."""
    if kept:
        others = (Q(kind=kind) & ~Q(request__in=requests) for kind, requests in kept.items())
        _close(Alert.objects.filter(Q(*others, _connector=Q.OR), closed_at__isnull=True))


def _close(alerts: QuerySet[Alert]) -> None:
    if alerts.update(closed_at=Now()):
        announce(Topic.ALERTS)
