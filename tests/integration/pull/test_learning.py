"""Failures of a pull round: bad copies are avoided and failing sites banned, as after a push round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from dags_app.models import DAG, QuarantinedReplica, Workflow
from dags_app.pull.ending import end_runner
from dags_app.states import DAGStatus, GroupStatus, RoundStatus, RunnerOutcome
from requests_app.lifecycle import pulling
from requests_app.lifecycle.snapshot import Snapshot
from requests_app.models import Request
from requests_app.states import RequestStatus
from sites_app.models import SiteBan
from tests.integration.factories import make_request
from tests.integration.pull.factories import CERN, FNAL, lend, make_pull_workflow, make_runner, open_round
from tests.integration.recovery.factories import write_record

pytestmark = pytest.mark.django_db
CORRUPT: dict[str, Any] = {"category": "data", "exit_code": 8022, "message": "checksum differs"}


@pytest.fixture
def workflow(sites: list[str], tmp_path: Path) -> Workflow:
    made = make_pull_workflow(places=[[CERN, FNAL]] * 6)
    make_request(workflow=made, status=RequestStatus.ACTIVE)
    DAG.objects.filter(workflow=made).update(submit_dir=str(tmp_path / "dag"))
    (tmp_path / "dag" / "mg_000000").mkdir(parents=True)
    return made


def record(workflow: Workflow, node: str, **values: Any) -> None:
    write_record(Path(workflow.dags.get().submit_dir) / "mg_000000", node, **values)


def lent_file(workflow: Workflow, node: str, *, site: str = CERN, max_distance: int = 0) -> str:
    (file,) = lend(make_runner(workflow, node=node, site=site), max_distance=max_distance)
    return file.lfn


def end_round(workflow: Workflow, status: DAGStatus = DAGStatus.PARTIAL) -> None:
    open_round(workflow).groups.update(status=GroupStatus.FAILED)
    DAG.objects.filter(workflow=workflow).update(status=status, completed_at=timezone.now())
    request = Request.objects.select_related("workflow").get(workflow=workflow)
    pulling.end_round(Snapshot(request, timezone.now()), DAG.objects.get(workflow=workflow))
    assert open_round(workflow).status == RoundStatus.RESOLVED


def quarantined() -> list[tuple[str, str]]:
    return list(QuarantinedReplica.objects.values_list("lfn", "site"))


def test_a_bad_copy_is_quarantined_though_the_next_attempt_succeeded_with_another_file(
    workflow: Workflow,
) -> None:
    bad = lent_file(workflow, "proc_000000")
    record(workflow, "proc_000000", bad_files=[bad], final=False, **CORRUPT)
    record(workflow, "proc_000000", attempt=1, category="success", exit_code=0)
    end_round(workflow)
    assert quarantined() == [(bad, CERN)]


def test_a_file_that_the_node_was_not_lent_is_not_blamed(workflow: Workflow) -> None:
    lent_file(workflow, "proc_000000")
    other = lent_file(workflow, "proc_000001")
    record(workflow, "proc_000000", bad_files=[other], **CORRUPT)
    end_round(workflow)
    assert quarantined() == []


def test_a_copy_read_remotely_is_not_blamed_on_the_site_of_the_runner(workflow: Workflow) -> None:
    workflow.input_files.update(locations=[FNAL])
    lfn = lent_file(workflow, "proc_000000", max_distance=100)
    record(workflow, "proc_000000", bad_files=[lfn], **CORRUPT)
    end_round(workflow)
    assert quarantined() == []


def test_a_site_whose_runners_fail_is_banned_for_the_request(workflow: Workflow) -> None:
    for number in range(4):
        record(workflow, f"proc_{number:06d}", site=FNAL)
        record(workflow, f"proc_{number + 4:06d}", category="success", exit_code=0)
    end_round(workflow)
    assert list(SiteBan.objects.values_list("site", "workflow")) == [(FNAL, workflow.pk)]


@pytest.mark.parametrize(("at_cern", "banned"), [("success", {FNAL}), ("infrastructure", set())])
def test_a_site_is_not_banned_for_an_outage_of_wms2(
    workflow: Workflow, at_cern: str, banned: set[str]
) -> None:
    silence = {"exit_code": 99312, "source": "payload", "message": "WMS2 does not answer"}
    for number in range(4):
        record(workflow, f"proc_{number:06d}", site=FNAL, **silence)
        elsewhere: dict[str, Any] = silence if at_cern == "infrastructure" else {"exit_code": 0}
        record(workflow, f"proc_{number + 4:06d}", category=at_cern, **elsewhere)
    end_round(workflow)
    assert set(SiteBan.objects.values_list("site", flat=True)) == banned


def test_a_stopped_round_quarantines_and_bans_nothing(workflow: Workflow) -> None:
    for number in range(4):
        record(workflow, f"proc_{number:06d}", site=FNAL)
    end_round(workflow, DAGStatus.STOPPED)
    assert not SiteBan.objects.exists()


def test_a_runner_removed_by_an_operator_costs_no_attempt_and_no_blame(workflow: Workflow) -> None:
    runner = make_runner(workflow, node="proc_000000")
    lend(runner, count=2)
    end_runner(runner=runner, outcome=RunnerOutcome.FAILED, message="ended by signal 15", exit_code=143)
    lost = make_runner(workflow, node="proc_000001")
    lend(lost)
    for node in ("proc_000000", "proc_000001"):
        record(workflow, node, exit_code=99400, removal_reason="via condor_rm (by user ana)")
    for _ in range(2):
        end_round(workflow)
    assert set(workflow.input_files.values_list("state", "attempts")) == {("fresh", 0)}
    assert set(workflow.runners.values_list("outcome", flat=True)) == {RunnerOutcome.STOPPED}
    assert not workflow.failures.exists()


def test_a_job_that_the_pool_removed_costs_an_attempt(workflow: Workflow) -> None:
    runner = make_runner(workflow, node="proc_000000")
    lend(runner)
    record(workflow, "proc_000000", exit_code=99400, removal_reason="SYSTEM_PERIODIC_REMOVE: too long")
    end_round(workflow)
    assert set(workflow.input_files.values_list("state", "attempts")) == {("attempted", 1), ("fresh", 0)}
