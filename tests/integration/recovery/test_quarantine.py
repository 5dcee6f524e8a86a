"""Quarantine: bad copies are avoided by all requests, listed with proof, declared to Rucio and lifted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from cms.types import ReplicaVerdict
from condor.fake import FakeSchedd
from dags_app.failures import repair
from dags_app.models import DAG, QuarantinedReplica, Workflow
from dags_app.services import production, quarantine
from dags_app.services.ledger import files_to_plan
from dags_app.states import DAGStatus
from requests_app.lifecycle.advance import advance
from requests_app.lifecycle.maintenance import tidy_up
from requests_app.models import Request
from requests_app.states import RequestStatus as S
from sites_app.models import Site
from sites_app.selectors import usable_sites
from tests.integration.conftest import ApiAs
from tests.integration.factories import OWN_SITE, make_file, make_site, make_workflow
from tests.integration.recovery.factories import CERN, DESY, PURDUE, Round, one_bad, partial, rescued
from wms2_project.access.roles import Role
from wms2_project.errors import ServiceUnavailable
from wms2_project.models import AuditEvent, GateNews

pytestmark = pytest.mark.django_db
Planned = Callable[..., Round]
CHECKSUM = "FatalRootError: checksum 11112222 where 33334444 was planned"


def corrupt(round_: Round, **values: Any) -> str:
    """Return an ended DAG; the first file of its first group is corrupt at CERN."""
    lfn = round_.lfns_of(0)[0]
    node = next(name for name, job in round_.jobs_of(0).items() if job["files"][0]["lfn"] == lfn)
    known = {"category": "data", "exit_code": 8022, "bad_files": [lfn], "message": CHECKSUM}
    one_bad(round_, 0, nodes=[node], **(known | values))
    partial(round_)
    return lfn


def sites_for(workflow: Workflow, lfn: str) -> set[str]:
    """Return the sites at which the next round of the workflow would read the file."""
    pool = usable_sites(workflow=workflow, now=timezone.now())
    found = {file.lfn: file.sites for file in next(files_to_plan(workflow=workflow, sites=pool))}
    return set(found[lfn])


def another(*lfns: str, locations: tuple[str, ...] = (CERN, DESY)) -> Workflow:
    """Return a second request on the same dataset."""
    made = make_workflow()
    for lfn in lfns:
        make_file(made, lfn=lfn, locations=list(locations))
    return made


def test_a_second_request_avoids_the_copy_until_it_is_lifted(planned: Planned, operator: APIClient) -> None:
    round_ = planned([[CERN, DESY]] * 2 + [[CERN]] * 10)
    lfn = corrupt(round_)
    second = another(lfn, round_.lfns_of(0)[1])
    assert sites_for(second, lfn) == {DESY}
    assert sites_for(second, round_.lfns_of(0)[1]) == {CERN, DESY}

    (listed,) = operator.get("/api/v1/quarantine").json()["results"]
    assert (listed["lfn"], listed["site"], listed["storages"], listed["state"]) == (
        lfn, CERN, [CERN], "in_force",
    )  # fmt: skip
    assert (listed["exit_code"], listed["proof"]) == (8022, CHECKSUM)
    assert (listed["request_name"], listed["dag"]) == (round_.workflow.request_name, str(round_.dag.pk))

    answer = operator.post(f"/api/v1/quarantine/{listed['id']}/lift", {"reason": "the site replaced it"})
    assert (answer.status_code, answer.json()["state"], answer.json()["ended_by"]) == (
        200, "lifted", "user:olga",
    )  # fmt: skip
    assert sites_for(second, lfn) == {CERN, DESY}
    audited = AuditEvent.objects.get(action="lift_quarantine")
    assert (audited.target, audited.reason, audited.detail["site"]) == (lfn, "the site replaced it", CERN)
    assert GateNews.objects.filter(gate="data").exists(), "requests that wait for data look again"
    again = operator.post(f"/api/v1/quarantine/{listed['id']}/lift", {"reason": "twice"})
    assert (again.status_code, again.json()["code"]) == (409, "conflict")


def test_the_same_failure_read_again_changes_nothing_and_a_new_proof_prolongs_it(planned: Planned) -> None:
    round_ = planned([[CERN, DESY]] * 2 + [[CERN]] * 10)
    lfn = corrupt(round_)
    first = QuarantinedReplica.objects.get()
    partial(round_)
    assert QuarantinedReplica.objects.get().proved_at == first.proved_at
    QuarantinedReplica.objects.update(expires_at=timezone.now() + timedelta(hours=1))

    other = planned([[CERN]] * 12)
    known = other.workflow.input_files.filter(lfn=other.lfns_of(0)[0])
    known.update(lfn=lfn)
    one_bad(other, 0, category="data", exit_code=8021, bad_files=[lfn], message="cut off")
    partial(other)
    row = QuarantinedReplica.objects.get()
    assert (row.workflow, row.exit_code, row.proof) == (other.workflow, 8021, "cut off")
    assert row.created_at == first.created_at
    assert row.expires_at > timezone.now() + timedelta(days=29)


def test_a_storage_that_fails_as_a_whole_quarantines_no_file(planned: Planned) -> None:
    round_ = planned([[PURDUE, DESY]] * 4 + [[CERN]] * 20)
    for index in (0, 1):
        for node, job in round_.jobs_of(index).items():
            blamed = [job["files"][0]["lfn"]]
            round_.fail(index, PURDUE, nodes=[node], category="data", exit_code=8020, bad_files=blamed)
    for index in range(2, 12):
        round_.finish(index)
    round_.end()
    partial(round_)
    assert not QuarantinedReplica.objects.exists()
    assert round_.workflow.bad_replicas.count() == 4, "its own rescue goes elsewhere all the same"


def test_only_input_files_are_quarantined(planned: Planned) -> None:
    round_ = planned([[CERN, DESY]] * 12)
    corrupt(round_, bad_files=["/store/unmerged/x/proc_000000.root"])
    assert not QuarantinedReplica.objects.exists()


def test_a_quarantine_ends_by_itself(planned: Planned, settings: Any) -> None:
    settings.QUARANTINE_DAYS = 1.0
    lfn = corrupt(planned([[CERN, DESY]] * 12))
    second = another(lfn)
    long_ago = timezone.now() - timedelta(days=2)
    QuarantinedReplica.objects.update(created_at=long_ago, expires_at=timezone.now() - timedelta(seconds=1))
    assert sites_for(second, lfn) == {CERN, DESY}, "over even before it is recorded"
    tidy_up(now=timezone.now())
    row = QuarantinedReplica.objects.get()
    assert (row.ended_by, AuditEvent.objects.filter(action="expire_quarantine").count()) == (
        "system:expiry", 1,
    )  # fmt: skip


def test_when_no_other_copy_is_left_the_file_is_still_tried(planned: Planned) -> None:
    """The second request reads the copy itself, and names the file if it is lost."""
    lfn = corrupt(planned([[CERN]] * 12))
    assert sites_for(another(lfn, locations=(CERN,)), lfn) == {CERN}


@pytest.fixture
def running(planned: Planned, fake_schedd: FakeSchedd) -> Round:
    """Return a second request on the same files, in the queue; none of its groups has landed."""
    round_ = planned([[CERN, DESY]] * 2)
    DAG.objects.filter(pk=round_.dag.pk).update(
        status=DAGStatus.RUNNING, applied_version=round_.workflow.version, submitted_at=timezone.now()
    )
    return round_


def poll(round_: Round) -> None:
    Request.objects.filter(pk=round_.request.pk).update(next_check_at=timezone.now())
    advance(round_.request.pk)
    assert Request.objects.get(pk=round_.request.pk).status == S.ACTIVE


def landings(schedd: FakeSchedd) -> list[Mapping[str, Any]]:
    return [call["sites"] for call in schedd.called("place_landings")]


def test_landings_of_a_running_dag_follow_the_quarantine(
    planned: Planned, running: Round, fake_schedd: FakeSchedd, operator: APIClient
) -> None:
    shared = running.lfns_of(0)[0]
    other = planned([[CERN, DESY]] * 12)
    other.workflow.input_files.filter(lfn=other.lfns_of(0)[0]).update(lfn=shared)
    one_bad(other, 0, category="data", exit_code=8022, bad_files=[shared])
    partial(other)
    poll(running)
    assert landings(fake_schedd) == [{"mg_000000": {DESY}}]
    poll(running)
    assert len(landings(fake_schedd)) == 1, "applied once per change"
    row = QuarantinedReplica.objects.get()
    operator.post(f"/api/v1/quarantine/{row.pk}/lift", {"reason": "replaced"})
    poll(running)
    assert landings(fake_schedd)[1:] == [{"mg_000000": {CERN, DESY}}]


def test_a_group_that_would_have_no_site_left_may_read_the_copy(
    planned: Planned, running: Round, fake_schedd: FakeSchedd
) -> None:
    """Its other file is at CERN only: the group runs there, without the file if that fails."""
    shared, bound = running.lfns_of(0)
    running.workflow.input_files.filter(lfn=bound).update(locations=[CERN])
    other = planned([[CERN, DESY]] * 12)
    other.workflow.input_files.filter(lfn=other.lfns_of(0)[0]).update(lfn=shared)
    one_bad(other, 0, category="data", exit_code=8022, bad_files=[shared])
    partial(other)
    poll(running)
    assert landings(fake_schedd) == [{"mg_000000": {CERN}}]


def test_a_rescue_places_groups_that_have_not_landed_elsewhere(planned: Planned) -> None:
    round_ = planned([[CERN, DESY]] * 2 + [[CERN]] * 22)
    lfn = corrupt(round_)
    other = planned([[CERN, DESY]] * 2 + [[CERN]] * 10)
    other.workflow.input_files.filter(lfn=other.lfns_of(0)[0]).update(lfn=lfn)
    for index in range(1, 6):
        other.finish(index)
    other.end()
    partial(other)
    rescued(other)
    pool = usable_sites(workflow=other.workflow, now=timezone.now())
    assert [one.sites for one in repair.decide_repairs(dag=other.dag, sites=pool)] == [{DESY}]


class Rucio:
    """Records declarations, optionally after an outage."""

    def __init__(self, *, outages: int = 0, known: bool = True) -> None:
        self.outages, self.known = outages, known
        self.declared: list[tuple[str, str, str, str]] = []

    def declare_replica(self, lfn: str, rse: str, verdict: ReplicaVerdict, *, reason: str) -> bool:
        if self.outages:
            self.outages -= 1
            raise ServiceUnavailable("Rucio is away")
        self.declared.append((lfn, rse, verdict.value, reason))
        return self.known

    def replicas(self, lfns: list[str]) -> dict[str, tuple[str, ...]]:
        return dict.fromkeys(lfns, (CERN, DESY))


@pytest.mark.parametrize(
    ("policy", "storages", "declared"),
    [
        ("off", [CERN], []),
        ("suspicious", [CERN], [(CERN, "suspicious")]),
        ("bad", [CERN], [(CERN, "bad")]),
        # which of the two copies was read is not known
        ("bad", [CERN, "T1_CH_CERN_Disk"], [("T1_CH_CERN_Disk", "suspicious"), (CERN, "suspicious")]),
    ],
)
def test_replicas_are_declared_by_the_policy(
    planned: Planned, adapt: Callable[..., None], settings: Any, policy: str, storages: list[str],
    declared: list[tuple[str, str]],
) -> None:  # fmt: skip
    settings.DECLARE_BAD_REPLICAS = policy
    adapt(rucio=(client := Rucio()))
    Site.objects.filter(pk=CERN).update(storage_elements=storages)
    round_ = planned([[*storages, DESY]] * 12)
    lfn = corrupt(round_)
    for _ in range(2):
        quarantine.declare_replicas(now=timezone.now())
    reason = f"WMS2: 8022 of {round_.workflow.request_name}: {CHECKSUM}"
    assert client.declared == [(lfn, rse, verdict, reason) for rse, verdict in declared]
    row = QuarantinedReplica.objects.get()
    assert (row.declared_as, row.declare_at) == (declared[0][1] if declared else "", None)


def test_a_refused_declaration_is_retried_later(
    planned: Planned, adapt: Callable[..., None], settings: Any
) -> None:
    settings.DECLARE_BAD_REPLICAS = "bad"
    adapt(rucio=(client := Rucio(outages=1)))
    corrupt(planned([[CERN, DESY]] * 12))
    quarantine.declare_replicas(now=timezone.now())
    row = QuarantinedReplica.objects.get()
    assert (row.declared_as, row.declare_error) == ("", "Rucio is away")
    quarantine.declare_replicas(now=timezone.now())
    assert client.declared == [], "not at once"
    quarantine.declare_replicas(now=timezone.now() + timedelta(hours=1))
    row.refresh_from_db()
    assert (row.declared_as, row.declare_error, len(client.declared)) == ("bad", "", 1)


def test_a_copy_that_rucio_does_not_have_is_not_declared(
    planned: Planned, adapt: Callable[..., None], settings: Any
) -> None:
    settings.DECLARE_BAD_REPLICAS = "suspicious"
    adapt(rucio=Rucio(known=False))
    corrupt(planned([[CERN, DESY]] * 12))
    quarantine.declare_replicas(now=timezone.now())
    row = QuarantinedReplica.objects.get()
    assert (row.declared_as, row.declare_error, row.declare_at) == ("", "Rucio has no such replica", None)


def test_a_site_admin_lifts_at_the_own_site_only(planned: Planned, api_as: ApiAs) -> None:
    round_ = planned([[CERN, DESY]] * 12)
    corrupt(round_)
    row = QuarantinedReplica.objects.get()
    make_site(OWN_SITE)
    admin = api_as(Role.SITE_ADMIN, "sita")
    answer = admin.post(f"/api/v1/quarantine/{row.pk}/lift", {"reason": "mine"})
    assert answer.status_code == 403
    QuarantinedReplica.objects.update(site=OWN_SITE)
    assert admin.post(f"/api/v1/quarantine/{row.pk}/lift", {"reason": "replaced"}).status_code == 200


@pytest.mark.parametrize(
    ("query", "count"),
    [("state=in_force", 1), ("state=lifted", 0), ("state=expired", 0), (f"site={CERN}", 1),
     (f"site={DESY}", 0), ("request_name=unknown", 0)],
)  # fmt: skip
def test_the_list_is_filtered(planned: Planned, viewer: APIClient, query: str, count: int) -> None:
    corrupt(planned([[CERN, DESY]] * 12))
    assert len(viewer.get(f"/api/v1/quarantine?{query}").json()["results"]) == count


def test_the_console_shows_the_proof(planned: Planned, console: Client) -> None:
    lfn = corrupt(planned([[CERN, DESY]] * 12))
    row = QuarantinedReplica.objects.get()
    shown = console.get("/admin/dags_app/quarantinedreplica/").content.decode()
    assert lfn in shown
    page = console.get(f"/admin/dags_app/quarantinedreplica/{row.pk}/change/").content.decode()
    assert "checksum 11112222 where 33334444 was planned" in page
    assert "Lift the quarantine" in page


def test_planning_again_reads_the_other_copy(planned: Planned) -> None:
    round_ = planned([[CERN, DESY]] * 2 + [[CERN]] * 10)
    lfn = corrupt(round_)
    production.resolve_round(round_=round_.dag.round, now=timezone.now())
    assert sites_for(round_.workflow, lfn) == {DESY}
