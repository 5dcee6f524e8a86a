"""Single failing jobs on the real pool: retried, stopped, given more memory, removed, or fatal.

Every request generates a handful of events in one group; all of them run at once.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any
from uuid import uuid4

import htcondor2
import pytest

from dags_app.models import DAG, Round, Workflow
from lab.seed.documents import monte_carlo
from lab.toy.faults import draw
from sandbox.postrecord import PostRecord, read_record
from tests.e2e.conftest import Stack
from tests.waiting import until

Json = dict[str, Any]
NODE, OTHER = "proc_000000", "proc_000001"
SEED = 1  # at even chances it strikes three of the four nodes, and none so often that it is given up
SCENARIOS: dict[str, Json] = {
    "transient": {"toy": {"fail_exit_code": 60307, "fail_nodes": [NODE], "fail_attempts": 2}},
    "permanent": {"toy": {"fail_exit_code": 8001, "fail_nodes": [OTHER]}},
    "truncated": {"toy": {"fail_how": "truncated_report", "fail_nodes": [NODE], "fail_attempts": 1}},
    "silent": {"toy": {"fail_how": "no_report", "fail_nodes": [NODE], "fail_attempts": 1}},
    "full": {"toy": {"fail_how": "disk_full", "fail_nodes": [NODE], "fail_attempts": 1}},
    "chance": {"toy": {"fail_exit_code": 60307, "fail_probability": 0.5, "fail_seed": SEED}},
    "held": {"toy": {"fail_how": "held", "fail_nodes": [NODE], "fail_attempts": 1}},
    "person": {"toy": {"fail_how": "slow_start", "fail_delay_sec": 10, "fail_nodes": [NODE]}},
    "hog": {"toy": {"memory_mb": 105}},
    "ceiling": {"toy": {"fail_exit_code": 50660, "fail_nodes": [NODE]}},
    "broken": {"toy": {}},
}
CHANGES: dict[str, Json] = {
    "hog": {"Memory": 100, "adaptive": True, "RequestNumEvents": 120},
    "ceiling": {"Memory": 2900},
}


class Scenarios:
    """The requests by scenario, and what their jobs left on the submit host."""

    def __init__(self, stack: Stack, suffix: str) -> None:
        self.stack, self.suffix = stack, suffix
        self.names: dict[str, str] = {}
        for kind in SCENARIOS:
            if kind not in ("person", "broken"):
                self.submit(kind)

    def submit(self, kind: str) -> str:
        small = {"Urgent": True, "RequestNumEvents": 40, "EventsPerJob": 10, "EventsPerLumi": 10}
        document = monte_carlo(suffix=f"{kind}{self.suffix}") | small | {"FilterEfficiency": 1.0}
        document |= {"PayloadConfig": SCENARIOS[kind], **CHANGES.get(kind, {})}
        if kind == "broken":
            self.names[kind] = self._submit_broken(document)
        else:
            self.names[kind] = str(self.stack.post("requests", document)["request_name"])
        return self.names[kind]

    def _submit_broken(self, document: Json) -> str:
        """Break the configuration of an accepted request: a document with such a value would be refused."""
        name = str(self.stack.post("requests", document | {"draft": True})["request_name"])
        broken = {"kind": "toy", "toy": {"cpu_sec_per_event": "fast"}}
        Workflow.objects.filter(request_name=name).update(payload_config=broken)
        self.stack.post(f"requests/{name}/submit", {"reason": "its jobs must refuse it"}, expect=200)
        return name

    def wait(self, kind: str, status: str) -> Json:
        return self.stack.wait_for(self.names[kind], status)

    def dags(self, kind: str) -> list[DAG]:
        return list(DAG.objects.filter(workflow__request_name=self.names[kind]).order_by("created_at"))

    def records(self, kind: str, node: str, dag: int = 0) -> list[PostRecord]:
        """Return the records of POST for each attempt of a node of the first group."""
        group = Path(self.dags(kind)[dag].submit_dir) / "mg_000000"
        paths = sorted(group.glob(f"{node}.post.*.json"), key=lambda path: int(path.name.split(".")[2]))
        return [read_record(path) for path in paths]


@pytest.fixture(scope="module")
def ran(stack: Stack) -> Scenarios:
    return Scenarios(stack, uuid4().hex[:9])


def test_a_job_held_by_a_person_is_an_alert_until_it_is_released(ran: Scenarios) -> None:
    name = ran.submit("person")  # now: its job must not have run before
    token = until(lambda: [dag.token for dag in ran.dags("person")])[0]
    job = f'JobBatchName == "{token}" && DAGNodeName == "{NODE}"'
    schedd = htcondor2.Schedd()
    until(lambda: schedd.query(f"{job} && JobStatus == 2", ["ClusterId"]))
    schedd.act(htcondor2.JobAction.Hold, job, ("looking into it", 1))

    def held_alerts() -> list[Json]:
        return [one for one in ran.stack.get(f"requests/{name}")["alerts"] if one["kind"] == "jobs_held"]

    (alert,) = until(held_alerts)
    assert "looking into it" in alert["message"]
    assert "mg_000000" in alert["message"]

    schedd.act(htcondor2.JobAction.Release, job, "seen")
    until(lambda: not held_alerts())
    ran.wait("person", "completed")
    assert [one.category for one in ran.records("person", NODE)] == ["success"]


def test_a_transient_failure_heals_by_retry(ran: Scenarios) -> None:
    ran.wait("transient", "completed")

    records = ran.records("transient", NODE)
    assert [(one.category, one.final, one.step) for one in records] == [
        ("infrastructure", False, "stageOut1"),
        ("infrastructure", False, "stageOut1"),
        ("success", True, ""),
    ]
    assert [one.category for one in ran.records("transient", OTHER)] == ["success"]
    assert len(ran.dags("transient")) == 1


def test_a_permanent_failure_stops_after_one_attempt(ran: Scenarios) -> None:
    ran.wait("permanent", "held")

    (record,) = ran.records("permanent", OTHER)
    assert (record.exit_code, record.category, record.final, record.action) == (
        8001,
        "permanent",
        True,
        "permanent_failure",
    )
    assert [one.category for one in ran.records("permanent", NODE)] == ["success"]


def test_half_a_report_is_no_success_and_is_tried_again(ran: Scenarios) -> None:
    ran.wait("truncated", "completed")

    assert [(one.exit_code, one.category) for one in ran.records("truncated", NODE)] == [
        (99303, "infrastructure"),
        (0, "success"),
    ]


def test_a_missing_report_is_classified_by_the_log(ran: Scenarios) -> None:
    ran.wait("silent", "completed")

    first, second = ran.records("silent", NODE)
    assert (first.category, first.retryable, second.category) == ("infrastructure", True, "success")
    assert "report" in first.reason


def test_a_full_disk_is_the_machines_fault_and_is_tried_again(ran: Scenarios) -> None:
    ran.wait("full", "completed")

    first, second = ran.records("full", NODE)
    assert (first.category, first.retryable, second.category) == ("infrastructure", True, "success")


def test_random_faults_depend_on_the_seed_only(ran: Scenarios) -> None:
    ran.wait("chance", "completed")

    nodes = [f"proc_{number:06d}" for number in range(4)]
    expected = {node: next(n for n in range(9) if draw(SEED, node, n) >= 0.5) for node in nodes}
    assert sum(expected.values()) >= 2, "a seed that strikes nowhere shows nothing"
    assert {node: len(ran.records("chance", node)) - 1 for node in nodes} == expected


def test_a_held_job_becomes_a_classified_failure(ran: Scenarios) -> None:
    ran.wait("held", "completed")

    first, second = ran.records("held", NODE)
    assert (first.exit_code, first.category, first.retryable) == (99400, "infrastructure", True)
    assert "ransfer" in first.hold_reason
    assert second.category == "success"


def test_a_job_with_too_little_memory_succeeds_when_retried_and_the_next_round_requests_more(
    ran: Scenarios,
) -> None:
    ran.wait("hog", "completed")

    first, second = ran.records("hog", NODE)
    assert (first.exit_code, first.action, second.category) == (50660, "retry_more_memory", "success")
    assert 100 < second.memory_mb <= 150
    dags = ran.dags("hog")
    history = f'JobBatchName == "{dags[0].token}" && DAGNodeName == "{NODE}"'
    asked = [ad["RequestMemory"] for ad in htcondor2.Schedd().history(history, ["RequestMemory"])]
    assert sorted(asked) == [100, 150]
    before, after = Round.objects.filter(workflow__request_name=ran.names["hog"]).order_by("number")[:2]
    peak = max((group.metrics or {})["peak_rss_mb"] for group in before.groups.all())
    assert (before.estimate["memory_mb"], after.estimate["memory_mb"]) == (100, math.ceil(peak * 1.2))
    (later,) = ran.records("hog", NODE, dag=1)
    assert later.category == "success"


def test_memory_needs_above_the_ceiling_fail_with_a_reason(ran: Scenarios) -> None:
    ran.wait("ceiling", "held")

    first, last = ran.records("ceiling", NODE)
    assert (first.action, last.action) == ("retry_more_memory", "permanent_failure")
    assert "needs more than the ceiling of 3000 MB" in last.reason


def test_an_error_that_affects_every_node_aborts_the_dag_and_holds_with_the_proof(ran: Scenarios) -> None:
    ran.submit("broken")  # here, where the test has the database
    seen = ran.wait("broken", "held")

    (dag,) = ran.dags("broken")
    result = [record for node in (NODE, OTHER) for record in ran.records("broken", node) if record.proof]
    assert result
    assert all("cpu_sec_per_event" in one.proof and one.action == "abort_dag" for one in result)
    metrics = json.loads((Path(dag.submit_dir) / "mg_000000" / "group.dag.metrics").read_text())
    assert metrics["DagStatus"] == 3
    assert "cpu_sec_per_event" in seen["hold_evidence"]["proof"]
