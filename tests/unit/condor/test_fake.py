"""Controls of the schedd in memory for tests.

Its behaviour as a schedd is tested in tests/contract/condor.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from condor.dagfile import write_dag
from condor.fake import FakePool, FakeSchedd
from condor.types import Presence
from tests.unit.condor.factories import make_layout
from wms2_project.errors import ScheddUnreachable, ServiceRejected

NAME = "wms2-1"


def test_a_submission_whose_answer_is_lost_is_in_the_queue(tmp_path: Path) -> None:
    schedd, written = FakeSchedd(), write_dag(make_layout(groups=3), tmp_path / "dag")
    schedd.lose_submit_answer()
    with pytest.raises(ScheddUnreachable):
        schedd.submit_dag(written.dag_file, NAME)
    presence, ad = schedd.find_dag(NAME)
    assert ad is not None
    assert (presence, ad.nodes_total, ad.directory) == (Presence.FOUND, 3, str(tmp_path / "dag"))
    assert schedd.submit_dag(written.dag_file, "wms2-2") == ad.cluster_id + 1, "the next answer arrives"


def test_only_the_operations_named_are_silent() -> None:
    schedd = FakeSchedd()
    schedd.silence("limits")
    assert schedd.ping()
    with pytest.raises(ScheddUnreachable):
        schedd.limits()
    schedd.answer()
    assert [name for name, _ in schedd.calls] == ["ping", "limits"], "calls without an answer count"
    assert schedd.limits().scheduler_jobs_running == 0


def test_a_denied_batch_stays_as_it_is() -> None:
    schedd = FakeSchedd()
    schedd.add_dag(NAME)
    schedd.denied = {NAME}
    for act in (schedd.remove_dag, schedd.hold_dag, schedd.clear_batch):
        with pytest.raises(ServiceRejected, match="denies permission"):
            act(NAME, reason="a test")
    assert list(schedd.query_dags()) == [NAME]


def test_a_dag_missing_from_queue_and_history_is_absent() -> None:
    schedd = FakeSchedd()
    schedd.add_dag(NAME)
    schedd.finish_dag(NAME, exit_code=1)
    schedd.forget_dag(NAME)
    assert schedd.find_dag(NAME) == (Presence.ABSENT, None)


def test_the_clock_is_the_tests() -> None:
    schedd = FakeSchedd(now=lambda: 1_000_000.0)
    schedd.add_dag(NAME)
    ad = schedd.query_dags()[NAME]
    assert ad.submitted_at is not None
    assert ad.submitted_at.timestamp() == 1_000_000


def test_each_name_has_a_separate_schedd() -> None:
    pool = FakePool()
    pool["a@pool"].add_dag(NAME)
    assert (pool["a@pool"].name, pool["b@pool"].query_dags()) == ("a@pool", {})
