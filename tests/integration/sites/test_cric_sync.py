"""Sites follow CRIC on schedule, and decisions of operators are kept."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from requests_app import tasks
from requests_app.lifecycle.maintenance import alert_new_sites
from requests_app.models import Alert
from sites_app.models import Site, SiteSource
from sites_app.selectors import usable_sites
from sites_app.services.returning import returning_sites
from sites_app.services.sites import MAX_CLOSED, disable_site, drain_site, enable_site, sync_sites
from sites_app.services.sources import FAILURES_ALLOWED
from tests.integration.conftest import ApiAs
from tests.integration.factories import OWN_SITE, ago, make_site, make_workflow
from tests.integration.sites.conftest import Lab
from wms2_project.access.roles import Role
from wms2_project.errors import Conflict, ServiceUnavailable
from wms2_project.locks import lock_key
from wms2_project.models import AuditEvent

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("world")]
DESY, CERN = "T2_DE_DESY", "T2_CH_CERN"
LISTED = {"T1_US_FNAL", CERN, DESY, "T2_US_Purdue"}
WHO = {"actor": "user:olga", "reason": "a test"}
BROKEN = [{"service": "cric", "kind": "status", "status": 503, "times": None}]


def sync(**options: Any) -> None:
    sync_sites(now=timezone.now(), **options)


def usable() -> set[str]:
    return set(usable_sites(workflow=make_workflow(), now=timezone.now()).names)


def last_audit(site: str) -> tuple[str, str, str]:
    event = AuditEvent.objects.filter(target=site).latest("id")
    return event.actor, event.action, event.reason


def test_the_synchronisation_is_scheduled_and_copies_sites_and_storages(lab: Lab) -> None:
    entry = django_settings.CELERY_BEAT_SCHEDULE["sync_sites"]
    assert entry["task"] == tasks.sync_sites.name
    assert entry["schedule"] == django_settings.SITE_SYNC_INTERVAL_SEC
    tasks.sync_sites()
    assert set(Site.objects.values_list("name", flat=True)) == LISTED
    lab("PUT", "rses", [{"name": "T2_DE_DESY_New", "site": DESY}])
    tasks.sync_sites()
    assert Site.objects.get(pk=DESY).storage_elements == [DESY, "T2_DE_DESY_New"]


def test_repeating_it_changes_nothing() -> None:
    sync()
    before, events = list(Site.objects.values("name", "status", "version")), AuditEvent.objects.count()
    sync()
    assert list(Site.objects.values("name", "status", "version")) == before
    assert AuditEvent.objects.count() == events


def test_a_new_site_is_disabled_until_an_operator_enables_it(lab: Lab, settings: Any) -> None:
    sync()
    settings.NEW_SITES = "disabled"
    lab("PUT", "rses", [{"name": "T2_IT_Pisa", "site": "T2_IT_Pisa"}])
    sync()
    site = Site.objects.get(pk="T2_IT_Pisa")
    assert (site.status, site.status_by, site.status_reason) == ("disabled", "system:cric", "new in CRIC")
    assert usable() == LISTED
    alert_new_sites()
    assert Alert.objects.get(closed_at__isnull=True).site == "T2_IT_Pisa"
    enable_site(site=site, **WHO)
    sync()
    assert usable() == LISTED | {"T2_IT_Pisa"}
    alert_new_sites()
    assert not Alert.objects.filter(closed_at__isnull=True).exists()


def test_a_new_site_is_enabled_where_the_policy_says_so(lab: Lab, settings: Any) -> None:
    settings.NEW_SITES = "enabled"
    sync()
    assert usable() == LISTED
    assert last_audit(DESY) == ("system:cric", "enabled", "new in CRIC")


def test_an_admin_of_the_site_does_not_enable_a_new_one(lab: Lab, settings: Any, api_as: ApiAs) -> None:
    settings.NEW_SITES = "disabled"
    lab("PUT", "rses", [{"name": OWN_SITE, "site": OWN_SITE}])
    sync()
    url = f"/api/v1/sites/{OWN_SITE}/enable"
    refused = api_as(Role.SITE_ADMIN, "sam").post(url, {"reason": "it is ready"})
    assert refused.status_code == 403
    assert "new in CRIC" in refused.json()["detail"]
    assert api_as(Role.OPERATOR, "olga").post(url, {"reason": "it is ready"}).status_code == 200


@pytest.mark.parametrize(
    ("state", "reason"),
    [("DISABLED", "CRIC lists the site as not in operation"), ("ABSENT", "CRIC no longer lists the site")],
)
def test_a_decommissioned_site_receives_nothing_until_cric_lists_it_again(
    lab: Lab, state: str, reason: str
) -> None:
    sync()
    lab("PUT", "sites", {DESY: state})
    sync()
    assert usable() == LISTED - {DESY}
    assert last_audit(DESY) == ("system:cric", "close", reason)
    lab("PUT", "sites", {DESY: "ACTIVE"})
    sync()
    assert usable() == LISTED
    assert last_audit(DESY)[:2] == ("system:cric", "reopen")


def test_no_operator_and_no_end_of_a_drain_opens_a_decommissioned_site(lab: Lab, operator: APIClient) -> None:
    sync()
    drain_site(site=Site.objects.get(pk=CERN), until=ago(minutes=1), **WHO)
    lab("PUT", "sites", {DESY: "ABSENT", CERN: "DISABLED"})
    sync()
    answer = operator.post(f"/api/v1/sites/{DESY}/enable", {"reason": "try"})
    assert (answer.status_code, answer.json()["cric_state"]) == (200, "absent")
    assert usable() == LISTED - {DESY, CERN}
    Site.objects.filter(pk=CERN).update(drain_until=timezone.now().replace(year=2099))
    assert not returning_sites(workflow=make_workflow(), now=timezone.now())
    counted = operator.get("/api/v1/status").json()["sites"]
    assert counted == {"enabled": 2, "closed_by_cric": 2}


def test_a_site_an_operator_closed_stays_closed_when_cric_lists_it_again(lab: Lab) -> None:
    sync()
    disable_site(site=Site.objects.get(pk=DESY), **WHO)
    for state in ("ABSENT", "ACTIVE"):
        lab("PUT", "sites", {DESY: state})
        sync()
    site = Site.objects.get(pk=DESY)
    assert (site.status, site.status_by, site.cric_state) == ("disabled", "user:olga", "active")
    assert usable() == LISTED - {DESY}


def test_a_site_that_never_was_in_cric_is_not_changed() -> None:
    make_site("T3_XX_Own")
    sync()
    assert usable() == LISTED | {"T3_XX_Own"}


def test_errors_change_no_site_and_degrade_health_after_some(lab: Lab, client: Client) -> None:
    sync()
    before = list(Site.objects.values())
    lab("PUT", "faults", BROKEN)
    for _ in range(FAILURES_ALLOWED):
        tasks.sync_sites()
    assert client.get("/api/v1/health").json()["parts"]["site_sync"] == "ok"
    tasks.sync_sites()
    assert client.get("/api/v1/health").json()["parts"]["site_sync"] == "down"
    assert "503" in SiteSource.objects.get(pk="cric").error
    assert list(Site.objects.values()) == before
    lab("PUT", "faults", [])
    tasks.sync_sites()
    assert client.get("/api/v1/health").json()["parts"]["site_sync"] == "ok"


def test_an_empty_list_is_an_error_and_closes_nothing(lab: Lab) -> None:
    sync()
    lab("PUT", "sites", dict.fromkeys(LISTED, "ABSENT"))
    with pytest.raises(ServiceUnavailable, match="no active site"):
        sync()
    assert usable() == LISTED


def test_most_sites_are_closed_at_once_only_by_force(lab: Lab) -> None:
    others = [f"T2_XX_{number}" for number in range(MAX_CLOSED)]
    lab("PUT", "rses", [{"name": name, "site": name} for name in others])
    sync()
    lab("PUT", "sites", dict.fromkeys([*others, DESY, CERN], "ABSENT"))
    with pytest.raises(CommandError, match="--force"):
        call_command("sync_sites")
    assert usable() == LISTED | set(others)
    call_command("sync_sites", "--force")
    assert usable() == LISTED - {DESY, CERN}


def test_one_synchronisation_at_a_time() -> None:
    other = connection.copy()  # a session of its own
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [lock_key("sync sites")])
        with pytest.raises(Conflict, match="already"):
            sync()
        tasks.sync_sites()
        assert not Site.objects.exists()
    finally:
        other.close()
