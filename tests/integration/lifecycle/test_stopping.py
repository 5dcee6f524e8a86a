"""Stops that need no queue: DAGs that were never sent, rounds that just ended, requests that ended first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from dags_app.models import DAG, Schedd
from dags_app.services.schedds import schedd_rows
from dags_app.states import DAGStatus, GroupStatus, RoundKind, RoundStatus
from requests_app.lifecycle import recovering
from requests_app.lifecycle.advance import advance
from requests_app.lifecycle.monitoring import alert_silence, remove_abandoned, stop_drained
from requests_app.models import Alert, Request
from requests_app.services.alerts import close_others
from requests_app.services.releasing import release_request
from requests_app.services.stopping import abort_request, stop_request
from requests_app.states import RequestStatus
from tests.integration.factories import ago, make_dag, make_group, make_request, make_round
from wms2_project.access import audit
from wms2_project.errors import Conflict
from wms2_project.observation.logs import bind

pytestmark = pytest.mark.django_db
S = RequestStatus


def unsent(request: Request, directory: Path) -> DAG:
    """Return a DAG that is planned and written, and not submitted."""
    round_ = make_round(request.workflow)
    make_group(round_)
    return make_dag(round_, status=DAGStatus.READY, submitted_at=None, submit_dir=str(directory))


def advanced(request: Request, times: int) -> Request:
    for _ in range(times):
        advance(request.pk)
    return Request.objects.get(pk=request.pk)


@pytest.mark.parametrize(("hold", "after"), [(False, S.QUEUED), (True, S.HELD)])
def test_a_dag_that_was_never_sent_is_stopped_at_once_and_resumed(
    tmp_path: Path, hold: bool, after: RequestStatus
) -> None:
    request = make_request(status=S.PLANNING)
    dag = unsent(request, tmp_path)
    stop_request(request=request, actor="user:olga", reason="maintenance", hold=hold)
    request = advanced(request, 2 if hold else 3)
    dag.refresh_from_db()
    assert (request.status, dag.status, dag.stop_reason) == (after, "stopped", "maintenance")
    if hold:
        request = release_request(request=request, actor="user:olga", reason="done", now=timezone.now())
    resume = DAG.objects.get(parent=dag)
    assert (request.status, resume.kind, resume.status) == (S.QUEUED, "resume", "ready")


def test_a_dag_made_after_the_stop_was_requested_is_stopped_too(tmp_path: Path) -> None:
    request = make_request(status=S.PLANNING)
    stop_request(request=request, actor="user:olga", reason="maintenance")
    dag = unsent(request, tmp_path)  # by the worker that was planning meanwhile
    advanced(request, 1)
    dag.refresh_from_db()
    assert (dag.status, dag.stop_reason) == ("stopped", "maintenance")


def test_a_round_that_ended_while_it_was_stopped_is_resolved(tmp_path: Path) -> None:
    request = make_request(status=S.STOPPING)
    round_ = make_round(request.workflow)
    make_group(round_, status=GroupStatus.COLLECTED)
    make_dag(round_, status=DAGStatus.COMPLETED, completed_at=ago(seconds=1))
    request = advanced(request, 2)
    round_.refresh_from_db()
    assert (request.status, round_.status) == (S.QUEUED, RoundStatus.RESOLVED)
    assert DAG.objects.count() == 1


def test_a_stop_before_the_next_round_resumes_nothing() -> None:
    request = make_request(status=S.PLANNING)
    old = make_round(request.workflow, status=RoundStatus.RESOLVED)
    make_dag(old, status=DAGStatus.PARTIAL, completed_at=ago(minutes=1))
    stop_request(request=request, actor="user:olga", reason="not now")
    request = advanced(request, 2)
    assert (request.status, DAG.objects.count()) == (S.QUEUED, 1)


def test_the_dag_of_an_aborted_request_ends_though_it_was_never_sent(tmp_path: Path) -> None:
    request = make_request(status=S.PLANNING)
    dag, lost = unsent(request, tmp_path), unsent(make_request(status=S.ABORTED), tmp_path / "gone")
    abort_request(request=request, actor="user:ana", reason="a mistake")
    remove_abandoned(now=timezone.now())
    dag.refresh_from_db()
    lost.refresh_from_db()
    assert (dag.status, lost.status) == ("stopped", "ready")


def on_schedd(name: str, *, status: RequestStatus = S.ACTIVE) -> Request:
    request = make_request(status=status)
    make_dag(make_round(request.workflow), schedd_name=name)
    return request


def report_silence() -> None:
    close_others(alert_silence(schedd_rows(), now=timezone.now()))


def test_silence_beyond_the_threshold_is_one_alert_per_request_until_it_ends() -> None:
    deaf, fine = on_schedd("deaf@pool"), on_schedd("fine@pool")
    Schedd.objects.create(name="deaf@pool", silent_since=ago(minutes=30))
    Schedd.objects.create(name="fine@pool")
    for _ in range(3):
        report_silence()
    alert = Alert.objects.get()
    deaf.refresh_from_db()
    assert (alert.request, alert.kind, deaf.status) == (deaf, "schedd_unreachable", S.ACTIVE)
    assert "deaf@pool" in alert.message
    assert not fine.alerts.exists()
    Schedd.objects.update(silent_since=None)
    report_silence()
    alert.refresh_from_db()
    assert alert.closed_at is not None


def test_a_short_silence_raises_no_alert(settings: Any) -> None:
    settings.SCHEDD_SILENT_ALERT_SEC = 600.0
    on_schedd("deaf@pool")
    Schedd.objects.create(name="deaf@pool", silent_since=ago(seconds=1))
    report_silence()
    assert not Alert.objects.exists()


def test_at_its_deadline_a_draining_schedd_is_emptied() -> None:
    leaving, staying = on_schedd("old@pool"), on_schedd("new@pool")
    stopping = on_schedd("old@pool", status=S.STOPPING)
    drained = Schedd.objects.create(
        name="old@pool", status="draining", reason="kernel update", drain_deadline=ago(minutes=-5)
    )
    stop_drained(schedd_rows(), now=timezone.now())
    leaving.refresh_from_db()
    assert leaving.status == S.ACTIVE  # not yet
    Schedd.objects.filter(pk=drained.pk).update(drain_deadline=ago(seconds=1))
    with bind(request_id="call-of-the-drain"):
        audit.record(actor="nadia", action="draining", target="old@pool", reason="kernel update")
    for _ in range(2):
        stop_drained(schedd_rows(), now=timezone.now())
    for row in (leaving, staying, stopping):
        row.refresh_from_db()
    assert (leaving.status, staying.status, stopping.status) == (S.STOPPING, S.ACTIVE, S.STOPPING)
    last = leaving.transitions.last()
    assert last is not None
    assert (last.actor, last.reason) == ("system:drain", "schedd drained: kernel update")
    assert last.call_id == "call-of-the-drain"


@pytest.mark.parametrize(("status", "hold"), [(S.QUEUED, False), (S.QUEUED, True), (S.HELD, False)])
def test_running_jobs_of_a_waiting_request_are_stopped(status: RequestStatus, hold: bool) -> None:
    request = on_schedd("one@pool", status=status)
    stop_request(request=request, actor="user:olga", reason="maintenance", hold=hold)
    assert (request.status, request.hold_after_stop) == (S.STOPPING, hold or status is S.HELD)
    assert DAG.objects.get().stop_reason == "maintenance"


def test_an_unrecorded_submission_counts_as_running(tmp_path: Path) -> None:
    request = make_request(status=S.HELD)
    unsent(request, tmp_path)
    with pytest.raises(Conflict, match="has no running jobs"):
        stop_request(request=request, actor="user:olga", reason="maintenance")
    DAG.objects.update(schedd_name="one@pool")
    stop_request(request=request, actor="user:olga", reason="maintenance")
    assert request.status == S.STOPPING


def test_a_prepared_dag_is_not_changed_while_its_request_is_held(tmp_path: Path) -> None:
    request = make_request(status=S.QUEUED)
    dag = unsent(request, tmp_path)
    stop_request(request=request, actor="user:olga", reason="not now")
    dag.refresh_from_db()
    assert (request.status, dag.status) == (S.HELD, DAGStatus.READY)


def test_a_request_stopped_while_held_is_held_again_with_its_first_reason() -> None:
    request = make_request(status=S.HELD, hold_evidence={"reason": "DBS answers 503"})
    dag = make_dag(make_round(request.workflow))
    stop_request(request=request, actor="user:olga", reason="maintenance")
    DAG.objects.filter(pk=dag.pk).update(status=DAGStatus.STOPPED, completed_at=timezone.now())
    request = advanced(request, 1)
    assert request.status == S.HELD
    assert request.hold_evidence is not None
    assert request.hold_evidence["stop_reason"] == "maintenance"
    assert request.hold_evidence["held_before"] == {"reason": "DBS answers 503"}


@pytest.mark.parametrize("status", [S.HELD, S.QUEUED])
def test_a_drain_empties_the_schedd_of_requests_that_wait(status: RequestStatus) -> None:
    request = on_schedd("old@pool", status=status)
    Schedd.objects.create(name="old@pool", status="draining", reason="update", drain_deadline=ago(seconds=1))
    stop_drained(schedd_rows(), now=timezone.now())
    request.refresh_from_db()
    assert request.status == S.STOPPING


def ended_before(request: Request, status: DAGStatus, **values: Any) -> DAG:
    """Return a DAG of ten groups that had all failed when the stop was requested."""
    round_ = make_round(request.workflow, **values)
    for _ in range(10):
        make_group(round_, status=GroupStatus.FAILED)
    return make_dag(round_, status=status, completed_at=ago(seconds=1), nodes_failed=10)


@pytest.mark.parametrize("status", [DAGStatus.PARTIAL, DAGStatus.FAILED])
def test_a_stop_after_the_end_is_no_way_around_the_judgement_of_failures(status: DAGStatus) -> None:
    request = make_request(status=S.ACTIVE)
    ended_before(request, status)
    stop_request(request=request, actor="user:olga", reason="maintenance")
    request = advanced(request, 1)
    assert request.status == S.PARTIAL
    request = advanced(request, 1)
    assert (request.status, DAG.objects.count()) == (S.HELD, 1)
    assert request.hold_evidence is not None
    assert request.hold_evidence["failure_ratio"] == 1.0


def test_a_stop_after_the_end_of_a_pilot_is_judged_as_the_pilot_is() -> None:
    request = make_request(status=S.PILOT_RUNNING)
    ended_before(request, DAGStatus.FAILED, kind=RoundKind.PILOT)
    stop_request(request=request, actor="user:olga", reason="maintenance")
    assert advanced(request, 1).status == S.PILOT_RUNNING


def test_a_stop_after_the_end_with_hold_holds_and_keeps_the_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    learnt: list[DAG] = []
    monkeypatch.setattr(recovering, "learn", lambda request, dag, now: learnt.append(dag))
    request = make_request(status=S.ACTIVE)
    dag = ended_before(request, DAGStatus.PARTIAL)
    stop_request(request=request, actor="user:olga", reason="maintenance", hold=True)
    request = advanced(request, 1)
    assert (request.status, learnt) == (S.HELD, [dag])
    assert "10 groups failed" in request.last_error


def test_a_dag_removed_before_the_stop_is_held() -> None:
    request = make_request(status=S.ACTIVE)
    ended_before(request, DAGStatus.REMOVED)
    stop_request(request=request, actor="user:olga", reason="maintenance")
    request = advanced(request, 1)
    assert (request.status, request.last_error) == (S.HELD, "the DAG was removed")
