"""Drains, bans and site lists reach the groups of a running DAG that have not landed yet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from cms.types import SiteInfo
from condor.fake import FakeSchedd
from dags_app.failures import repair
from dags_app.models import DAG
from dags_app.services import production
from dags_app.states import DAGKind, DAGStatus
from requests_app.lifecycle.advance import advance
from requests_app.lifecycle.dag_edits import STRANDED
from requests_app.lifecycle.monitoring import follow_edits_of_held
from requests_app.models import Alert, Request
from requests_app.states import RequestStatus as S
from sites_app.models import Site
from sites_app.selectors import usable_sites
from sites_app.services.sites import sync_sites
from tests.integration.recovery.factories import CERN, DESY, PURDUE, Round

pytestmark = pytest.mark.django_db


def placed(schedd: FakeSchedd) -> list[Mapping[str, Collection[str]]]:
    """Return a list of the sites of waiting landings that each call sends to the schedd."""
    return [call["sites"] for call in schedd.called("place_landings")]


@pytest.fixture
def running(planned: Callable[..., Round], fake_schedd: FakeSchedd) -> Round:
    """Return a round of three groups: one landed at CERN, one may land at CERN or DESY, one at DESY only."""
    round_ = planned([[CERN]] * 2 + [[CERN, DESY]] * 2 + [[DESY]] * 2)
    DAG.objects.filter(pk=round_.dag.pk).update(
        status=DAGStatus.RUNNING, applied_version=round_.workflow.version, submitted_at=timezone.now()
    )
    (only,) = set(round_.reading(CERN)) - set(round_.reading(DESY))
    (round_.directory(only) / "elected_site.inc").write_text(f"elected_site = {CERN}\n")
    return round_


def groups(round_: Round) -> dict[str, str]:
    """Return the groups by kind: landed, free (two sites), bound (DESY only)."""
    at_cern, at_desy = set(round_.reading(CERN)), set(round_.reading(DESY))
    (landed,), (free,), (bound,) = at_cern - at_desy, at_cern & at_desy, at_desy - at_cern
    return {"landed": f"mg_{landed:06d}", "free": f"mg_{free:06d}", "bound": f"mg_{bound:06d}"}


def listed(round_: Round) -> dict[str, str]:
    lines = (round_.directory(0).parent / "landing_sites").read_text().splitlines()
    return dict(line.split(" ") for line in lines)


def poll(round_: Round) -> None:
    Request.objects.filter(pk=round_.request.pk).update(next_check_at=timezone.now())
    advance(round_.request.pk)
    assert Request.objects.get(pk=round_.request.pk).status == S.ACTIVE


def post(client: APIClient, path: str, **body: Any) -> None:
    answer = client.post(f"/api/v1/sites/{path}", {"reason": "power cut"} | body)
    assert answer.status_code == 200, answer.json()


def test_nothing_is_written_while_no_site_changes(running: Round, fake_schedd: FakeSchedd) -> None:
    poll(running)
    assert placed(fake_schedd) == []
    assert not (running.directory(0).parent / "landing_sites").exists()


@pytest.mark.parametrize("how", ["drain", "disable", "maintenance", "ban"])
def test_a_closed_or_banned_site_takes_no_later_landing_until_it_is_back(
    running: Round, fake_schedd: FakeSchedd, operator: APIClient, how: str
) -> None:
    name = groups(running)
    post(operator, f"{CERN}/{how}")
    poll(running)
    assert listed(running) == {name["free"]: DESY, name["bound"]: DESY}
    assert placed(fake_schedd) == [{name["free"]: {DESY}, name["bound"]: {DESY}}]
    if how == "ban":
        operator.delete(f"/api/v1/sites/{CERN}/ban", {"reason": "repaired"})
    else:
        post(operator, f"{CERN}/enable")
    poll(running)
    assert listed(running)[name["free"]] == f"{CERN},{DESY}"
    poll(running)
    assert len(placed(fake_schedd)) == 2, "applied once per change"


def test_a_site_decommissioned_in_cric_takes_no_later_landing_and_keeps_what_landed(
    running: Round, fake_schedd: FakeSchedd, adapt: Callable[..., None]
) -> None:
    name = groups(running)
    Site.objects.update(synced_at=timezone.now())
    sites = [SiteInfo(site, (site,), active=site != CERN) for site in (CERN, DESY, PURDUE)]
    adapt(cric=SimpleNamespace(sites=lambda: sites))
    sync_sites(now=timezone.now())
    poll(running)
    assert listed(running) == {name["free"]: DESY, name["bound"]: DESY}
    landed = running.directory(int(name["landed"].removeprefix("mg_"))) / "elected_site.inc"
    assert landed.read_text() == f"elected_site = {CERN}\n"
    assert DAG.objects.get(pk=running.dag.pk).status == DAGStatus.RUNNING


def test_a_ban_of_one_request_and_its_end_reach_that_request(running: Round, operator: APIClient) -> None:
    post(operator, f"{CERN}/ban", request_name=running.request.request_name)
    poll(running)
    assert listed(running)[groups(running)["free"]] == DESY
    Site.objects.get(pk=CERN).bans.update(
        created_at=timezone.now().replace(year=2020), expires_at=timezone.now()
    )
    poll(running)
    assert listed(running)[groups(running)["free"]] == f"{CERN},{DESY}"


def test_a_changed_whitelist_reaches_later_landings(running: Round, operator: APIClient) -> None:
    path = f"/api/v1/requests/{running.request.request_name}"
    answer = operator.patch(path, {"reason": "r", "site_whitelist": [DESY, PURDUE]})
    assert answer.status_code == 200, answer.json()
    poll(running)
    assert listed(running)[groups(running)["free"]] == DESY


def test_groups_without_a_site_wait_and_are_reported_until_they_have_one(
    running: Round, operator: APIClient
) -> None:
    name = groups(running)
    post(operator, f"{DESY}/drain")
    poll(running)
    assert listed(running) == {name["free"]: CERN, name["bound"]: "-"}
    alert = Alert.objects.get(kind=STRANDED, closed_at=None)
    assert f"1 group without a usable site, the first is {name['bound']}" in alert.message
    why = operator.get(f"/api/v1/requests/{running.request.request_name}/why").json()
    gate = next(one for one in why["gates"] if one["name"] == "landings")
    assert (gate["verdict"], gate["evidence"]["groups"]) == ("block", [name["bound"]])
    post(operator, f"{DESY}/enable")
    poll(running)
    assert listed(running)[name["bound"]] == DESY
    assert not Alert.objects.filter(kind=STRANDED, closed_at=None).exists()


def test_a_dry_run_names_the_groups_that_move_wait_and_stay(running: Round, operator: APIClient) -> None:
    name = groups(running)
    path = f"/api/v1/requests/{running.request.request_name}"
    answer = operator.patch(path, {"reason": "r", "site_blacklist": [DESY], "dry_run": True})
    body = answer.json()
    assert body["now"] == [
        f"sites: 1 group not landed yet ({name['free']}) may land at {CERN}",
        f"sites: 1 group ({name['bound']}) waiting for a usable site",
    ]
    assert f"sites: 1 group landed already and stay: 1 at {CERN}" in body["never"]
    assert not (running.directory(0).parent / "landing_sites").exists()
    same = operator.patch(path, {"reason": "r", "site_blacklist": [PURDUE], "dry_run": True}).json()
    assert "sites: no group of the DAG that runs would land elsewhere" in same["never"]


def test_a_held_request_whose_jobs_run_on_follows_too(
    running: Round, fake_schedd: FakeSchedd, operator: APIClient
) -> None:
    running.move(S.HELD)
    post(operator, f"{CERN}/drain")
    follow_edits_of_held(now=timezone.now())
    assert listed(running)[groups(running)["free"]] == DESY
    follow_edits_of_held(now=timezone.now())
    assert len(placed(fake_schedd)) == 1


def test_a_rescue_starts_from_the_sites_of_its_own_files(running: Round, operator: APIClient) -> None:
    post(operator, f"{CERN}/drain")
    poll(running)
    running.end()
    production.prepare_dag(parent=running.dag, kind=DAGKind.RESCUE)
    Site.objects.update(status="enabled")
    pool = usable_sites(workflow=running.workflow, now=timezone.now())
    repair.repair_dag(dag=running.dag, sites=pool)
    assert not (running.directory(0).parent / "landing_sites").exists()
    assert running.dag.applied_sites == [CERN, DESY, PURDUE]
