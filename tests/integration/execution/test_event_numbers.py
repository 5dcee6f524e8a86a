"""Event numbers beyond 32 bits: in the tables, in the manifests, and as the sandbox reads them."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from dags_app.models import DAG
from dags_app.planning.types import SitePool
from dags_app.services import production
from dags_app.states import DAGStatus
from lab.toy.payload import generated_events
from sandbox.manifest import read_jobs
from tests.integration.factories import make_workflow

pytestmark = pytest.mark.django_db
SITES = SitePool(names=frozenset({"T1_US_FNAL"}), by_storage={})


@pytest.mark.parametrize("start", [2**32 - 150, 2**40 + 7])
def test_rounds_beyond_the_end_of_event_numbers_make_every_event_once(
    start: int, settings: Any, tmp_path: Path
) -> None:
    settings.SUBMIT_ROOT, settings.FIRST_ROUND_GROUPS, settings.GROUPS_PER_ROUND = str(tmp_path), 1, 1
    settings.STORAGE_PREFIX = "/storage/{site}"
    workflow = make_workflow(
        input_dataset=None, total_events=400, splitting_algo="EventBased", adaptive=True, jobs_per_group=2,
        splitting_params={"events_per_job": 50, "events_per_lumi": 25}, next_first_event=start,
    )  # fmt: skip
    seen: Counter[tuple[int, int, int]] = Counter()
    ends = []
    for _ in range(3):
        dag = production.plan_round(workflow=workflow, sites=SITES, priority=0)
        for manifest in Path(dag.submit_dir).glob("mg_*/jobs.json"):
            for job in read_jobs(manifest).jobs.values():
                assert job.generate is not None
                seen.update(event[:3] for event in generated_events(job.generate))
        DAG.objects.filter(pk=dag.pk).update(status=DAGStatus.COMPLETED, completed_at=timezone.now())
        production.resolve_round(round_=dag.round, now=timezone.now())
        dag.round.refresh_from_db()
        ends.append((dag.round.first_event, dag.round.last_event))
    assert (len(seen), seen.total()) == (300, 300)
    assert all(event < 2**32 for _, _, event in seen)
    assert all(before[1] < after[0] <= after[1] for before, after in pairwise(ends))
    workflow.refresh_from_db()
    assert workflow.next_first_event > 2**32
