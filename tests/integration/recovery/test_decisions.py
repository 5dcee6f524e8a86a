"""Operator decisions: they outrank measurements, are shown as decisions, and survive a restart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from dags_app.models import InputFile, Workflow
from dags_app.services import production
from dags_app.services.estimating import current_estimate
from dags_app.services.input_files import NoInput, resolve_input
from dags_app.states import FileState
from requests_app.models import Request
from requests_app.services.importing import import_request
from requests_app.services.releasing import Modifications, release_request
from requests_app.services.restarting import restart_request
from requests_app.states import RequestStatus as S
from sites_app.models import Site, SiteBan
from sites_app.selectors import usable_sites
from sites_app.services.bans import ban_site
from tests.integration.factories import DOCUMENT, make_file, make_request, make_site
from tests.integration.recovery.factories import CERN, DESY, PURDUE, Round
from tests.stand_in import Overridden, OwnFilesDbs
from wms2_project.models import AuditEvent

pytestmark = pytest.mark.django_db
PILOT = {
    "iterations": [{"events": 10, "wall_time_sec": 20.0}],
    "recommended": {
        "events_per_job": 10, "memory_mb": 2200, "time_per_job_sec": 20.0, "output_size_per_event_kb": 1.5,
    },
}  # fmt: skip


def url(row: Request, action: str = "") -> str:
    return f"/api/v1/requests/{row.request_name}{action}"


@pytest.fixture
def measured() -> Request:
    make_site(CERN)
    row = make_request(status=S.QUEUED)
    flow = Workflow.objects.filter(pk=row.workflow_id)
    flow.update(pilot_metrics=PILOT, input_resolved_at=timezone.now())
    return Request.objects.select_related("workflow").get(pk=row.pk)


def gate(client: APIClient, row: Request, name: str) -> dict[str, Any]:
    gates = client.get(url(row, "/why")).json()["gates"]
    return next(dict(one) for one in gates if one["name"] == name)


def test_changed_memory_outranks_the_pilot_and_is_shown_as_the_operators(
    measured: Request, operator: APIClient
) -> None:
    assert gate(operator, measured, "memory")["evidence"]["source"] == "pilot"
    answer = operator.patch(url(measured), {"reason": "it swaps", "memory_mb": 5000})
    assert answer.status_code == 200, answer.json()
    assert answer.json()["overrides"] == {"memory_mb": 5000}
    measured.workflow.refresh_from_db()
    estimate = current_estimate(measured.workflow)
    assert (estimate.memory_mb, estimate.source, estimate.decided) == (5000, "pilot", ("memory_mb",))
    assert estimate.as_json()["operator"] == ["memory_mb"]
    evidence = gate(operator, measured, "memory")["evidence"]
    assert (evidence["memory_mb"], evidence["source"]) == (5000, "operator")


def test_null_takes_the_decision_back_and_measurements_count_again(
    measured: Request, operator: APIClient
) -> None:
    operator.patch(url(measured), {"reason": "it swaps", "memory_mb": 5000})
    dry = operator.patch(url(measured), {"reason": "fixed", "memory_mb": None, "dry_run": True})
    assert any("measured" in line for line in dry.json()["next_round"])
    answer = operator.patch(url(measured), {"reason": "fixed", "memory_mb": None})
    assert (answer.status_code, answer.json()["overrides"]) == (200, {})
    measured.workflow.refresh_from_db()
    assert current_estimate(measured.workflow).memory_mb < 5000


def test_memory_that_no_usable_site_offers_is_refused(measured: Request, operator: APIClient) -> None:
    Site.objects.update(thresholds={"memory_mb_per_core": 3000})
    for extra in ({}, {"dry_run": True}):
        answer = operator.patch(url(measured), {"reason": "r", "memory_mb": 5000} | extra)
        assert answer.status_code == 422
        assert answer.json()["errors"] == {"memory_mb": "no usable site offers 5000 MB per core"}


def test_changed_memory_reaches_the_jobs_that_a_rescue_runs_again(
    planned: Callable[..., Round], operator: APIClient
) -> None:
    round_ = planned([[CERN]] * 4)
    round_.dag.round.dags.update(status="running", submitted_at=timezone.now())
    dry = operator.patch(url(round_.request), {"reason": "r", "memory_mb": 2600, "dry_run": True}).json()
    assert [line for line in dry["next_round"] if "rescue or resume" in line]
    assert [line for line in dry["never"] if line.startswith("memory_mb")]


@pytest.fixture
def released(planned: Callable[..., Round]) -> Round:
    """Return a held request that was released with every possible decision."""
    for name in (CERN, DESY, PURDUE):
        Site.objects.filter(pk=name).exists() or make_site(name)
    made, _ = import_request(document=DOCUMENT, actor="user:ana")
    for number in range(4):
        make_file(made.workflow, lfn=f"/store/data/Run2031A/{number}.root", locations=[CERN, DESY])
    Request.objects.filter(pk=made.pk).update(status=S.HELD)
    release_request(
        request=Request.objects.select_related("workflow").get(pk=made.pk),
        actor="user:olga",
        reason="seen",
        now=timezone.now(),
        modifications=Modifications(
            site_bans=(PURDUE,),
            excluded_files=("/store/data/Run2031A/0.root",),
            memory_mb=3100,
            time_per_event_sec=90.0,
            retry_count=0,
            error_hold_threshold=0.4,
        ),
    )
    return Round(Request.objects.select_related("workflow").get(pk=made.pk))


DECIDED = {
    "memory_mb": 3100, "time_per_event_sec": 90.0, "retry_count": 0, "error_hold_threshold": 0.4,
    "site_bans": [PURDUE], "excluded_files": ["/store/data/Run2031A/0.root"],
}  # fmt: skip


def test_decisions_of_the_release_are_shown(released: Round, operator: APIClient, console: Any) -> None:
    assert operator.get(url(released.request)).json()["overrides"] == DECIDED
    page = console.get(f"/admin/requests_app/request/{released.request.pk}/change/").content.decode()
    assert "Operator decisions" in page
    for message in ("memory mb 3100", "retry count 0", "error hold threshold 0.4", PURDUE):
        assert message in page


def test_the_dry_run_of_a_restart_lists_the_decisions_it_keeps(released: Round, operator: APIClient) -> None:
    answer = operator.post(url(released.request, "/restart"), {"reason": "again", "dry_run": True})
    assert answer.status_code == 200, answer.json()
    body = answer.json()
    assert (body["request_name"], body["ends_as"]) == (f"{released.request.request_name}_v2", "aborted")
    assert body["decisions"] == DECIDED
    assert body["output_datasets"] == ["/Muons/Run2031A-First-v2/AOD"]
    assert Request.objects.count() == 1


def test_a_restart_carries_every_decision_into_the_next_version(released: Round, operator: APIClient) -> None:
    old = released.request
    ban_site(site=Site.objects.get(pk=DESY), workflow=old.workflow, reason="9 of 9 jobs failed",
             actor="system:banning", now=timezone.now())  # fmt: skip
    machines = released.workflow.input_files.filter(lfn="/store/data/Run2031A/1.root")
    machines.update(state=FileState.EXCLUDED, excluded_reason="could not be read")
    new = restart_request(request=old, actor="user:olga", reason="again")
    assert operator.get(url(new)).json()["overrides"] == DECIDED
    estimate = current_estimate(Workflow.objects.get(pk=new.workflow_id))
    assert (estimate.memory_mb, estimate.time_per_event_sec) == (3100, 90.0)
    assert usable_sites(workflow=new.workflow, now=timezone.now()).names == {CERN, DESY}
    excluded = new.workflow.input_files.get()
    assert (excluded.state, excluded.excluded_by) == (FileState.EXCLUDED, "user:olga")
    assert AuditEvent.objects.get(action="restart").detail["decisions"] == DECIDED


def test_a_carried_ban_keeps_its_end_and_is_not_counted_as_a_second_workflows(released: Round) -> None:
    ban = SiteBan.objects.get(site=PURDUE)
    new = restart_request(request=released.request, actor="user:olga", reason="again")
    carried = SiteBan.objects.get(site=PURDUE, removed_at=None)
    assert (carried.workflow, carried.expires_at, carried.reason) == (
        new.workflow, ban.expires_at, ban.reason,
    )  # fmt: skip
    ban.refresh_from_db()
    assert ban.removed_by == "user:olga"


def test_a_file_excluded_in_an_earlier_version_is_not_read_in_the_next(released: Round) -> None:
    new = restart_request(request=released.request, actor="user:olga", reason="again")
    files = [
        InputFile(workflow=new.workflow, lfn=f"/store/data/Run2031A/{number}.root", size_bytes=1, events=10,
                  locations=[CERN])
        for number in range(4)
    ]  # fmt: skip
    InputFile.objects.bulk_create(files, ignore_conflicts=True)  # as input is resolved
    pool = usable_sites(workflow=new.workflow, now=timezone.now())
    plan = production.decide_plan(workflow=new.workflow, sites=pool)
    read = {window.file.lfn for group in plan.groups for job in group.jobs for window in job.files}
    assert read == {f"/store/data/Run2031A/{number}.root" for number in (1, 2, 3)}


def test_a_dataset_of_which_every_file_is_excluded_gives_no_input(
    released: Round, adapt: Callable[..., None]
) -> None:
    new = restart_request(request=released.request, actor="user:olga", reason="again")
    adapt(dbs=Overridden(OwnFilesDbs(), blocks=lambda name: []))
    with pytest.raises(NoInput, match="exclude all 1 files"):
        resolve_input(workflow=new.workflow, now=timezone.now())
