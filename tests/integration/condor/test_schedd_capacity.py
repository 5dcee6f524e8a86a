"""A schedd that runs twelve DAGMans at a time gets more DAGs than fit; every group still runs to its end."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from condor.schedd import MAX_GROUPS, Schedd
from dags_app.models import DAG
from dags_app.services.monitoring import observe_dags
from dags_app.services.schedds import COUNT_SEC
from dags_app.services.submission import ensure_submitted
from dags_app.states import DAGStatus
from lab.services.condor import SPARE_DAGMANS
from tests.integration.factories import make_dag, make_round, make_workflow
from tests.pool import schedd_names
from tests.pool_dags import Bench
from wms2_project.errors import TransientError

DAGS, GROUPS = SPARE_DAGMANS // 2 + 1, 2

pytestmark = pytest.mark.django_db


@pytest.fixture
def bench(tmp_path: Path, pool_sites: tuple[str, ...], settings: Any) -> Iterator[Bench]:
    """Yield a bench of the pool's second schedd, which allows few DAGMans."""
    name = schedd_names()[1]
    settings.SCHEDDS = [name]
    port = Schedd(name)
    made = Bench(port, tmp_path, pool_sites)
    yield made
    made.clear()
    port.close()


def ready_dag(bench: Bench, behaviour: Mapping[str, str] | None = None) -> DAG:
    """Return a DAG that is written and not submitted."""
    written = bench.write(bench.layout(behaviour, groups=GROUPS))
    return make_dag(
        make_round(make_workflow()),
        status=DAGStatus.READY,
        token=bench.new_name(),
        submit_dir=str(written.dag_file.parent),
        schedd_name="",
        submitted_at=None,
    )


def submit(dag: DAG) -> str:
    """Submit the DAG; return why it was refused, '' if it was not."""
    try:
        ensure_submitted(dag=dag, priority=1_000_000)
    except TransientError as error:
        return str(error)
    return ""


def test_outer_dagmans_never_take_the_slots_of_their_groups(bench: Bench) -> None:
    waiting, refusals = [ready_dag(bench) for _ in range(DAGS)], []
    most_outer = most = 0
    ends = time.monotonic() + 900
    while waiting or bench.schedd.query_dags(bench.submitted):
        assert time.monotonic() < ends, f"{len(waiting)} DAGs were never submitted"
        refused = [(dag, why) for dag in waiting if (why := submit(dag))]
        waiting, refusals = [dag for dag, _ in refused], [*refusals, *(why for _, why in refused)]
        observe_dags(now=timezone.now())
        seen = bench.schedd.query_dags(bench.submitted).values()
        most_outer = max(most_outer, len(seen))
        most = max(most, len(seen) + sum(ad.groups_running for ad in seen))
        time.sleep(0.3)
    assert refusals, "the last DAG must wait until another has ended"
    assert "no free scheduler slots for a DAG and one of its groups" in refusals[0]
    assert most_outer <= SPARE_DAGMANS // 2
    assert most <= SPARE_DAGMANS
    assert [bench.finish(name).succeeded for name in bench.submitted] == [True] * DAGS


def test_a_dag_alone_gets_more_groups_when_others_have_ended(bench: Bench) -> None:
    first, second = (ready_dag(bench, {"proc_000001": "sleep"}) for _ in range(2))
    assert not submit(first)
    assert not submit(second)

    def limits(dag: DAG) -> list[int]:
        """Return the limit of the outer DAGMan when it has started."""
        ads = bench.jobs(dag.token, MAX_GROUPS, "DAGManJobId")
        return [int(ad[MAX_GROUPS]) for ad in ads if MAX_GROUPS in ad and "DAGManJobId" not in ad]

    def share() -> bool:
        observe_dags(now=timezone.now() + timedelta(seconds=COUNT_SEC))
        return limits(first) == limits(second) == [(SPARE_DAGMANS - 2) // 2]

    bench.wait(share)
    bench.schedd.remove_dag(first.token, reason="the test continues without it")
    bench.wait(lambda: bench.gone(first.token))

    def alone() -> bool:
        observe_dags(now=timezone.now() + timedelta(seconds=COUNT_SEC))
        return limits(second) == [SPARE_DAGMANS - 1]

    bench.wait(alone)
