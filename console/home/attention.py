"""Items that need an operator: held requests by cause, open alerts by kind, and stopped parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Count, Min
from django.urls import reverse

from console.request.failures import operation_url
from console.request.next_action import REMEDIES, operation_of
from dags_app.failures.clusters import Known, suggest
from dags_app.models import FailureCluster, Schedd
from requests_app.admission import limits
from requests_app.models import Alert, Request
from requests_app.selectors.diagnosis import cluster_of
from requests_app.selectors.statistics import kind_of
from requests_app.services.alerts import unacknowledged
from sites_app.models import Site
from wms2_project.access.roles import Role
from wms2_project.console import address_of
from wms2_project.words import counted

CAUSES = 6
NAMED = 2
_HELD = f"""
SELECT {kind_of("last_error")} AS kind, count(*), min(status_since),
       (array_agg(id ORDER BY status_since))[1:{NAMED}],
       (array_agg(request_name ORDER BY status_since))[1:{NAMED}],
       (array_agg(last_error ORDER BY status_since))[1]
  FROM requests_app_request WHERE status = 'held'
 GROUP BY 1 ORDER BY 2 DESC, 3 LIMIT {CAUSES}"""  # noqa: S608 — ours


@dataclass(frozen=True, slots=True)
class Link:
    """A link with its text."""

    text: str
    url: str


@dataclass(frozen=True, slots=True)
class Matter:
    """An item that needs an operator: title, time, examples, and the action to take."""

    key: str
    tone: str
    title: str
    detail: str
    since: datetime | None
    examples: list[Link]
    action: Link


def decisions(role: Role) -> list[Matter]:
    """Return the items that need a decision, the largest group of held requests first."""
    return [*_stopped(), *_held(role)]


def _held(role: Role) -> Iterator[Matter]:
    with connection.cursor() as cursor:
        cursor.execute(_HELD)
        rows = cursor.fetchall()
    advice = _advice([ids[0] for _kind, _count, _since, ids, _names, _error in rows])
    listed = f"{reverse('admin:requests_app_request_changelist')}?status__exact=held"
    for kind, count, since, ids, names, error in rows:
        examples = [Link(name, _page(key)) for key, name in zip(ids, names, strict=True)]
        if count > NAMED:
            examples.append(Link(f"{count - NAMED:,} more", listed))
        found = advice.get(ids[0])
        decide = Link("Decide" if role >= Role.OPERATOR else "Open", _page(ids[0]) if count == 1 else listed)
        yield Matter(
            key=f"held {kind}",
            tone="danger",
            title=f"{counted(count, 'request')} held",
            detail=error,
            since=since,
            examples=examples,
            action=found if found and role >= Role.OPERATOR else decide,
        )


def _advice(requests: list[UUID]) -> dict[UUID, Link]:
    """Return the suggested operation for each request, from its newest, largest failure."""
    rows = Request.objects.filter(pk__in=requests).select_related("workflow").defer("request_data")
    by_workflow = {row.workflow_id: row for row in rows}
    newest = FailureCluster.objects.filter(workflow__in=by_workflow, bad_files=[])
    found = {}
    for cluster in newest.order_by("workflow", "-dag__created_at", "-jobs").distinct("workflow"):
        row = by_workflow[cluster.workflow_id]
        asked = max(row.workflow.memory_mb, row.workflow.chosen_memory_mb or 0)
        made = suggest(cluster_of(cluster), Known(memory_asked_mb=asked, groups_done=1))
        url = operation_url(row, operation_of(made.action), dict(made.modifications))
        found[row.pk] = Link(REMEDIES[made.action], url)
    return found


def alerts() -> Iterator[Matter]:
    """Yield open, unacknowledged alerts by kind, the oldest first."""
    rows = Alert.objects.filter(unacknowledged()).order_by().values("kind")
    kinds = rows.annotate(count=Count("pk"), since=Min("created_at")).order_by("since")[:CAUSES]
    newest = Alert.objects.filter(unacknowledged(), kind__in=[row["kind"] for row in kinds])
    examples: dict[str, list[Alert]] = {}
    for alert in newest.select_related("request").order_by("-created_at", "-id")[: CAUSES * NAMED]:
        examples.setdefault(alert.kind, []).append(alert)
    named = [alert.site for found in examples.values() for alert in found if alert.site]
    sites = set(Site.objects.filter(name__in=named).values_list("name", flat=True))
    for row in kinds:
        shown = examples.get(row["kind"], [])[:NAMED]
        name = row["kind"].replace("_", " ")
        listed = f"{reverse('admin:requests_app_alert_changelist')}?kind={row['kind']}"
        yield Matter(
            key=f"alert {row['kind']}",
            tone="warning",
            title=name if row["count"] == 1 else f"{row['count']:,} × {name}",
            detail=shown[0].message if shown else "",
            since=row["since"],
            examples=[_subject(alert, sites) for alert in shown],
            action=Link("Open alerts", listed),
        )


def _subject(alert: Alert, sites: set[str]) -> Link:
    """Return a link to the request or site; for other subjects, such as a disk, to the page of alerts."""
    if alert.request is not None:
        return Link(alert.request.request_name, _page(alert.request.pk))
    known = alert.site in sites
    page = reverse("console:site", args=[alert.site]) if known else reverse("console:alerts")
    return Link(alert.site, page)


def _stopped() -> Iterator[Matter]:
    """Yield parts stopped by an operator or an outage: admission, and schedds that do not answer."""
    config = limits()
    if config.paused:
        page = address_of("admin:requests_app_admissionconfig_change", config.pk)
        yield Matter(
            "paused", "warning", "Admission is paused", config.pause_reason, config.updated_at, [],
            Link("Open admission", page),
        )  # fmt: skip
    for schedd in Schedd.objects.filter(silent_since__isnull=False).order_by("name"):
        page = address_of("admin:dags_app_schedd_change", schedd.pk)
        yield Matter(
            f"schedd {schedd}", "danger", f"{schedd} has not answered",
            "Its jobs may still run. Nothing is lost; WMS2 retries.", schedd.silent_since, [],
            Link("Open schedd", page),
        )  # fmt: skip


def _page(key: Any) -> str:
    return reverse("admin:requests_app_request_change", args=[key])
