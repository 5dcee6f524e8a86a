"""A DAG enters the queue exactly once, on a real schedd."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import htcondor2
import pytest
from django.utils import timezone

from condor.fake import FakeSchedd
from dags_app.adapters import schedd, use_adapters
from dags_app.models import DAG, Workflow
from dags_app.planning import names
from dags_app.planning.types import SitePool
from dags_app.services import placements, production, submission
from dags_app.states import DAGKind
from tests.stand_in import Overridden
from wms2_project.errors import PermanentError, ScheddUnreachable

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


def test_a_submission_that_reports_an_error_but_happened_is_adopted(dag: DAG) -> None:
    real = schedd()

    def submit_then_fail(dag_file: Path, batch_name: str, **options: Any) -> int:
        real.submit_dag(dag_file, batch_name, **options)
        raise ScheddUnreachable("the answer was lost")

    with use_adapters(schedd=Overridden(real, submit_dag=submit_then_fail)), pytest.raises(ScheddUnreachable):
        production.ensure_submitted(dag=dag, priority=0)
    adopted = production.ensure_submitted(dag=DAG.objects.get(pk=dag.pk), priority=0)
    assert clusters(dag.token) == {adopted.dagman_cluster_id}


def test_history_is_searched_back_to_the_intent_and_not_to_the_creation_of_the_row(
    dag: DAG, fake_schedd: FakeSchedd
) -> None:
    long_ago = timezone.now() - timedelta(days=7)  # a rescue may wait for its admission
    DAG.objects.filter(pk=dag.pk).update(created_at=long_ago)
    fake_schedd.silence("submit_dag", "find_dag")
    began = timezone.now().timestamp()
    with pytest.raises(ScheddUnreachable, match="submit_dag"):
        production.ensure_submitted(dag=dag, priority=0)
    with pytest.raises(ScheddUnreachable, match="it is unknown whether"):
        production.ensure_submitted(dag=DAG.objects.get(pk=dag.pk), priority=0)

    (search,) = fake_schedd.called("find_dag")
    assert began <= search["not_before"] <= timezone.now().timestamp()


def test_a_dag_placed_by_an_earlier_release_is_searched_back_to_its_creation(
    dag: DAG, fake_schedd: FakeSchedd
) -> None:
    DAG.objects.filter(pk=dag.pk).update(schedd_name=fake_schedd.name)
    fake_schedd.silence()
    with pytest.raises(ScheddUnreachable):
        production.ensure_submitted(dag=dag, priority=0)

    (search,) = fake_schedd.called("find_dag")
    assert search["not_before"] == dag.created_at.timestamp()


def test_no_answer_is_not_taken_for_absent(dag: DAG, fake_schedd: FakeSchedd) -> None:
    DAG.objects.filter(pk=dag.pk).update(schedd_name=fake_schedd.name)  # it may have been sent there
    fake_schedd.silence("find_dag")
    with pytest.raises(ScheddUnreachable):
        production.ensure_submitted(dag=dag, priority=0)
    assert fake_schedd.query_dags() == {}
    assert DAG.objects.get(pk=dag.pk).status == "ready"


def forget_submission(dag: DAG) -> DAG:
    """Put the row back to what it was before anything was sent, as a restored database has it."""
    DAG.objects.filter(pk=dag.pk).update(
        status="ready", schedd_name="", dagman_cluster_id=None, submitted_at=None
    )
    return DAG.objects.get(pk=dag.pk)


def test_a_dag_sent_before_the_database_was_restored_is_adopted(dag: DAG) -> None:
    sent = production.ensure_submitted(dag=dag, priority=0)
    adopted = production.ensure_submitted(dag=forget_submission(dag), priority=0)
    assert clusters(dag.token) == {sent.dagman_cluster_id} == {adopted.dagman_cluster_id}
    assert (adopted.schedd_name, adopted.events.latest("id").event_type) == (sent.schedd_name, "adopted")


def test_a_dag_missing_from_the_history_keeps_its_finished_groups(dag: DAG, fake_schedd: FakeSchedd) -> None:
    placements.write(dag, schedd_name=fake_schedd.name, now=timezone.now())
    (Path(dag.submit_dir) / "mg_000000" / "merge_output.json").write_text("{}")
    production.ensure_submitted(dag=dag, priority=0)
    assert fake_schedd.called("find_dag")
    rescue = Path(dag.submit_dir) / "workflow.dag.rescue001"
    assert "DONE mg_000000" in rescue.read_text()


def test_an_unreadable_record_of_the_schedd_submits_nothing(dag: DAG, fake_schedd: FakeSchedd) -> None:
    Path(dag.submit_dir, f"placed-{dag.pk}.json").write_text("{")
    with pytest.raises(PermanentError, match="unknown where"):
        production.ensure_submitted(dag=dag, priority=0)
    assert not fake_schedd.called("submit_dag")


def test_a_dag_prepared_again_after_a_restore_has_the_same_id(dag: DAG) -> None:
    DAG.objects.filter(pk=dag.pk).update(status="removed", completed_at=timezone.now())
    prepared = production.prepare_dag(parent=dag, kind=DAGKind.RESCUE)
    assert prepared.pk == names.next_dag_id(dag.pk)
