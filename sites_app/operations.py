"""Operations on sites."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from dags_app.selectors import workflow_named
from sites_app.api.serializers import (
    BanInput,
    DrainInput,
    LiftInput,
    MaintenanceInput,
    SiteDetail,
    SiteInput,
)
from sites_app.models import Site
from sites_app.selectors import affected_by, site_by_name
from sites_app.services.bans import ban_site, in_force, lift_bans
from sites_app.services.site_settings import change_site
from sites_app.services.sites import disable_site, drain_site, enable_site, start_maintenance
from sites_app.states import BY_CRIC, CricState, SiteStatus
from wms2_project.access.roles import Role
from wms2_project.errors import NotAllowed
from wms2_project.operations import Call, Done, Operation, Target, Weight
from wms2_project.words import counted


def _check_own_site(call: Call) -> None:
    if not call.caller.operates and call.row.name not in call.caller.sites:
        raise NotAllowed(
            f"You are not an admin of {call.row.name}", cure="Ask one of its admins or an operator"
        )


SITE = Target(
    kind="site",
    route="sites/<slug:name>",
    find=site_by_name,
    body=SiteDetail,
    render=lambda call, done: SiteDetail(done.row).data,
    guard=_check_own_site,
    guarded="below operators for their own sites only",
)


def _signed(call: Call) -> dict[str, Any]:
    return call.signed | {"by_operator": call.caller.operates}


def _drain(call: Call) -> Done:
    site = drain_site(site=call.row, **_signed(call), **call.values)
    return Done(site, f"{site} accepts no new work.")


def _enable(call: Call) -> Done:
    site = enable_site(site=call.row, **_signed(call))
    if site.cric_state != CricState.ACTIVE:
        return Done(site, f"{site} is enabled, and takes work when CRIC lists it as active again.")
    return Done(site, f"{site} takes work again.")


def _disable(call: Call) -> Done:
    site = disable_site(site=call.row, **_signed(call))
    return Done(site, f"{site} takes no new work until it is enabled.")


def _maintain(call: Call) -> Done:
    site = start_maintenance(site=call.row, **_signed(call), **call.values)
    until = f"until {site.drain_until:%F %R} UTC" if site.drain_until else "until it is enabled"
    return Done(site, f"{site} is in maintenance {until}.")


def _ban(call: Call) -> Done:
    workflow = workflow_named(call.values["request_name"])
    ban_site(site=call.row, workflow=workflow, until=call.values["until"], now=call.now, **_signed(call))
    return Done(call.row, f"{call.row} is banned for {call.values['request_name'] or 'all requests'}.")


def _unban(call: Call) -> Done:
    workflow = workflow_named(call.values["request_name"])
    lifted = lift_bans(site=call.row, workflow=workflow, now=call.now, **_signed(call))
    return Done(call.row, f"{counted(lifted, 'ban')} of {call.row} lifted.")


def _change(call: Call) -> Done:
    site = change_site(
        site=call.row,
        changes=call.values,
        expected_version=call.expected_version,
        **_signed(call),
    )
    return Done(site, f"{site} is changed.")


def _known(site: Site) -> dict[str, Any]:
    known = site.thresholds | site.config_data
    names = ("storage_elements", "notes", "memory_mb_per_core", "storage_used_fraction", "storage_distances")
    return {name: known.get(name) for name in names}


OPERATIONS = (
    Operation(
        target=SITE,
        name="drain",
        label="Drain",
        effect="No new work lands at the site. Running jobs continue.",
        input=DrainInput,
        run=_drain,
        role=Role.SITE_ADMIN,
        allows=lambda site: site.status == SiteStatus.ENABLED,
        allowed_in="while the site is enabled",
        checks_version=False,
        affects=affected_by,
        icon="block",
        weight=Weight.CAREFUL,
        bulk=True,
    ),
    Operation(
        target=SITE,
        name="maintenance",
        label="Start maintenance",
        effect="No new work lands at the site until the time given or until it is enabled. Running jobs"
        " continue.",
        input=MaintenanceInput,
        run=_maintain,
        role=Role.SITE_ADMIN,
        allows=lambda site: site.status in (SiteStatus.ENABLED, SiteStatus.DRAINING),
        allowed_in="while the site is enabled or drained",
        checks_version=False,
        affects=affected_by,
        icon="build",
        weight=Weight.CAREFUL,
        bulk=True,
    ),
    Operation(
        target=SITE,
        name="disable",
        label="Disable",
        effect="No new work lands at the site until it is enabled. Running jobs continue.",
        run=_disable,
        role=Role.SITE_ADMIN,
        allows=lambda site: site.status != SiteStatus.DISABLED or site.status_by == BY_CRIC,
        allowed_in="while no person has disabled the site",
        checks_version=False,
        affects=affected_by,
        icon="power_settings_new",
        weight=Weight.CAREFUL,
        bulk=True,
    ),
    Operation(
        target=SITE,
        name="enable",
        label="Enable",
        effect="Work may land at the site again.",
        run=_enable,
        role=Role.SITE_ADMIN,
        allows=lambda site: site.status != SiteStatus.ENABLED,
        allowed_in="while the site is drained, in maintenance or disabled",
        checks_version=False,
        affects=affected_by,
        icon="check",
        weight=Weight.USUAL,
        bulk=True,
    ),
    Operation(
        target=SITE,
        name="ban",
        label="Ban",
        effect="No new work of one request, or of all requests, lands at the site for a time. Running jobs"
        " continue.",
        input=BanInput,
        run=_ban,
        role=Role.SITE_ADMIN,
        checks_version=False,
        affects=affected_by,
        icon="do_not_disturb_on",
    ),
    Operation(
        target=SITE,
        name="unban",
        label="Lift bans",
        effect="The ban of one request, or every ban of the site, ends at the next planning.",
        input=LiftInput,
        run=_unban,
        role=Role.SITE_ADMIN,
        method="DELETE",
        path="ban",
        allows=lambda site: in_force(site, now=timezone.now()).exists(),
        allowed_in="while a ban is in force",
        checks_version=False,
        affects=affected_by,
        icon="undo",
    ),
    Operation(
        target=SITE,
        name="edit",
        label="Configure",
        effect="Memory per core, storages, their use and notes change, or the site is closed.",
        input=SiteInput,
        run=_change,
        role=Role.SITE_ADMIN,
        method="PATCH",
        path="",
        initial=_known,
        icon="tune",
    ),
)
BY_NAME = {one.name: one for one in OPERATIONS}
