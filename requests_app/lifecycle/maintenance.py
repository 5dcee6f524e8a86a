"""Periodic work that concerns no single request."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Q, QuerySet

from dags_app.pull.folding import fold_runners
from dags_app.services import archives, directories, leftovers, user_sandboxes
from dags_app.services.quarantine import expire_quarantine
from requests_app.lifecycle.finishing import announce_shared, watch_outputs
from requests_app.lifecycle.submit_host_gate import watch_space
from requests_app.models import Request
from requests_app.services.alerts import raise_site_alerts
from requests_app.services.audit_export import ship_audit_head
from requests_app.services.notifications import send_alerts
from requests_app.services.restarting import retire_replaced_outputs
from requests_app.services.sampling import thin_samples
from requests_app.states import TERMINAL, RequestStatus
from sandbox.usersandbox import DIGEST_FIELD
from sites_app.models import Site
from sites_app.selectors import bans_for_all, new_disabled_sites
from sites_app.services.bans import expire_bans
from sites_app.services.slot_samples import thin_slot_samples
from wms2_project.access.audit import seal_soon
from wms2_project.locks import try_lock

BANNED, NEW = "site_banned", "site_new"


def tidy_up(*, now: datetime) -> None:
    """End bans and quarantines, watch space and outputs, announce, send alerts, retire outputs, thin samples.

    Only one runs at a time, so that a slow call cannot occupy all workers.
    """
    with try_lock("tidy up") as held:
        if not held:
            return
        seal_soon()
        ship_audit_head()
        expire_bans(now=now)
        expire_quarantine(now=now)
        alert_bans(now=now)
        alert_new_sites()
        watch_space()
        watch_outputs(now=now)
        announce_shared(now=now)
        send_alerts(now=now)
        retire_replaced_outputs(now=now)
        fold_runners(now=now)
        thin_samples(now=now)
        thin_slot_samples(now=now)


def alert_bans(*, now: datetime) -> None:
    """Keep an open alert for every site that is banned for all requests."""
    messages = {
        ban.site_id: f"banned for all requests until {ban.expires_at:%F %R} UTC: {ban.reason}"
        for ban in bans_for_all(now=now)
    }
    raise_site_alerts(kind=BANNED, messages=messages)


def alert_new_sites() -> None:
    """Keep an open alert for every new site of CRIC that stays disabled until an operator enables it."""
    message = "new in CRIC and disabled; enable it, or disable it with a reason"
    sites = new_disabled_sites().values_list("name", flat=True)
    raise_site_alerts(kind=NEW, messages=dict.fromkeys(sites, message))


def clean_storage(*, now: datetime) -> None:
    """Remove leftovers on site storage, old submit directories, old archives and unused sandboxes.

    Only one runs at a time.
    """
    with try_lock("clean storage") as held:
        if not held:
            return
        leftovers.remove_leftovers(
            ended=Request.objects.filter(status__in=sorted(TERMINAL)).values("workflow"),
            sites=list(Site.objects.values_list("name", flat=True)),
            now=now,
            seconds=settings.CLEAN_LOOK_SEC,
        )
        directories.remove_directories(
            ended=ended_long_ago(now=now).values("workflow"), now=now, seconds=settings.CLEAN_LOOK_SEC
        )
        archives.remove_old_archives(now=now, seconds=settings.CLEAN_LOOK_SEC)
        kept = Request.objects.exclude(pk__in=ended_long_ago(now=now).values("pk"))
        digests = kept.values_list(f"workflow__payload_config__{DIGEST_FIELD}", flat=True)
        user_sandboxes.remove_unused_sandboxes(used=set(digests.distinct()), now=now)


def ended_long_ago(*, now: datetime) -> QuerySet[Request]:
    """Return requests whose submit directories are older than the retention policy."""
    completed = now - timedelta(days=settings.KEEP_COMPLETED_DAYS)
    others = now - timedelta(days=settings.KEEP_FAILED_DAYS)
    return Request.objects.filter(
        Q(status=RequestStatus.COMPLETED, status_since__lt=completed)
        | Q(status__in=sorted(TERMINAL - {RequestStatus.COMPLETED}), status_since__lt=others)
    )
