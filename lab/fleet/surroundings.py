"""Rows of the fleet besides requests: sites, bans, alerts and the audit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

from dags_app.services.stalls import StallKind
from lab.fleet.outputs import STUCK_AT
from lab.fleet.stories import S
from lab.fleet.world import BANNED, DRAINING, MAINTENANCE, OPERATORS, PLACES, Place
from requests_app.models import Alert, Request
from sites_app.models import Site, SiteBan, SlotSample
from sites_app.services.site_settings import MEASURED
from sites_app.states import SiteStatus
from wms2_project.access.audit import mark_of
from wms2_project.models import AuditEvent

OLGA, PEDRO = (f"user:{name}" for name in OPERATORS)
_STATUSES = {
    DRAINING: (SiteStatus.DRAINING, "network intervention", timedelta(hours=14)),
    MAINTENANCE: (SiteStatus.MAINTENANCE, "cooling of the computer centre", timedelta(days=2)),
}


def place_sites(*, now: datetime) -> None:
    """Create or change the sites: slots in use, storage, one draining and one in maintenance."""
    for place in PLACES:
        status, reason, ends = _STATUSES.get(place.name, (SiteStatus.ENABLED, "", None))
        values: dict[str, Any] = {
            "status": status,
            "status_reason": reason,
            "status_by": OLGA if reason else "",
            "set_by_operator": bool(reason),
            "drain_until": now + ends if ends else None,
            "storage_elements": _storages(place),
            "total_slots": place.slots,
            "running_slots": int(place.slots * place.busy),
            "pending_slots": int(place.slots * place.busy * 0.4),
            "slots_measured_at": now,
            "config_data": {MEASURED: place.storage_used},
            "synced_at": now,
        }
        Site.objects.update_or_create(name=place.name, defaults=values)


def make_slot_samples(random: Random, now: datetime) -> Iterator[SlotSample]:
    """Yield slots of the sites: every ten minutes of the last day, every two hours of a month."""
    last = now.replace(minute=0, second=0, microsecond=0)
    ages = [timedelta(minutes=10) * number for number in range(144)]
    ages += [timedelta(hours=2) * number for number in range(12, 360)]
    for place in PLACES:
        for age in ages:
            at = last - age
            night = 0.06 * math.sin((at.hour + at.minute / 60) * math.pi / 12)
            busy = min(max(place.busy + night + random.gauss(0, 0.015), 0), 1) if place.busy else 0
            yield SlotSample(
                site_id=place.name, at=at, total=place.slots, running=int(place.slots * busy),
                pending=int(place.slots * busy * random.uniform(0.2, 0.5)),
            )  # fmt: skip


def _storages(place: Place) -> list[str]:
    return [f"{place.name}_Disk", f"{place.name}_Tape"] if place.name.startswith("T1") else [place.name]


def make_bans(requests: Sequence[Request], now: datetime) -> Iterator[SiteBan]:
    """Yield a ban for all requests, and bans of single requests."""
    site = SiteBan(
        id=UUID(int=0xBA4), site_id=BANNED, workflow=None, created_by="system:lifecycle",
        reason="3 requests banned it in 24 h: 8020 FileOpenError in 34 % of the jobs",
        failure_data={"exit_code": 8020, "share_at_site": 0.34, "requests": 3},
        created_at=now - timedelta(hours=5), expires_at=now + timedelta(days=6, hours=19),
    )  # fmt: skip
    yield site
    troubled = [one for one in requests if one.status in (S.HELD, S.ACTIVE)][5::17]
    for number, request in enumerate(troubled, start=1):
        yield SiteBan(
            id=UUID(int=0xBA4 << 32 | number), site_id=BANNED if number % 2 else STUCK_AT,
            workflow_id=request.workflow_id, created_by=OLGA if number % 3 else "system:lifecycle",
            by_operator=bool(number % 3), reason="most of its jobs fail there",
            created_at=now - timedelta(hours=7 + number), expires_at=now + timedelta(days=6),
        )  # fmt: skip


_KINDS = (
    (
        "outputs_failing",
        "3 output blocks failing repeatedly: Rucio: the rule is STUCK: RSE over quota",
        S.ACTIVE,
    ),
    (StallKind.HELD, "14 jobs are held: Error from slot1@node17: disk usage exceeded request_disk", S.ACTIVE),
    (
        StallKind.IDLE,
        "220 jobs have been idle for 9 h: no slot offers 8 cores with 24 GB of memory",
        S.ACTIVE,
    ),
    (StallKind.HANGING, "2 jobs make no progress: CPU time unchanged for 3 h at T2_IT_Legnaro", S.ACTIVE),
    ("slow_pilot", "the pilot has been running for 26.4 h", S.PILOT_RUNNING),
    ("stuck_in_queued", "has been queued for 171.2 h", S.QUEUED),
    ("stop_overdue", "has been stopping for 1.4 h; its DAG is removed again", S.STOPPING),
)


def make_alerts(requests: Sequence[Request], random: Random, now: datetime) -> Iterator[Alert]:
    """Yield open, acknowledged and closed alerts of the last two days."""
    yield Alert(
        site=BANNED, kind="site_banned", count=61, last_seen_at=now, created_at=now - timedelta(hours=5),
        message=f"banned for all requests until {now + timedelta(days=6, hours=19):%F %R} UTC: 8020",
    )  # fmt: skip
    for number, (kind, message, status) in enumerate(_KINDS):
        concerned = [one for one in requests if one.status == status]
        for index, request in enumerate(random.sample(concerned, min(2, len(concerned)))):
            alert = Alert(
                request=request, kind=str(kind), message=message, count=random.randrange(1, 400),
                created_at=now - timedelta(hours=random.uniform(0.2, 12)), last_seen_at=now,
            )  # fmt: skip
            if index and number % 2:
                alert.acknowledged_at, alert.acknowledged_by = now - timedelta(minutes=9), PEDRO
                alert.acknowledge_reason = "ticket 4711 with the site"
            yield alert
    for request in requests[::6]:
        kind, message, _ = _KINDS[random.randrange(4)]
        opened = now - timedelta(hours=random.uniform(2, 44))
        closed = opened + timedelta(hours=random.uniform(0.2, 2))
        yield Alert(
            request=request, kind=str(kind), message=message, count=random.randrange(1, 90),
            created_at=opened, last_seen_at=closed, closed_at=closed,
        )  # fmt: skip


def make_audit(requests: Sequence[Request], random: Random, now: datetime) -> Iterator[AuditEvent]:
    """Yield audit rows of users, oldest first: edits, stops, ends, and changes of sites and limits."""
    events = [
        *_site_events(now),
        *(_event(one, random, now) for one in requests[::5]),
        *(_end(one) for one in requests if one.status in (S.FAILED, S.ABORTED, S.STOPPING)),
    ]
    for event in sorted(events, key=lambda one: one.at):
        event.nonce = f"{random.getrandbits(128):032x}"
        event.mark = mark_of(event)
        yield event


def _site_events(now: datetime) -> Iterator[AuditEvent]:
    for site, (status, reason, _) in _STATUSES.items():
        yield AuditEvent(
            at=now - timedelta(hours=20), actor=OLGA, action=status.value, target=site, reason=reason,
            detail={"before": "enabled", "after": status.value},
        )  # fmt: skip
    yield AuditEvent(
        at=now - timedelta(hours=31), actor=PEDRO, action="change", target="admission limits",
        reason="the pool grew",
        detail={"changes": {"max_active_dags": 120}, "previous": {"max_active_dags": 90}},
    )  # fmt: skip


def _event(request: Request, random: Random, now: datetime) -> AuditEvent:
    return AuditEvent(
        at=min(request.created_at + timedelta(minutes=random.randrange(3, 50)), now),
        actor=random.choice((OLGA, PEDRO)), action="change", target=request.request_name,
        reason="agreed in the production meeting",
        detail={"changes": {"priority": request.priority}, "previous": {"priority": 100_000}},
    )  # fmt: skip


def _end(request: Request) -> AuditEvent:
    return AuditEvent(
        at=request.status_since, actor=OLGA, action=str(request.status), target=request.request_name,
        reason="agreed with the requestor", detail={"before": "active"},
    )  # fmt: skip
