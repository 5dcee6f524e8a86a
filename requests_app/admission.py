"""Admission: a capacity limit that operators can change at any time; order by rank, then age."""

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
from requests_app.ranking import refresh_ranks
from requests_app.states import SWEPT, TAKES_CAPACITY, RequestStatus, StoragePolicy
from sandbox.values import MAX_NUMBER, is_number, is_whole
from wms2_project.access import audit
from wms2_project.changes import Topic, announce
from wms2_project.errors import InvalidInput, StaleVersion
from wms2_project.leases import wake
from wms2_project.wakeups import DATA, PILEUP, STORAGE, take_news, wake_waiting

GATE = "admission"  # name of the gate
_NEAR, LONGEST_CHECK_SEC = 10, 300.0  # front of the queue; longest check interval
EDITABLE = {
    "max_active_dags": int,
    "paused": bool,
    "pause_reason": str,
    "storage_critical_fraction": float,
    "storage_policy": str,
    "priority_weight": float,
    "ageing_weight": float,
    "retry_weight": float,
}
MAX_WEIGHT = 1e6


@dataclass(frozen=True, slots=True)
class Verdict:
    """Admission verdict for one request, with an explanation."""

    admitted: bool
    why: str
    active: int = 0
    ahead: int = 0
    behind: int = 0  # number of running requests that must end first


def limits() -> AdmissionConfig:
    """Return the limits; created from the settings on first use."""
    config, _ = AdmissionConfig.objects.get_or_create(
        pk=1, defaults={"max_active_dags": settings.MAX_ACTIVE_DAGS}
    )
    return config


def active_count() -> int:
    """Return the number of requests that use capacity."""
    return Request.objects.filter(status__in=sorted(TAKES_CAPACITY)).count()


def line() -> QuerySet[Request]:
    """Return queued requests that wait only for admission or have not been checked yet.

    Requests blocked by another gate, or waiting for a retry, do not delay those behind them.
    """
    return Request.objects.filter(status=RequestStatus.QUEUED, attempt=0, wait_gate__in=["", GATE])


def in_line(request: Request) -> bool:
    """Return whether the request is in `line()`."""
    queued = request.status == RequestStatus.QUEUED
    return queued and not request.attempt and request.wait_gate in ("", GATE)


def ahead_of(request: Request) -> int:
    """Return the number of requests ahead of this one."""
    first = Q(rank__gt=request.rank) | Q(rank=request.rank, created_at__lt=request.created_at)
    return line().filter(first).exclude(pk=request.pk).count()


def decide(request: Request, *, now: datetime) -> Verdict:
    """Admit the request if capacity suffices for it and for all requests ahead of it."""
    config = limits()
    active, ahead = active_count(), ahead_of(request)
    if config.paused:
        return Verdict(False, f"admission is paused: {config.pause_reason}", active, ahead, behind=ahead)
    state = f"admission {active}/{config.max_active_dags}, position {ahead + 1}"
    behind = max(active + ahead + 1 - config.max_active_dags, 0)
    return Verdict(not behind, state, active, ahead, behind)


def next_check_sec(behind: int) -> float:
    """Return the seconds until the next admission check; requests far back in the queue are checked rarely.

    Requests at the front are checked at the usual interval, so that they also notice other gates opening.
    """
    usual = float(settings.POLL_INTERVAL_SEC)
    return min(usual * max(behind / _NEAR, 1.0), max(LONGEST_CHECK_SEC, usual))


def wake_next() -> int:
    """Make the first N queued requests due now, N being the free capacity. Return the number of rows changed.

    Locked rows are skipped: they are being processed, and waiting for them could deadlock.
    """
    if not line().exists():
        return 0
    config = limits()
    free = 0 if config.paused else config.max_active_dags - active_count()
    rows = line().order_by("-rank", "created_at").select_for_update(skip_locked=True)
    with transaction.atomic(savepoint=False):
        first = rows.values_list("pk", flat=True)[: max(free, 0)]
        return wake(Request.objects.filter(pk__in=list(first)))


def wake_by_news() -> int:
    """Make requests due that wait at a gate with news, and put them back in the queue. Return their number.

    Locked rows are skipped, as above; they are checked again within minutes.
    """
    with transaction.atomic():
        gates = take_news()
        if not gates:
            return 0
        if DATA in gates:
            gates.add(PILEUP)
        waiting = Request.objects.filter(status__in=sorted(SWEPT), wait_gate__in=sorted(gates))
        rows = list(waiting.select_for_update(skip_locked=True).values_list("pk", flat=True))
        return Request.objects.filter(pk__in=rows).update(next_check_at=Now(), wait_gate="")


def change_limits(
    *, changes: Mapping[str, Any], actor: str, reason: str, expected_version: int | None = None
) -> AdmissionConfig:
    """Change the admission limits with immediate effect."""
    wrong = {
        key: "unknown limit" if key not in EDITABLE else f"must be of type {EDITABLE[key].__name__}"
        for key, value in changes.items()
        if key not in EDITABLE or not _fits(value, EDITABLE[key])
    }
    if wrong:
        raise InvalidInput(
            "the limits were not changed", fields=wrong, cure=f"Use one of {', '.join(EDITABLE)}"
        )
    limits()
    with transaction.atomic():
        config = AdmissionConfig.objects.select_for_update().get(pk=1)
        if expected_version not in (None, config.version):
            raise StaleVersion(
                "the limits changed since you read them", cure="Read the limits again and retry"
            )
        for key, value in changes.items():
            setattr(config, key, value)
        if config.paused and not config.pause_reason:
            config.pause_reason = reason
        if not config.paused:
            config.pause_reason = ""
        _check(config)
        config.version += 1
        config.updated_by = actor
        config.save()
        audit.record(
            actor=actor, action="change", target="admission limits", reason=reason, changes=dict(changes)
        )
        announce(Topic.ADMISSION)
        refresh_ranks()
        wake_next()
        if "storage_critical_fraction" in changes:
            wake_waiting(STORAGE)
    return config


def _check(config: AdmissionConfig) -> None:
    """Raise InvalidInput for limits out of range."""
    wrong = {
        name: f"must be from 0 to {MAX_WEIGHT:,.0f}"
        for name in ("priority_weight", "ageing_weight", "retry_weight")
        if not 0 <= getattr(config, name) <= MAX_WEIGHT
    }
    if not 0 < config.storage_critical_fraction <= 1:
        wrong["storage_critical_fraction"] = "must be above 0 and at most 1"
    if config.storage_policy not in list(StoragePolicy):
        wrong["storage_policy"] = f"must be {' or '.join(StoragePolicy)}"
    if wrong:
        raise InvalidInput("the limits were not changed", fields=wrong)


def _fits(value: object, kind: type) -> bool:
    if kind is float:
        return is_number(value, -MAX_NUMBER)
    if kind is int:
        return is_whole(value, 0, 100_000)
    return isinstance(value, kind)
