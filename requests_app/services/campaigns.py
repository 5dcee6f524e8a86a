"""Experience of a campaign: measurements of its finished requests, and sites where several of them failed.

It is read once, when a request is admitted, and stored with its workflow, so that planning can be repeated
and explained. Values given by people take precedence, and sites that a request lists are not avoided.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction

from dags_app.models import Workflow
from dags_app.planning.estimates import common_estimate
from dags_app.planning.types import Estimate, SitePool
from dags_app.services.estimating import measured_estimate
from dags_app.services.ledger import storages_to_read
from requests_app.models import Request
from requests_app.states import RequestStatus
from sites_app.models import Site, SiteBan
from sites_app.services.bans import DETECTION, ban_site, has_proof
from wms2_project.words import counted

ACTOR = "system:campaign"
NEWEST = 10  # finished requests whose measurements are read
NAMED = 20


@dataclass(frozen=True, slots=True)
class BadSite:
    """A site that was banned automatically for several requests of the campaign."""

    requests: tuple[str, ...]
    until: datetime


@dataclass(frozen=True, slots=True)
class Experience:
    """Measurements and avoided sites of other requests of a campaign."""

    campaign: str
    measured: tuple[str, ...] = ()  # finished requests
    estimate: Estimate | None = None
    bad_sites: dict[str, BadSite] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return it as evidence, stored and shown."""
        return {
            "campaign": self.campaign,
            "requests": list(self.measured),
            "estimate": self.estimate.as_json() if self.estimate else None,
            "avoided_sites": {site: list(bad.requests) for site, bad in self.bad_sites.items()},
        }


def experience_of(*, workflow: Workflow, campaign: str, sites: SitePool, now: datetime) -> Experience:
    """Return the experience that applies to a workflow of the campaign, which may not be stored yet."""
    if not campaign or not settings.LEARN_FROM_REQUESTS:
        return Experience(campaign)
    finished = _finished_alike(workflow, campaign)
    estimates = [found for one in finished if (found := measured_estimate(one.workflow)) is not None]
    common = common_estimate(
        estimates,
        at_least=settings.LEARN_FROM_REQUESTS,
        tolerance=settings.LEARN_TOLERANCE,
        cores=workflow.cores,
    )
    measured = tuple(one.request_name for one in finished) if common else ()
    return Experience(campaign, measured, common, _avoidable(workflow, _bad_sites(campaign, now), sites))


def learn_from_campaign(*, request: Request, sites: SitePool, now: datetime) -> None:
    """Store the experience with the request's workflow, once, and ban the sites to avoid for it."""
    workflow = request.workflow
    if workflow.learned is not None or workflow.rounds.exists():
        return
    found = experience_of(workflow=workflow, campaign=request.campaign, sites=sites, now=now)
    with transaction.atomic():
        for site, bad in found.bad_sites.items():
            ban_site(
                site=Site.objects.get(pk=site),
                workflow=workflow,
                reason=f"{counted(len(bad.requests), 'request')} of campaign {request.campaign} failed there",
                actor=ACTOR,
                now=now,
                until=bad.until,
                failure_data={"campaign": request.campaign, "requests": list(bad.requests)},
            )
        workflow.learned = found.as_json()
        workflow.save(update_fields=["learned", "updated_at"])


def _finished_alike(workflow: Workflow, campaign: str) -> list[Request]:
    """Return the newest completed requests of the campaign with the same software, payload and cores."""
    alike = Request.objects.filter(
        campaign=campaign,
        status=RequestStatus.COMPLETED,
        workflow__cmssw_version=workflow.cmssw_version,
        workflow__cores=workflow.cores,
        workflow__splitting_algo=workflow.splitting_algo,
    )
    kind = workflow.payload_config.get("kind")
    if kind:
        alike = alike.filter(workflow__payload_config__kind=kind)
    return list(alike.select_related("workflow").order_by("-created_at")[:NEWEST])


def _bad_sites(campaign: str, now: datetime) -> dict[str, BadSite]:
    """Return the sites with enough automatic bans in force for requests of the campaign.

    One is enough if the wrapper or HTCondor reported the failures: no payload can cause them.
    """
    members = Request.objects.filter(campaign=campaign)
    bans = SiteBan.objects.filter(
        workflow__in=members.values("workflow"), created_by=DETECTION, removed_at__isnull=True,
        expires_at__gt=now,
    ).select_related("workflow")  # fmt: skip
    found: dict[str, list[SiteBan]] = {}
    for ban in bans.order_by("site_id", "-expires_at"):
        found.setdefault(ban.site_id, []).append(ban)
    return {
        site: BadSite(
            tuple(ban.workflow.request_name for ban in own[:NAMED] if ban.workflow), own[0].expires_at
        )
        for site, own in found.items()
        if len(own) >= settings.LEARN_AVOID_AFTER or any(has_proof(ban) for ban in own)
    }


def _avoidable(workflow: Workflow, bad: dict[str, BadSite], sites: SitePool) -> dict[str, BadSite]:
    """Return the sites without which the workflow can still read all its input; listed ones are kept."""
    chosen = {
        site: one for site, one in bad.items() if site in sites.names and site not in workflow.site_whitelist
    }
    rest = sites.without(chosen)
    if not chosen or not rest.names:
        return {}
    needed = [] if workflow.generates else storages_to_read(workflow=workflow, prepared=False)
    readable = all(rest.reading(storages) or not sites.reading(storages) for storages in needed)
    return chosen if readable else {}
