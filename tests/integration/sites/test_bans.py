"""Bans are made, widened, lifted and end by themselves; each step is in the audit, none touches what runs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from dags_app.failures.clusters import FailedJob, RoundFailures
from dags_app.models import DAG, FailureCluster, Round, Workflow
from dags_app.states import DAGStatus, GroupStatus, RoundKind
from requests_app.lifecycle.maintenance import tidy_up
from requests_app.models import Alert
from requests_app.selectors.requests import requestors_of
from requests_app.services.restarting import restart_request
from requests_app.states import RequestStatus
from sites_app.models import Site, SiteBan
from sites_app.selectors import usable_sites
from sites_app.services.bans import ban_failing_sites, ban_pilot_sites, ban_site, expire_bans
from tests.integration.factories import (
    DOCUMENT,
    make_dag,
    make_group,
    make_request,
    make_round,
    make_site,
    make_workflow,
)
from wms2_project.models import AuditEvent

pytestmark = pytest.mark.django_db
NAME = "T2_US_Purdue"


@pytest.fixture
def site(db: None) -> Site:
    make_site("T2_CH_CERN")
    return make_site(NAME)


def failing(jobs: int = 4) -> RoundFailures:
    one = FailedJob("mg_000000", "proc_000000", NAME, "infrastructure", 60307, "no", source="wrapper")
    return RoundFailures(9, jobs=(one,) * jobs, ran={NAME: jobs})


def usable(workflow: Any = None, **later: int) -> set[str]:
    now = timezone.now() + timedelta(**later)
    return set(usable_sites(workflow=workflow or make_workflow(), now=now).names)


def actions() -> list[str]:
    return list(AuditEvent.objects.filter(target=NAME).order_by("id").values_list("action", flat=True))


def ban(workflow: Any, now: Any = None) -> list[SiteBan]:
    return ban_failing_sites(
        workflow=workflow,
        failures=failing(),
        read_elsewhere={},
        requestors_of=requestors_of,
        now=now or timezone.now(),
    )


def test_a_workflow_avoids_the_site_that_failed_it_and_others_do_not(site: Site) -> None:
    workflow = make_workflow()
    (made,) = ban(workflow)
    assert timedelta(days=6.9) < made.expires_at - timezone.now() < timedelta(days=7.1)
    assert (NAME in usable(workflow), NAME in usable(), NAME in usable(workflow, days=8)) == (
        False, True, True,
    )  # fmt: skip
    assert ban(workflow) == [], "it is avoided already"
    assert (SiteBan.objects.count(), actions()) == (1, ["ban"])


def test_three_workflows_make_it_a_ban_for_all(site: Site) -> None:
    workflows = [make_workflow() for _ in range(3)]
    for workflow in workflows[:2]:
        ban(workflow)
    assert NAME in usable()
    ban(workflows[2])
    assert NAME not in usable()
    for_all = SiteBan.objects.get(workflow__isnull=True)
    assert for_all.failure_data["requests"] == sorted(one.request_name for one in workflows)
    assert actions() == ["ban", "ban", "ban", "promote_ban"]
    ban(make_workflow())
    assert SiteBan.objects.filter(workflow__isnull=True).count() == 1


def test_versions_of_one_request_count_once(site: Site) -> None:
    first = make_request(status=RequestStatus.ACTIVE, request_data=DOCUMENT, workflow=make_workflow())
    newer = restart_request(request=first, actor="user:olga", reason="again")
    newest = restart_request(request=newer, actor="user:olga", reason="and again")
    for request in (first, newer, newest):
        ban(request.workflow)
    assert NAME in usable()
    others = [make_workflow(), make_workflow()]
    ban(others[0])
    assert NAME in usable(), "two requests"
    ban(others[1])
    assert NAME not in usable()
    assert "3 requests of" in SiteBan.objects.get(workflow__isnull=True).reason


def pilots(*sites: tuple[str, bool], category: str = "infrastructure") -> None:
    """Run one pilot per named site, each of another request; it fails unless `succeed` is set."""
    for name, succeeds in sites:
        round_ = make_round(make_workflow(), kind=RoundKind.PILOT)
        if succeeds:
            make_group(round_, site=name, status=GroupStatus.COLLECTED, finished_at=timezone.now())
            continue
        add_cluster(make_dag(round_, status=DAGStatus.FAILED), name, category)


def add_cluster(dag: DAG, name: str, category: str = "infrastructure") -> None:
    FailureCluster.objects.create(
        dag=dag, workflow=dag.workflow, fingerprint=f"{dag.failures.count()}", message="no", exit_code=71102,
        category=category, site=name, source="wrapper", jobs=1, jobs_at_site=1, failed_elsewhere=0,
        jobs_elsewhere=0,
    )  # fmt: skip


def ban_for_pilots(*names: str) -> list[str]:
    made = ban_pilot_sites(sites=names, requestors_of=requestors_of, now=timezone.now())
    return [ban.site_id for ban in made if ban.workflow is None]


@pytest.mark.parametrize(
    ("seen", "banned"),
    [
        ([False] * 3, True),
        ([False] * 2, False),
        ([False] * 3 + [True] * 3, False),
        ([False] * 4 + [True] * 3, True),
    ],
    ids=["enough", "too few", "half", "more than half"],
)
def test_pilots_of_many_requests_ban_a_site_for_all(site: Site, seen: list[bool], banned: bool) -> None:
    pilots(*((NAME, succeeds) for succeeds in seen))
    assert ban_for_pilots(NAME) == ([NAME] if banned else [])
    assert (NAME not in usable()) is banned
    assert ban_for_pilots(NAME) == [], "it is banned already, or not to be"


def test_pilot_failures_that_may_be_the_code_s_count_once_the_pilot_worked_elsewhere(site: Site) -> None:
    pilots(*[(NAME, False)] * 3, category="permanent")
    assert ban_for_pilots(NAME) == []
    for round_ in Round.objects.filter(kind=RoundKind.PILOT):
        make_group(round_, site="T2_CH_CERN", status=GroupStatus.COLLECTED, finished_at=timezone.now())
    assert ban_for_pilots(NAME) == [], "one person's code may mind this site"
    for workflow in Workflow.objects.all():
        make_request(workflow=workflow, submitted_by=workflow.request_name)
    assert ban_for_pilots(NAME) == [NAME]


def test_a_pilot_that_failed_twice_counts_once(site: Site) -> None:
    dag = make_dag(make_round(make_workflow(), kind=RoundKind.PILOT), status=DAGStatus.FAILED)
    for _ in range(3):
        add_cluster(dag, NAME)
    assert ban_for_pilots(NAME) == []


def test_pilot_failures_before_a_ban_was_lifted_are_forgiven(site: Site, operator: APIClient) -> None:
    pilots(*[(NAME, False)] * 3)
    assert ban_for_pilots(NAME) == [NAME]
    operator.delete(f"/api/v1/sites/{NAME}/ban", {"reason": "repaired"})
    pilots((NAME, False))
    assert ban_for_pilots(NAME) == []


def test_an_unknown_site_is_not_banned(db: None) -> None:
    assert ban(make_workflow()) == []


def test_the_end_of_a_ban_is_noted_once(site: Site) -> None:
    workflow = make_workflow()
    ban(workflow)
    later = timezone.now() + timedelta(days=8)
    tidy_up(now=later)
    assert expire_bans(now=later) == 0
    ended = SiteBan.objects.get()
    assert (ended.removed_by, actions()) == ("system:expiry", ["ban", "expire_ban"])
    ban(workflow, now=later)
    assert SiteBan.objects.filter(removed_at__isnull=True).count() == 1


def test_operators_ban_and_lift_through_the_api(site: Site, operator: APIClient) -> None:
    until = (timezone.now() + timedelta(days=2)).isoformat()
    answer = operator.post(f"/api/v1/sites/{NAME}/ban", {"reason": "broken disks", "until": until})
    assert answer.status_code == 200, answer.json()
    (shown,) = answer.json()["bans"]
    assert (shown["reason"], shown["request_name"], shown["created_by"]) == (
        "broken disks", None, "user:olga",
    )  # fmt: skip
    assert NAME not in usable()
    answer = operator.delete(f"/api/v1/sites/{NAME}/ban", {"reason": "fixed"})
    assert (answer.status_code, answer.json()["bans"]) == (200, [])
    assert NAME in usable()
    assert (SiteBan.objects.get().removed_by, actions()) == ("user:olga", ["ban", "lift_ban"])
    assert operator.delete(f"/api/v1/sites/{NAME}/ban", {"reason": "again"}).status_code == 409


def test_lifting_all_bans_of_a_site_does_not_bring_the_ban_for_all_back(
    site: Site, operator: APIClient
) -> None:
    workflows = [make_workflow() for _ in range(3)]
    for workflow in workflows:
        ban(workflow)
    operator.delete(f"/api/v1/sites/{NAME}/ban", {"reason": "fixed"})
    ban(workflows[0])
    assert (NAME in usable(), NAME in usable(workflows[0])) == (True, False)


def test_a_ban_for_one_request_leaves_the_others_alone(site: Site, operator: APIClient) -> None:
    mine, other = make_request(), make_request()
    for row in (mine, other):
        body = {"reason": "bad there", "request_name": row.request_name}
        assert operator.post(f"/api/v1/sites/{NAME}/ban", body).status_code == 200
    body = {"reason": "good again", "request_name": mine.request_name}
    operator.delete(f"/api/v1/sites/{NAME}/ban", body)
    assert (NAME in usable(mine.workflow), NAME in usable(other.workflow)) == (True, False)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "reason"),
        ({"reason": "r", "request_name": "unknown"}, "request_name"),
        ({"reason": "r", "until": "2001-01-01T00:00:00Z"}, "until"),
        ({"reason": "r", "colour": "red"}, "colour"),
    ],
)
def test_a_wrong_ban_is_refused_by_field(
    site: Site, operator: APIClient, body: dict[str, str], field: str
) -> None:
    answer = operator.post(f"/api/v1/sites/{NAME}/ban", body)
    assert (answer.status_code, list(answer.json()["errors"])) == (422, [field])
    assert not SiteBan.objects.exists()


def test_banning_again_changes_the_ban_and_makes_no_second(site: Site) -> None:
    now = timezone.now()
    ban_site(site=site, workflow=None, reason="first", actor="user:olga", now=now)
    ban_site(
        site=site, workflow=None, reason="longer", actor="user:otto", now=now, until=now + timedelta(days=30)
    )
    only = SiteBan.objects.get()
    assert (only.reason, only.expires_at) == ("longer", now + timedelta(days=30))


def test_the_console_bans_and_lifts(site: Site, console: Any) -> None:
    ban_path, lift_path = (reverse(f"admin:sites_app_site_{name}", args=[NAME]) for name in ("ban", "unban"))
    console.post(ban_path, {"_confirmed": "1", "reason": "broken", "workflow": "", "until": ""})
    assert NAME not in usable()
    console.post(lift_path, {"_confirmed": "1", "reason": "fixed", "workflow": ""})
    assert NAME in usable()


def open_site_alerts() -> list[tuple[str, str]]:
    alerts = Alert.objects.filter(kind="site_banned", closed_at__isnull=True)
    return [(alert.site, alert.message) for alert in alerts]


def test_a_ban_for_all_raises_an_alert_while_it_is_in_force(
    site: Site, viewer: APIClient, console: Any
) -> None:
    now = timezone.now()
    ban_site(site=site, workflow=None, reason="broken disks", actor="user:olga", now=now)
    ban_site(
        site=make_site("T2_DE_DESY"), workflow=make_workflow(), reason="its own", actor="user:olga", now=now
    )
    for _ in range(2):
        tidy_up(now=now)
    ((name, message),) = open_site_alerts()
    assert (name, "broken disks" in message, f"{now + timedelta(days=7):%F}" in message) == (NAME, True, True)
    assert viewer.get("/api/v1/status").json()["alerts"] == {"site_banned": 1}
    for page in (reverse("admin:index"), reverse("admin:requests_app_alert_changelist")):
        assert NAME in console.get(page).content.decode()
    tidy_up(now=now + timedelta(days=8))
    assert open_site_alerts() == []


def test_an_alert_about_a_site_is_sent_like_the_others(site: Site, settings: Any, mailoutbox: Any) -> None:
    settings.ALERT_EMAIL_TO = ["shift@example.org"]
    ban_site(site=site, workflow=None, reason="broken disks", actor="user:olga", now=timezone.now())
    tidy_up(now=timezone.now())
    (sent,) = mailoutbox
    assert (sent.subject, "broken disks" in sent.body) == (f"[WMS2] site_banned: {NAME}", True)


def test_sites_are_counted_by_their_use(site: Site, viewer: APIClient) -> None:
    now = timezone.now()
    make_site("T2_DE_DESY", status="draining", drain_until=now - timedelta(hours=1))
    make_site("T2_FR_Drains", status="draining", drain_until=now + timedelta(hours=1))
    own = make_site("T2_IT_Own")
    ban_site(site=own, workflow=make_workflow(), reason="its own", actor="user:olga", now=now)
    ban_site(site=site, workflow=None, reason="broken disks", actor="user:olga", now=now)
    assert viewer.get("/api/v1/status").json()["sites"] == {"enabled": 3, "banned": 1, "draining": 1}
    metrics = viewer.get("/api/v1/metrics").content.decode()
    assert 'wms2_sites{status="banned"} 1.0' in metrics
