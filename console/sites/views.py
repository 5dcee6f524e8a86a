"""Pages of sites. Admins of a site see their own first, with its buttons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest
from django.utils import timezone

from console.fragments import Fragment, about
from console.page import Page
from console.sites.selector import site_detail, site_lines
from sites_app.operations import OPERATIONS
from sites_app.selectors import site_by_name
from wms2_project.access.roles import Role, may_steer_site, sites_of
from wms2_project.changes import Topic
from wms2_project.console import address_of


def _read_sites(_of: str, _role: Role) -> Mapping[str, Any]:
    lines = site_lines(now=timezone.now())
    return {
        "lines": lines,
        "total": sum(line.site.total_slots for line in lines),
        "running": sum(line.site.running_slots for line in lines),
        "pending": sum(line.site.pending_slots for line in lines),
        "closed": [line for line in lines if line.tone != "success"],
    }


def _read_site(of: str, _role: Role) -> Mapping[str, Any]:
    return site_detail(of, now=timezone.now())


def _read_own(of: str, _role: Role) -> Mapping[str, Any]:
    return {"lines": site_lines(now=timezone.now(), names=of.split(","))}


def _own(request: HttpRequest, _of: str) -> Mapping[str, Any]:
    return {"own_sites": ",".join(sorted(sites_of(request.user)))}


def _buttons(request: HttpRequest, of: str) -> Mapping[str, Any]:
    """Return the operations that the person may use on the site now."""
    site = site_by_name(of)
    allowed = [one for one in OPERATIONS if one.allows(site)] if may_steer_site(request.user, of) else []
    return {"buttons": [(one, address_of(f"admin:sites_app_site_{one.name}", of)) for one in allowed]}


OWN_SITES = Fragment(
    name="own-sites", template="console/sites/own.html", read=_read_own, topics=about(Topic.SITES)
)
SITES = Page(
    fragment=Fragment(
        name="sites", template="console/sites/fragment.html", read=_read_sites, topics=about(Topic.SITES)
    ),
    title="Sites",
    about="Slots, failures by cause, bans, drains and storage of every site",
    template="console/sites.html",
    person=_own,
)
SITE = Page(
    fragment=Fragment(
        name="site", template="console/sites/site.html", read=_read_site, topics=about(Topic.SITES)
    ),
    title="Site",
    route="sites/<str:of>",
    template="console/site.html",
    person=_buttons,
)
