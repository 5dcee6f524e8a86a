"""Bans: created from failures or by people, extended to all requests, lifted or expired.

A ban excludes a site from future DAGs and rescues; running jobs are unaffected. Every step is audited.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Max, QuerySet

from dags_app.failures.clusters import RoundFailures
from dags_app.failures.records import pilot_outcomes
from dags_app.models import Workflow
from sites_app.banning import Agreement, decide_bans, decide_promotion, is_proved, tally_sites
from sites_app.models import Site, SiteBan
from wms2_project.access import audit
from wms2_project.errors import Conflict, NotAllowed
from wms2_project.wakeups import DATA, SITES, STORAGE, wake_waiting

logger = logging.getLogger(__name__)
DETECTION, EXPIRY = "system:banning", "system:expiry"
Requestors = Callable[[Collection[UUID]], Mapping[UUID, str]]  # maps workflows to their requestors


def ban_failing_sites(
    *,
    workflow: Workflow,
    failures: RoundFailures,
    read_elsewhere: Mapping[str, Mapping[str, str]],
    requestors_of: Requestors,
    now: datetime,
) -> list[SiteBan]:
    """Ban sites that failed the workflow. Existing bans are unchanged.

    A site that enough requests ban is banned for all.
    """
    guilty = decide_bans(tally_sites(failures, read_elsewhere=read_elsewhere), **_statistics())
    made = []
    for tally in guilty:
        site = Site.objects.filter(pk=tally.site).first()
        if site is None or in_force(site, now=now).filter(workflow=workflow).exists():
            continue
        with transaction.atomic():
            made.append(
                ban_site(
                    site=site,
                    workflow=workflow,
                    reason=tally.message,
                    actor=DETECTION,
                    now=now,
                    failure_data=tally.as_json(),
                )
            )
            _promote(site, requestors_of=requestors_of, now=now)
    return made


def _statistics() -> dict[str, Any]:
    return {
        "min_failures": settings.SITE_BAN_MIN_FAILURES,
        "failure_ratio": settings.SITE_BAN_FAILURE_RATIO,
    }


def has_proof(ban: SiteBan) -> bool:
    """Return whether the evidence of an automatic ban suffices without what payloads claim."""
    return is_proved(ban.failure_data, **_statistics())


def ban_pilot_sites(*, sites: Collection[str], requestors_of: Requestors, now: datetime) -> list[SiteBan]:
    """Ban a site for all requests if pilots of several requests failed there.

    A pilot is one job, too few to ban a site for its own workflow. Failures before the end of the last ban
    for all do not count again.
    """
    made = []
    for site in Site.objects.filter(pk__in=sites).order_by("pk"):
        for_all = site.bans.filter(workflow__isnull=True)
        since = now - timedelta(days=settings.SITE_BAN_DURATION_DAYS)
        since = max(since, for_all.aggregate(last=Max("removed_at"))["last"] or since)
        outcomes = pilot_outcomes(site=site.pk, since=since)
        agreed = _agreement(outcomes.failed, outcomes.proved, requestors_of)
        ratio = settings.SITE_BAN_FAILURE_RATIO
        guilty = decide_promotion(agreed, **_needed(), succeeded=outcomes.succeeded, failure_ratio=ratio)
        if not guilty or in_force(site, now=now).filter(workflow__isnull=True).exists():
            continue
        message = f"pilots failed because of the site: {agreed.message}"
        data = {"evidence": agreed.as_json(), "succeeded": outcomes.succeeded}
        made.append(
            ban_site(site=site, workflow=None, reason=message, actor=DETECTION, now=now, failure_data=data)
        )
    return made


def _agreement(requests: Collection[UUID], proved: Collection[UUID], requestors_of: Requestors) -> Agreement:
    """Count requestors. Requests without a known requestor count as one."""
    known = requestors_of(requests)
    return Agreement(
        requests=len(requests),
        proved=len(proved),
        requestors=len({known.get(one, "") for one in requests}),
    )


def _needed() -> dict[str, int]:
    return {
        "threshold": settings.SITE_BAN_PROMOTION_THRESHOLD,
        "requestors": settings.SITE_BAN_PROMOTION_REQUESTORS,
    }


def ban_site(
    *,
    site: Site,
    workflow: Workflow | None,
    reason: str,
    actor: str,
    now: datetime,
    until: datetime | None = None,
    failure_data: Mapping[str, Any] | None = None,
    by_operator: bool = False,
) -> SiteBan:
    """Ban the site for one workflow, or for all without one. A new ban replaces the previous one.

    Raises NotAllowed if it would replace an operator's ban and the caller is not an operator.
    """
    audit.need_reason(reason)
    ends = until or now + timedelta(days=settings.SITE_BAN_DURATION_DAYS)
    with transaction.atomic():
        Site.objects.select_for_update().get(pk=site.pk)
        expire_bans(now=now)
        ban = in_force(site, now=now).filter(workflow=workflow).first()
        if ban is None:
            ban = SiteBan(site=site, workflow=workflow, failure_data=dict(failure_data or {}))
        elif actor == DETECTION and ban.by_operator:
            return ban
        elif not by_operator:
            _without_operators([ban])
        ban.by_operator = by_operator
        ban.reason, ban.created_by, ban.expires_at = reason, actor, ends
        ban.save()
        _tell("ban", ban, actor, reason)
    return ban


def _promote(site: Site, *, requestors_of: Requestors, now: datetime) -> None:
    """Ban the site for all if enough requests banned it automatically. Versions of one request count once.

    The caller must hold the lock of the site.
    """
    bans = in_force(site, now=now)
    own = bans.filter(workflow__isnull=False, created_by=DETECTION).select_related("workflow")
    met = [(ban.workflow.first_version_id or ban.workflow.pk, ban) for ban in own if ban.workflow is not None]
    requests = {first for first, _ in met}
    proved = {first for first, ban in met if has_proof(ban)}
    agreed = _agreement(requests, proved, requestors_of)
    if bans.filter(workflow__isnull=True).exists() or not decide_promotion(agreed, **_needed()):
        return
    avoiding = sorted(ban.workflow.request_name for _, ban in met if ban.workflow is not None)
    ban = SiteBan.objects.create(
        site=site,
        reason=f"requests banned it: {agreed.message}",
        failure_data={"requests": avoiding[:100], "evidence": agreed.as_json()},
        created_by=DETECTION,
        expires_at=now + timedelta(days=settings.SITE_BAN_DURATION_DAYS),
    )
    _tell("promote_ban", ban, DETECTION, ban.reason)


def lift_bans(
    *,
    site: Site,
    workflow: Workflow | None,
    reason: str,
    actor: str,
    now: datetime,
    by_operator: bool = True,
) -> int:
    """Lift the ban of the workflow, or all bans of the site. Takes effect at the next planning.

    Bans of single requests set by operators are kept if the caller is not an operator. Raises NotAllowed,
    lifting none, if an operator banned the site for all requests, or if no other ban is left.
    """
    audit.need_reason(reason)
    with transaction.atomic():
        Site.objects.select_for_update().get(pk=site.pk)
        bans = in_force(site, now=now)
        if workflow is not None:
            bans = bans.filter(workflow=workflow)
        lifted = list(bans)
        if not lifted:
            whose = f" for {workflow.request_name}" if workflow is not None else ""
            raise Conflict(f"{site} is not banned{whose}", cure="There is no ban to lift")
        if not by_operator:
            lifted = _without_operators(lifted)
        for ban in lifted:
            _end(ban, at=now, by=actor)
            _tell("lift_ban", ban, actor, reason)
        wake_waiting(DATA, SITES, STORAGE)
    return len(lifted)


def _without_operators(bans: Sequence[SiteBan]) -> list[SiteBan]:
    others = [ban for ban in bans if not ban.by_operator]
    for ban in bans:
        if ban.by_operator and (ban.workflow_id is None or not others):
            raise NotAllowed(f"an operator ({ban.created_by}) banned {ban.site_id}", cure="Ask an operator")
    return others


def expire_bans(*, now: datetime) -> int:
    """Record the end of expired bans. They are not in force even before that."""
    with transaction.atomic():
        over = SiteBan.objects.select_for_update(skip_locked=True)
        ended = list(over.filter(removed_at__isnull=True, expires_at__lte=now))
        for ban in ended:
            _end(ban, at=now, by=EXPIRY)
            _tell("expire_ban", ban, EXPIRY, f"expired on {ban.expires_at:%F %R}")
        if ended:
            wake_waiting(DATA, SITES, STORAGE)
    return len(ended)


def bans_by_operators(workflow: Workflow, *, now: datetime) -> QuerySet[SiteBan]:
    """Return the workflow's bans in force that were set by people, by site."""
    bans = workflow.site_bans.filter(removed_at__isnull=True, expires_at__gt=now)
    return bans.exclude(created_by__startswith="system:").order_by("site")


def carry_bans(*, old: Workflow, new: Workflow, actor: str, reason: str, now: datetime) -> None:
    """Move the bans set by operators to the next version of a request, with their end times.

    They are moved, not copied, so that two versions of one request do not count as two workflows.
    """
    with transaction.atomic():
        for ban in bans_by_operators(old, now=now).select_related("workflow"):
            _end(ban, at=now, by=actor)
            _tell("lift_ban", ban, actor, reason)
            moved = SiteBan.objects.create(
                site_id=ban.site_id,
                workflow=new,
                reason=ban.reason,
                failure_data=ban.failure_data,
                created_by=ban.created_by,
                expires_at=ban.expires_at,
            )
            _tell("ban", moved, actor, reason)


def in_force(site: Site, *, now: datetime) -> QuerySet[SiteBan]:
    """Return the site's bans in force."""
    return site.bans.filter(removed_at__isnull=True, expires_at__gt=now)


def _end(ban: SiteBan, *, at: datetime, by: str) -> None:
    ban.removed_at, ban.removed_by = at, by
    ban.save(update_fields=["removed_at", "removed_by"])


def _tell(action: str, ban: SiteBan, actor: str, reason: str) -> None:
    whose = ban.workflow.request_name if ban.workflow is not None else "all"
    audit.record(
        actor=actor,
        action=action,
        target=ban.site_id,
        reason=reason,
        workflow=whose,
        until=ban.expires_at.isoformat(),
    )
    logger.warning("%s of %s for %s: %s", action, ban.site_id, whose, reason)
