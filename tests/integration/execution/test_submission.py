"""A DAG enters the queue exactly once, on a real schedd."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import htcondor2
import pytest
from django.utils import timezone

from condor.types import Presence
from dags_app.adapters import schedd
from dags_app.models import DAG, Workflow
from dags_app.planning.types import SitePool
from dags_app.services import production, submission
from wms2_project.errors import ScheddUnreachable

pytestmark = pytest.mark.django_db


@pytest.fixture
def dag(workflow: Workflow, sites: SitePool) -> Iterator[DAG]:
    made = production.plan_round(workflow=workflow, sites=sites, priority=0)
    yield made
    schedd().remove_dag(made.token, reason="the test is over")


def clusters(token: str) -> set[int]:
    outer = f'JobBatchName == "{token}" && DAGManJobId is undefined && JobUniverse == 7'
    ads = [*htcondor2.Schedd().query(outer, ["ClusterId"]), *htcondor2.Schedd().history(outer, ["ClusterId"])]
    return {int(ad["ClusterId"]) for ad in ads}


def test_submitting_twice_submits_once(dag: DAG) -> None:
    first = production.ensure_submitted(dag=dag, priority=0)
    again = production.ensure_submitted(dag=DAG.objects.get(pk=dag.pk), priority=0)
    assert first.dagman_cluster_id == again.dagman_cluster_id
    assert clusters(dag.token) == {first.dagman_cluster_id}


def test_a_crash_between_submission_and_record_is_adopted(dag: DAG, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(submission, "_record_submission", crash)
        with pytest.raises(KeyboardInterrupt):
            production.ensure_submitted(dag=dag, priority=0)
    assert DAG.objects.get(pk=dag.pk).status == "ready"
    adopted = production.ensure_submitted(dag=DAG.objects.get(pk=dag.pk), priority=0)
    assert clusters(dag.token) == {adopted.dagman_cluster_id}
    assert adopted.events.latest("id").event_type == "adopted"


def test_a_submission_that_reports_an_error_but_happened_is_adopted(
    dag: DAG, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = schedd()

    def submit_then_fail(dag_file: Path, batch_name: str, *, priority: int = 0) -> int:
        type(real).submit_dag(real, dag_file, batch_name, priority=priority)
        raise ScheddUnreachable("the answer was lost")

    with monkeypatch.context() as broken:
        broken.setattr(real, "submit_dag", submit_then_fail)
        with pytest.raises(ScheddUnreachable):
            production.ensure_submitted(dag=dag, priority=0)
    adopted = production.ensure_submitted(dag=DAG.objects.get(pk=dag.pk), priority=0)
    assert clusters(dag.token) == {adopted.dagman_cluster_id}


def test_history_is_searched_back_to_the_intent_and_not_to_the_creation_of_the_row(
    dag: DAG, monkeypatch: pytest.MonkeyPatch
) -> None:
    long_ago = timezone.now() - timedelta(days=7)  # a rescue may wait for its admission
    DAG.objects.filter(pk=dag.pk).update(created_at=long_ago)
    searched: list[float] = []

    def submit_nothing(*args: Any, **kwargs: Any) -> int:
        raise ScheddUnreachable("no answer")

    def find_nothing(token: str, *, not_before: float) -> tuple[Presence, None]:
        searched.append(not_before)
        return Presence.UNKNOWN, None

    began = timezone.now().timestamp()
    with monkeypatch.context() as broken:
        broken.setattr(schedd(), "submit_dag", submit_nothing)
        with pytest.raises(ScheddUnreachable, match="no answer"):
            production.ensure_submitted(dag=dag, priority=0)
        broken.setattr(schedd(), "find_dag", find_nothing)
        with pytest.raises(ScheddUnreachable, match="cannot tell"):
            production.ensure_submitted(dag=DAG.objects.get(pk=dag.pk), priority=0)

    assert len(searched) == 1
    assert began <= searched[0] <= timezone.now().timestamp()


def test_a_dag_placed_by_an_earlier_release_is_searched_back_to_its_creation(
    dag: DAG, monkeypatch: pytest.MonkeyPatch
) -> None:
    DAG.objects.filter(pk=dag.pk).update(schedd_name=schedd().name)
    searched: list[float] = []

    def find_nothing(token: str, *, not_before: float) -> tuple[Presence, None]:
        searched.append(not_before)
        return Presence.UNKNOWN, None

    monkeypatch.setattr(schedd(), "find_dag", find_nothing)
    with pytest.raises(ScheddUnreachable):
        production.ensure_submitted(dag=dag, priority=0)

    assert searched == [dag.created_at.timestamp()]


def test_no_answer_is_not_taken_for_absent(dag: DAG, monkeypatch: pytest.MonkeyPatch) -> None:
    DAG.objects.filter(pk=dag.pk).update(schedd_name=schedd().name)  # it may have been sent there
    monkeypatch.setattr(schedd(), "find_dag", lambda token, **how: (Presence.UNKNOWN, None))
    with pytest.raises(ScheddUnreachable):
        production.ensure_submitted(dag=dag, priority=0)
    assert clusters(dag.token) == set()
    assert DAG.objects.get(pk=dag.pk).status == "ready"
