"""Memory, wall time and disk are raised for the node that ran out of them, exactly, up to the ceiling."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox.postrecord import read_record
from tests.job_world import NODE, fail

if TYPE_CHECKING:
    from tests.job_world import World


def test_memory_is_raised_after_a_memory_failure_and_after_nothing_else(failed: World) -> None:
    asked = []
    for attempt, code in enumerate([60307, 50660, 60307, 50660, 50660]):
        answer = failed.post(NODE, fail(failed, code), retry=attempt, job_id=f"{attempt}.0", max_retries=9)
        memory = failed.record(NODE, attempt)["memory"]
        asked.append((memory["requested_mb"], memory["next_mb"], answer))

    assert asked == [
        (1000, None, 1),
        (1000, 1500, 1),
        (1500, None, 1),
        (1500, 2000, 1),
        (2000, None, 42),
    ]
    last = read_record(failed.group / f"{NODE}.post.4.json")
    assert (last.final, last.retryable, last.action) == (True, False, "permanent_failure")
    assert "needs more than the ceiling of 2000 MB" in last.reason
    assert last.limit == "needs more than the ceiling of 2000 MB"
    assert (failed.group / "raised.inc").read_text() == f"memory_{NODE} = 1500\nmemory_{NODE} = 2000\n"


def test_nodes_that_fail_together_do_not_lose_each_others_memory(failed: World) -> None:
    (failed.group / "raised.inc").write_text(f"memory_{NODE}1 = 9000\nnoise\nmemory_merge = 1100\n")
    failed.post(NODE, fail(failed, 50660))

    assert "memory_merge = 1100\n" in (failed.group / "raised.inc").read_text()
    assert failed.record(NODE)["memory"]["next_mb"] == 1500


def test_a_repeated_judgement_raises_no_further(failed: World) -> None:
    status = fail(failed, 50660)
    assert failed.post(NODE, status) == failed.post(NODE, status) == 1

    failed.post(NODE, fail(failed, 60307), retry=1, job_id="8.0")
    assert failed.record(NODE, 1)["memory"]["requested_mb"] == 1500


def test_a_last_attempt_that_ran_out_of_memory_leaves_more_to_the_rescue(failed: World) -> None:
    assert failed.post(NODE, fail(failed, 50660), retry=3, max_retries=3) == 1
    assert failed.record(NODE, 3)["final"] is True

    failed.post(NODE, fail(failed, 60307), retry=0, job_id="50.0")
    assert failed.record(NODE, 0)["memory"]["requested_mb"] == 1500


def test_a_dag_that_was_given_more_since_counts_from_there(failed: World) -> None:
    failed.post(NODE, fail(failed, 50660))
    path = failed.group / "group.dag"

    status = fail(failed, 50660)
    path.write_text(path.read_text().replace('MEM="1000"', 'MEM="1600"'))
    failed.post(NODE, status, retry=1, job_id="8.0")
    assert failed.record(NODE, 1)["memory"] == {"requested_mb": 1600, "next_mb": 2000, "ceiling_mb": 2000}


HELD = """\
001 (0{job}.000.000) 2026-11-16 10:00:00 Job executing on host: <127.0.0.1:1>
\tGLIDEIN_CMSSite = "T2_CH_CERN"
...
012 (0{job}.000.000) 2026-11-16 11:00:00 Job was held.
\t{reason}
\tCode {code} Subcode 0
...
"""
TIME = ("The job exceeded allowed job duration of 1+00:00:00", 46, "wall_time", [120, 200])
DISK = ("Disk usage of the job is over the limit", 21, "disk", [2000, 3000])


@pytest.mark.parametrize(("reason", "code", "resource", "raised"), [TIME, DISK])
def test_time_and_disk_are_doubled_after_exactly_that_kill(
    failed: World, reason: str, code: int, resource: str, raised: list[int]
) -> None:
    log = failed.group / "group.dag.nodes.log"
    answers = []
    for attempt in range(3):
        log.write_text(HELD.format(job=70 + attempt, reason=reason, code=code))
        again = [failed.post(NODE, -1002, retry=attempt, job_id=f"{70 + attempt}.0") for _ in range(2)]
        answers.append((*again, failed.record(NODE, attempt)["raised"]))

    assert answers == [(1, 1, {resource: raised[0]}), (1, 1, {resource: raised[1]}), (42, 42, {})]
    first = read_record(failed.group / f"{NODE}.post.0.json")
    assert (first.action, first.final) == (f"retry_more_{resource}", False)
    assert "needs more than the ceiling" in failed.record(NODE, 2)["classification"]["reason"]
    lines = (failed.group / "raised.inc").read_text().splitlines()
    assert lines == [f"{resource}_{NODE} = {amount}" for amount in raised for _ in range(2)]


def test_a_job_that_ends_at_its_own_time_limit_gets_no_more_time(failed: World) -> None:
    assert failed.post(NODE, fail(failed, 50664)) == 42
    assert failed.record(NODE)["raised"] == {}
