"""Who may run now: capacity by a limit operators edit live, order by rank, then age."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from requests_app.models import AdmissionConfig, Request
from requests_app.states import SWEPT, TAKES_CAPACITY, RequestStatus
from sandbox.values import MAX_NUMBER, is_number, is_whole
from wms2_project import audit
from wms2_project.errors import InvalidInput, StaleVersion
from wms2_project.leases import wake
from wms2_project.waiting import STORAGE, take_news, wake_waiting

GATE = "admission"  # the name of its gate
_NEAR, RAREST_LOOK_SEC = 10, 300.0  # the first of the line; the last look at least every five minutes
EDITABLE = {
    "max_active_dags": int,
    "paused": bool,
    "pause_reason": str,
    "storage_critical_fraction": float,
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """May the request start now, and the sentence that explains it."""

    admitted: bool
    why: str
    active: int = 0
    ahead: int = 0
    behind: int = 0  # how many places must become free first


def limits() -> AdmissionConfig:
    """The row of limits; made from the settings on first use."""
    config, _ = AdmissionConfig.objects.get_or_create(
        pk=1, defaults={"max_active_dags": settings.MAX_ACTIVE_DAGS}
    )
    return config


def active_count() -> int:
    """Requests that take capacity now."""
    return Request.objects.filter(status__in=sorted(TAKES_CAPACITY)).count()


def line() -> QuerySet[Request]:
    """Queued requests that only admission stops, and those no gate was asked about yet.

    A request that another gate stops, the wait after an error too, takes no place before those behind it.
    """
    return Request.objects.filter(status=RequestStatus.QUEUED, attempt=0, wait_gate__in=["", GATE])


def in_line(request: Request) -> bool:
    """Return whether the request is one of them."""
    queued = request.status == RequestStatus.QUEUED
    return queued and not request.attempt and request.wait_gate in ("", GATE)


def ahead_of(request: Request) -> int:
    """How many requests of the line go first."""
    first = Q(rank__gt=request.rank) | Q(rank=request.rank, created_at__lt=request.created_at)
    return line().filter(first).count()


def decide(request: Request, *, now: datetime) -> Verdict:
    """Admit the request if there is room for it and for everyone ahead of it."""
    config = limits()
    active, ahead = active_count(), ahead_of(request)
    if config.paused:
        return Verdict(False, f"admission is paused: {config.pause_reason}", active, ahead, behind=ahead)
    state = f"admission {active}/{config.max_active_dags}, position {ahead + 1}"
    behind = max(active + ahead + 1 - config.max_active_dags, 0)
    return Verdict(not behind, state, active, ahead, behind)


def next_look_sec(behind: int) -> float:
    """How soon it is asked again whose turn it is: rarely far back in line, where nothing happens soon.

    Who has a turn, or is near it, is asked at the usual pace, so it also learns soon that storage has room.
    """
    usual = float(settings.POLL_INTERVAL_SEC)
    return min(usual * max(behind / _NEAR, 1.0), max(RAREST_LOOK_SEC, usual))


def wake_next() -> int:
    """Make the first N requests of the line due now, N being the free places. Return how many were due.

    A row somebody has locked is being looked at or woken; to wait for it could close a circle of locks.
    """
    config = limits()
    free = 0 if config.paused else config.max_active_dags - active_count()
    rows = line().order_by("-rank", "created_at").select_for_update(skip_locked=True)
    with transaction.atomic():
        first = rows.values_list("pk", flat=True)[: max(free, 0)]
        return wake(Request.objects.filter(pk__in=list(first)))


def wake_by_news() -> int:
    """Make the requests due that wait at a gate with news, and give them their places back. Return how many.

    Locked rows are left out, as above; they are asked again within minutes by themselves.
    """
    with transaction.atomic():
        gates = take_news()
        if not gates:
            return 0
        waiting = Request.objects.filter(status__in=sorted(SWEPT), wait_gate__in=sorted(gates))
        rows = list(waiting.select_for_update(skip_locked=True).values_list("pk", flat=True))
        return Request.objects.filter(pk__in=rows).update(next_check_at=Now(), wait_gate="")


def change_limits(
    *, changes: Mapping[str, Any], actor: str, reason: str, expected_version: int | None = None
) -> AdmissionConfig:
    """Change limits at once, for everybody; the row says who did it last."""
    wrong = {
        key: "no such limit" if key not in EDITABLE else f"expected {EDITABLE[key].__name__}"
        for key, value in changes.items()
        if key not in EDITABLE or not _fits(value, EDITABLE[key])
    }
    if wrong:
        raise InvalidInput("limits not changed", fields=wrong, cure=f"Editable: {', '.join(EDITABLE)}")
    limits()
    with transaction.atomic():
        config = AdmissionConfig.objects.select_for_update().get(pk=1)
        if expected_version not in (None, config.version):
            raise StaleVersion("the limits changed since you read them", cure="Read them again and repeat")
        for key, value in changes.items():
            setattr(config, key, value)
        if config.paused and not config.pause_reason:
            config.pause_reason = reason
        if not config.paused:
            config.pause_reason = ""
        if not 0 < config.storage_critical_fraction <= 1:
            raise InvalidInput(
                "limits not changed", fields={"storage_critical_fraction": "must be above 0 and at most 1"}
            )
        config.version += 1
        config.updated_by = actor
        config.save()
        audit.record(
            actor=actor, action="change", target="admission limits", reason=reason, changes=dict(changes)
        )
        wake_next()
        if "storage_critical_fraction" in changes:
            wake_waiting(STORAGE)
    return config


def _fits(value: object, kind: type) -> bool:
    if kind is float:
        return is_number(value, -MAX_NUMBER)
    if kind is int:
        return is_whole(value, 0, 100_000)
    return isinstance(value, kind)
