"""Results of a payload are claims: they may exclude a site for its own request, never for others."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from dags_app.models import BadReplica
from dags_app.services.ledger import files_to_plan
from dags_app.states import GroupStatus
from requests_app.lifecycle import handlers, recovering
from requests_app.lifecycle.recovering import blame_pilot_sites
from requests_app.models import Request
from requests_app.states import RequestStatus as S
from sandbox.context import Context
from sandbox.failure import JobFailure, process_exit
from sandbox.manifest import read_jobs
from sandbox.registry import load_registry
from sandbox.storage import stage_out
from sandbox.streams import CappedStream
from sandbox.tree import Tree
from sites_app.models import SiteBan
from sites_app.selectors import usable_sites
from tests.integration.factories import make_file, make_group, make_workflow
from tests.integration.recovery.conftest import _own_submit_root, planned, sites
from tests.integration.recovery.factories import CERN, DESY, PURDUE, Round
from tests.job_world import NODE, tarball, world

if TYPE_CHECKING:
    from tests.job_world import World

__all__ = ["_own_submit_root", "planned", "sites", "tarball", "world"]
Planned = Callable[..., Round]
PLACES = [[PURDUE, DESY]] * 4 + [[CERN]] * 20
FJR = (
    '<FrameworkJobReport><FrameworkError ExitStatus="{code}" Type="X">no</FrameworkError>'
    "</FrameworkJobReport>"
)


# Results of the jobs


def judged(world: World, status: int) -> dict[str, Any]:
    world.post(NODE, status, max_retries=0)
    return dict(world.record(NODE)["job"])


def run_program(world: World, program: str) -> int:
    world.payload = {"command": [sys.executable, "-S", "-c", program]}
    world.plan()
    return world.run(NODE)


@pytest.fixture
def one_job(world: World) -> World:
    world.add_job(NODE, [world.add_file("a", 10)])
    world.plan()
    return world


@pytest.mark.parametrize("code", [71, 74, 50, 127])
def test_an_exit_code_that_the_payload_chose_has_source_payload(one_job: World, code: int) -> None:
    job = judged(one_job, run_program(one_job, f"raise SystemExit({code})"))
    assert (job["exit_code"], job["source"]) == (code, "payload")


@pytest.mark.parametrize("code", [8028, 60311, 11003])
def test_a_code_in_the_report_of_the_payload_has_source_payload(one_job: World, code: int) -> None:
    write = f"open('FrameworkJobReport.xml', 'w').write({FJR.format(code=code)!r})\nraise SystemExit(1)"
    job = judged(one_job, run_program(one_job, write))
    assert (job["exit_code"], job["source"]) == (code, "payload")


def test_a_command_that_does_not_exist_is_the_payloads_choice(one_job: World) -> None:
    one_job.payload = {"command": ["/does/not/exist"]}
    one_job.plan()
    job = judged(one_job, one_job.run(NODE))
    assert (job["exit_code"], job["source"]) == (50110, "payload")


def test_an_output_removed_by_the_payload_is_not_blamed_on_the_storage(one_job: World) -> None:
    manifest = read_jobs(one_job.group / "jobs.json")
    tree = Tree(CappedStream(1), CappedStream(2))
    context = Context(manifest, NODE, "T2_CH_CERN", 0, one_job.root, tree, load_registry())
    with pytest.raises(JobFailure) as refused:
        stage_out(context, one_job.root / "gone.root", "/store/unmerged/a.root", "0123abcd")
    assert refused.value.source == "payload"


def test_a_job_killed_without_a_report_may_have_been_killed_by_its_payload(one_job: World) -> None:
    assert judged(one_job, -9)["source"] == "payload"


def test_a_missing_storage_has_source_wrapper(one_job: World) -> None:
    one_job.storage.rename(one_job.storage.with_name("elsewhere"))
    job = judged(one_job, one_job.run(NODE))
    assert (job["exit_code"], job["source"]) == (60321, "wrapper")


def test_a_damaged_input_file_has_source_wrapper(one_job: World) -> None:
    Path(f"{one_job.storage}/store/data/a.root").write_text("not what it was")
    job = judged(one_job, one_job.run(NODE))
    assert (job["exit_code"], job["source"]) == (8022, "wrapper")


def test_a_refused_stage_out_has_source_wrapper(one_job: World) -> None:
    (one_job.storage / "store/unmerged").write_text("a file where a directory must be")
    job = judged(one_job, one_job.run(NODE))
    assert (job["exit_code"], job["source"]) == (60307, "wrapper")


def test_a_sandbox_that_cannot_be_unpacked_has_source_wrapper(one_job: World) -> None:
    one_job.processes = True
    one_job.tarball = one_job.root / "cut.tar.gz"
    one_job.tarball.write_bytes(b"not a tarball")
    job = judged(one_job, one_job.run(NODE))
    assert (job["exit_code"], job["source"]) == (74, "wrapper")


@pytest.mark.parametrize(
    ("hold_code", "source"),
    [(6, "htcondor"), (13, "htcondor"), (12, "payload"), (33, "payload"), (34, "payload")],
)
def test_only_holds_before_the_payload_have_source_htcondor(
    one_job: World, hold_code: int, source: str
) -> None:
    log = (
        "001 (007.000.000) 2026-11-16 02:01:47 Job executing on host: <127.0.0.1:1>\n"
        '\tGLIDEIN_CMSSite = "T2_CH_CERN"\n...\n'
        f"012 (007.000.000) 2026-11-16 02:02:10 Job was held.\n\tno\n\tCode {hold_code} Subcode 0\n...\n"
    )
    (one_job.group / "group.dag.nodes.log").write_text(log)
    assert judged(one_job, -1002)["source"] == source


def test_a_report_cannot_claim_to_be_htcondors(one_job: World) -> None:
    status = run_program(one_job, "raise SystemExit(71)")
    path = one_job.reports / f"{NODE}.report.json"
    path.write_text(path.read_text().replace('"payload"', '"htcondor"'))
    assert status == process_exit(71)
    assert judged(one_job, status)["source"] == "payload"


# Effects of the results


def fail_at_purdue(planned: Planned, sender: str, **values: Any) -> Round:
    """Return a request whose two groups at Purdue fail and whose others succeed."""
    round_ = planned(PLACES)
    Request.objects.filter(pk=round_.request.pk).update(submitted_by=sender, requestor=f"not {sender}")
    for index in (0, 1):
        round_.fail(index, PURDUE, **{"exit_code": 71, "source": "payload"} | values)
    for index in range(2, 12):
        round_.finish(index)
    round_.end()
    handlers.on_partial(round_.move(S.PARTIAL), timezone.now())
    return round_


def avoided_by(round_: Round) -> bool:
    return PURDUE not in usable_sites(workflow=round_.workflow, now=timezone.now()).names


@pytest.mark.django_db
def test_one_users_exit_codes_ban_no_site_for_the_others(planned: Planned) -> None:
    rounds = [fail_at_purdue(planned, "mallory") for _ in range(5)]
    assert all(avoided_by(one) for one in rounds), "each of them avoids it"
    assert not SiteBan.objects.filter(workflow__isnull=True).exists()
    assert PURDUE in usable_sites(workflow=make_workflow(), now=timezone.now()).names


@pytest.mark.django_db
def test_a_name_in_the_document_makes_no_second_requestor(planned: Planned) -> None:
    for name in ("mallory", "ana", "bob"):
        round_ = fail_at_purdue(planned, "mallory")
        Request.objects.filter(pk=round_.request.pk).update(requestor=name)
        recovering.learn(round_.request, round_.dag, timezone.now())
    assert not SiteBan.objects.filter(workflow__isnull=True).exists()


@pytest.mark.django_db
def test_the_same_claims_of_three_people_ban_a_site_for_all(planned: Planned) -> None:
    for sender in ("ana", "bob", "eva"):
        assert not SiteBan.objects.filter(workflow__isnull=True).exists()
        fail_at_purdue(planned, sender)
    ban = SiteBan.objects.get(workflow__isnull=True)
    assert "3 requests of 3 requestors, 0 reported by the wrapper or HTCondor" in ban.reason


@pytest.mark.django_db
@pytest.mark.parametrize("source", ["wrapper", "htcondor"])
def test_proved_failures_ban_a_site_for_all_requestors(planned: Planned, source: str) -> None:
    for _ in range(3):
        fail_at_purdue(planned, "ana", exit_code=60307, source=source)
    ban = SiteBan.objects.get(workflow__isnull=True)
    assert "3 requests of 1 requestor, 3 reported by the wrapper or HTCondor" in ban.reason


@pytest.mark.django_db
def test_a_payload_that_fails_everywhere_excludes_no_site(planned: Planned) -> None:
    round_ = planned([[PURDUE]] * 6 + [[CERN]] * 6)
    for index in range(6):
        round_.fail(index, PURDUE if index < 3 else CERN, exit_code=71, source="payload")
    round_.end()
    handlers.on_partial(round_.move(S.PARTIAL), timezone.now())
    assert not SiteBan.objects.exists()


@pytest.mark.django_db
def test_failing_pilots_of_one_user_ban_no_site_for_the_others(planned: Planned) -> None:
    for sender in ["mallory"] * 4 + ["ana"]:
        assert_not_banned_after_pilot(planned, sender)
    fail_pilot(planned, "bob")
    assert SiteBan.objects.get(workflow__isnull=True).site_id == PURDUE


def fail_pilot(planned: Planned, sender: str) -> None:
    round_ = planned([[PURDUE, DESY]] * 2)
    Request.objects.filter(pk=round_.request.pk).update(submitted_by=sender)
    dag = round_.dag
    dag.round.kind = "pilot"
    dag.round.save()
    round_.fail(0, PURDUE, exit_code=71, source="payload")
    round_.end()
    recovering.learn(round_.request, round_.dag, timezone.now())
    make_group(dag.round, site=DESY, status=GroupStatus.COLLECTED, finished_at=timezone.now())
    blame_pilot_sites(round_.dag, timezone.now())


def assert_not_banned_after_pilot(planned: Planned, sender: str) -> None:
    fail_pilot(planned, sender)
    assert not SiteBan.objects.filter(workflow__isnull=True).exists()


@pytest.mark.django_db
@pytest.mark.parametrize(("source", "read_at"), [("payload", {CERN, DESY}), ("wrapper", {DESY})])
def test_a_payload_does_not_exclude_a_replica_for_others(
    planned: Planned, source: str, read_at: set[str]
) -> None:
    round_ = planned([[CERN, DESY]] * 2 + [[CERN]] * 10)
    bad = round_.lfns_of(0)[0]
    values = {"category": "data", "exit_code": 8021, "bad_files": [bad], "source": source}
    round_.fail(0, CERN, **values)
    for index in range(1, 6):
        round_.finish(index)
    round_.end()
    handlers.on_partial(round_.move(S.PARTIAL), timezone.now())
    assert BadReplica.objects.get(lfn=bad).source == source
    other = make_workflow()
    make_file(other, lfn=bad, locations=[CERN, DESY])
    pool = usable_sites(workflow=other, now=timezone.now())
    assert [file.sites for file in next(files_to_plan(workflow=other, sites=pool))] == [read_at]
