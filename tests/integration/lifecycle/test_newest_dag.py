"""Choice of the newest DAG of a workflow."""

from __future__ import annotations

import pytest

from dags_app.models import DAG
from dags_app.services.production import newest_dag, prepare_dag
from dags_app.states import DAGKind, DAGStatus, RoundStatus
from tests.integration.factories import ago, make_dag, make_round, make_workflow

pytestmark = pytest.mark.django_db


def ended(status: DAGStatus, *, round_status: RoundStatus = RoundStatus.PLANNED) -> DAG:
    round_ = make_round(make_workflow(), status=round_status)
    return make_dag(round_, status=status, completed_at=ago(seconds=1))


def made_by_a_clock_ahead(dag: DAG) -> None:
    DAG.objects.filter(pk=dag.pk).update(created_at=ago(seconds=-5))


def test_a_resume_is_the_newest_dag_though_its_parent_has_a_later_clock() -> None:
    parent = ended(DAGStatus.STOPPED)
    resume = prepare_dag(parent=parent, kind=DAGKind.RESUME)
    made_by_a_clock_ahead(parent)
    assert newest_dag(workflow=parent.workflow) == resume


def test_the_next_round_has_the_newest_dag_though_the_last_has_a_later_clock() -> None:
    last = ended(DAGStatus.COMPLETED, round_status=RoundStatus.RESOLVED)
    later = make_dag(make_round(last.workflow))
    made_by_a_clock_ahead(last)
    assert newest_dag(workflow=last.workflow) == later
