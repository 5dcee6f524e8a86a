"""Maintenance of a schedd with running work, and a schedd that stops answering: nothing is lost or repeated.

All requests on that schedd are stopped, so this runs when no other test does.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from dags_app.models import DAG, MergeGroup
from tests.e2e.conftest import Stack
from tests.e2e.steering import assert_every_event_once, groups, newest, open_alerts, slow
from tests.pool import clusters, queued, schedd_names, schedd_pid
from tests.waiting import until


@pytest.fixture
def moved(stack: Stack) -> Iterator[None]:
    """Send new DAGs to the spare schedd; restore the settings afterwards."""
    first, spare = schedd_names()
    stack.post(f"schedds/{spare}/enable", {"reason": "the test moves work"}, expect=200)
    yield
    stack.post(f"schedds/{first}/enable", {"reason": "the test is over"}, expect=200)
    stack.post(f"schedds/{spare}/drain", {"reason": "the lab's spare"}, expect=200)


def assert_silence_is_only_an_alert(stack: Stack, name: str) -> None:
    """Freeze the spare schedd for longer than the threshold; check that only an alert opens."""
    frozen = schedd_pid(spare=True)
    until(lambda: newest(name).status == "running", why="the resumed DAG does not run")
    before = newest(name)
    os.kill(frozen, signal.SIGSTOP)
    try:
        until(lambda: open_alerts(name) == ["schedd_unreachable"], why="no alert was raised")
        seen = stack.get(f"requests/{name}")
        row = next(one for one in stack.get("schedds")["results"] if one["name"] == before.schedd_name)
        assert (seen["status"], newest(name).status) == ("active", before.status)
        assert row["silent_since"]
    finally:
        os.kill(frozen, signal.SIGCONT)
    until(lambda: not open_alerts(name), why="the alert stays")


@pytest.mark.usefixtures("moved")
def test_a_stop_in_mid_round_empties_the_queue_and_resumes_on_another_schedd(
    stack: Stack, suffix: str
) -> None:
    first, spare = schedd_names()
    stack.post(f"schedds/{spare}/drain", {"reason": "not yet"}, expect=200)
    name = stack.post("requests", slow(stack.seed(suffix)[2]))["request_name"]
    stack.wait_for(name, "active")
    until(lambda: groups(name)["collected"], why="no group finished")
    before = newest(name)
    assert before.schedd_name == first
    stack.post(f"schedds/{spare}/enable", {"reason": "take over"}, expect=200)
    stack.post(f"schedds/{first}/drain", {"reason": "kernel update", "deadline_minutes": 0}, expect=200)

    stack.wait_for(name, "stopping", "resubmitting", "queued", "planning")
    until(lambda: not queued(before.token), why="jobs are still in the queue")
    stack.wait_for(name, "active", "completed")
    assert_silence_is_only_an_alert(stack, name)
    done = stack.wait_for(name, "completed")

    statuses = [row["to_status"] for row in stack.status_changes(name)]
    assert statuses[3:] == ["active", "stopping", "resubmitting", "queued", "planning", "active", "completed"]
    old, new = DAG.objects.filter(workflow__request_name=name).order_by("created_at")
    assert (old.status, new.kind, new.parent_id, new.schedd_name) == ("stopped", "resume", old.pk, spare)
    assert old.rescue_dag_path
    assert len(clusters(new.token)) == 1
    credited = MergeGroup.objects.filter(round__workflow__request_name=name, dag=old).count()
    assert 0 < credited < groups(name)["collected"]
    assert done["progress"]["events_done"] == done["progress"]["events_total"]
    assert_every_event_once(stack, name)
