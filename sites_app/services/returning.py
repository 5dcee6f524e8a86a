"""Sites that are unusable until a known time: the end of a drain, a maintenance or a ban."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import OuterRef, Q, Subquery

from dags_app.models import Workflow
from dags_app.planning.types import SitePool
from dags_app.services.ledger import storages_to_read
from sites_app.models import Site
from sites_app.selectors import bans_in_force
from sites_app.states import TIMED, CricState, SiteStatus

_CAUSES: dict[str, str] = {SiteStatus.DRAINING: "draining", SiteStatus.MAINTENANCE: "in maintenance"}


@dataclass(frozen=True, slots=True)
class Absence:
    """A site the workflow can use again at `until`; `cause` is the present obstacle."""

    site: str
    until: datetime
    cause: str


@dataclass(frozen=True, slots=True)
class AwaitedSite:
    """The site a workflow waits for, because no usable site exists or none can read all of the input."""

    absence: Absence
    for_input: bool

    @property
    def message(self) -> str:
        """Explanation of the wait."""
        what = "no usable site can read part of the input" if self.for_input else "no usable site"
        one = self.absence
        return f"{what} until {one.until:%F %R} UTC, when {one.site} is no longer {one.cause}"


def returning_sites(*, workflow: Workflow, now: datetime) -> dict[str, Absence]:
    """Return, by name, the sites of the workflow's lists that become usable at a known time."""
    may_return = Q(status=SiteStatus.ENABLED) | Q(status__in=TIMED, drain_until__isnull=False)
    rows = Site.objects.filter(may_return, cric_state=CricState.ACTIVE)
    rows = rows.exclude(name__in=workflow.site_blacklist)
    if workflow.site_whitelist:
        rows = rows.filter(name__in=workflow.site_whitelist)
    bans = bans_in_force(workflow=workflow, now=now).filter(site=OuterRef("pk")).order_by("-expires_at")
    away = rows.annotate(banned_until=Subquery(bans.values("expires_at")[:1])).filter(
        Q(drain_until__gt=now) | Q(banned_until__isnull=False)
    )
    found: dict[str, Absence] = {}
    for name, status, drain_until, banned_until in away.values_list(
        "name", "status", "drain_until", "banned_until"
    ):
        absences = []
        if drain_until is not None and drain_until > now:
            absences.append(Absence(name, drain_until, _CAUSES[status]))
        if banned_until is not None:
            absences.append(Absence(name, banned_until, "banned"))
        found[name] = max(absences, key=_end)
    return found


def awaited_site(*, workflow: Workflow, sites: SitePool, prepared: bool, now: datetime) -> AwaitedSite | None:
    """Return the site to wait for; None if the workflow can continue or waiting would not help.

    `prepared`: the workflow continues with a rescue or resume DAG, which reads all of its files. A new
    round reads what is readable, so it waits only if nothing is.
    """
    if sites.names and (workflow.generates or workflow.pulls):
        return None  # of a pull workflow the gate of the data decides, by distances
    away = returning_sites(workflow=workflow, now=now)
    if not away:
        return None
    if not sites.names and sites.lacking:
        return None  # the gate of the secondary input names what is missing
    if not sites.names:
        return AwaitedSite(min(away.values(), key=_end), for_input=False)
    needed: list[Absence] = []
    for storages in storages_to_read(workflow=workflow, prepared=prepared):
        if sites.reading(storages):
            if not prepared:
                return None
            continue
        able = [away[name] for name in sites.holding(storages) if name in away]
        if able:
            needed.append(min(able, key=_end))
        elif prepared:
            return None  # names the unreadable files
    first_or_last = max if prepared else min
    return AwaitedSite(first_or_last(needed, key=_end), for_input=True) if needed else None


def _end(absence: Absence) -> tuple[datetime, str]:
    return absence.until, absence.site
