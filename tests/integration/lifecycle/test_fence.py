"""A fenced schedd is not waited for, and its work continues elsewhere, once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from condor.fake import FakePool, FakeSchedd
from dags_app.models import DAG, Schedd
from dags_app.services import schedds, submission
from dags_app.states import DAGStatus, GroupStatus, ScheddStatus
from requests_app.lifecycle.advance import advance
from requests_app.lifecycle.monitoring import watch_dags
from requests_app.models import Request
from requests_app.services.stopping import abort_request
from requests_app.states import RequestStatus
from tests.integration.factories import ago, make_dag, make_group, make_request, make_round
from wms2_project.errors import ScheddUnreachable

pytestmark = pytest.mark.django_db
S = RequestStatus
LOST, SPARE = "lost@pool", "spare@pool"


@pytest.fixture(autouse=True)
def lost(settings: Any, fake_pool: FakePool) -> FakeSchedd:
    """Return a schedd that does not answer, beside one that does."""
    settings.SCHEDDS = [LOST, SPARE]
    Schedd.objects.create(name=LOST, silent_since=ago(hours=1), asked_at=timezone.now())
    fake_pool[LOST].silence()
    return fake_pool[LOST]


def fence() -> None:
    schedds.fence_schedd(name=LOST, actor="user:olga", reason="its host burnt")


def on_lost(waits: RequestStatus, directory: Path, **values: Any) -> tuple[Request, DAG]:
    request = make_request(status=waits)
    round_ = make_round(request.workflow)
    for _ in range(2):
        make_group(round_)
    directory.mkdir(exist_ok=True)
    return request, make_dag(round_, schedd_name=LOST, submit_dir=str(directory), **values)


def look_and_advance(request: Request, times: int) -> Request:
    for _ in range(times):
        watch_dags(now=timezone.now())
        advance(request.pk)
    return Request.objects.get(pk=request.pk)


@pytest.mark.parametrize(
    ("status", "after"),
    [(S.ACTIVE, S.QUEUED), (S.STOPPING, S.QUEUED), (S.QUEUED, S.QUEUED), (S.HELD, S.HELD)],
)
def test_work_of_a_fenced_schedd_is_stopped_and_resumes(
    tmp_path: Path, status: RequestStatus, after: RequestStatus
) -> None:
    asked = timezone.now() if status is S.STOPPING else None
    request, dag = on_lost(status, tmp_path / "dag", stop_requested_at=asked)
    group = tmp_path / "dag" / "mg_000001"
    group.mkdir()
    (group / "merge_output.json").touch()
    watch_dags(now=timezone.now())
    dag.refresh_from_db()
    assert dag.status == DAGStatus.RUNNING, "nothing is concluded from silence alone"
    fence()
    watch_dags(now=timezone.now())
    watch_dags(now=timezone.now())
    dag.refresh_from_db()
    assert dag.status == DAGStatus.STOPPED
    done = dag.round.groups.order_by("index").values_list("status", flat=True)
    assert list(done) == [GroupStatus.PLANNED, GroupStatus.DONE], "what is on the disk counts"
    dag.round.groups.filter(index=1).update(status=GroupStatus.COLLECTED)  # there is no real manifest here
    request = look_and_advance(request, 2)
    assert request.status == after
    if after is S.QUEUED:
        assert DAG.objects.get(parent=dag).kind == "resume"


def test_a_dag_being_submitted_to_a_fenced_schedd_is_sent_elsewhere(
    fake_pool: FakePool, tmp_path: Path
) -> None:
    _, dag = on_lost(S.PLANNING, tmp_path / "dag", status=DAGStatus.READY, submitted_at=None)
    with pytest.raises(ScheddUnreachable):
        submission.ensure_submitted(dag=dag, priority=1)
    group = tmp_path / "dag" / "mg_000000"
    group.mkdir()
    (group / "merge_output.json").touch()
    (tmp_path / "dag" / "workflow.dag.lock").touch()  # it had started there without a record
    fence()
    for name in ("workflow.dag", "dagman.config"):
        (tmp_path / "dag" / name).touch()
    sent = submission.ensure_submitted(dag=dag, priority=1)
    assert (sent.schedd_name, sent.status) == (SPARE, DAGStatus.SUBMITTED)
    assert list(fake_pool[SPARE].query_dags()) == [dag.token]
    assert fake_pool[SPARE].called("find_dag") == [], "it was never sent there"
    assert not (tmp_path / "dag" / "workflow.dag.lock").exists()
    assert (tmp_path / "dag" / "workflow.dag.rescue001").read_text() == "DONE mg_000000\n"


def test_the_dag_of_an_ended_request_ends_with_the_fence(tmp_path: Path) -> None:
    request, dag = on_lost(S.ACTIVE, tmp_path / "one")
    planned, unsent = on_lost(S.PLANNING, tmp_path / "two", status=DAGStatus.READY, submitted_at=None)
    for row in (request, planned):
        abort_request(request=row, actor="user:olga", reason="enough")
    fence()
    later = timezone.now() + timedelta(hours=1)
    watch_dags(now=later)
    dag.refresh_from_db()
    unsent.refresh_from_db()
    assert (dag.status, unsent.status) == (DAGStatus.STOPPED, DAGStatus.STOPPED)


@pytest.mark.parametrize("open_again", [schedds.enable_schedd, schedds.drain_schedd])
def test_a_fenced_schedd_is_opened_when_it_answers_and_runs_nothing_a_second_time(
    lost: FakeSchedd, tmp_path: Path, open_again: Callable[..., Schedd]
) -> None:
    _, ended = on_lost(S.HELD, tmp_path / "one", status=DAGStatus.STOPPED, completed_at=timezone.now())
    _, moved = on_lost(S.ACTIVE, tmp_path / "two")
    DAG.objects.filter(pk=moved.pk).update(schedd_name=SPARE)
    _, staying = on_lost(S.ACTIVE, tmp_path / "three")
    for dag in (ended, moved, staying):
        lost.add_dag(dag.token)
    fence()
    with pytest.raises(ScheddUnreachable):
        open_again(name=LOST, actor="user:olga", reason="it is back")
    assert schedds.is_fenced(LOST)
    lost.answer()
    row = open_again(name=LOST, actor="user:olga", reason="it is back")
    assert row.status != ScheddStatus.FENCED
    assert list(lost.query_dags()) == [staying.token]
