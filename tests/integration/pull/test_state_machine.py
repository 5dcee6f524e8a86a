"""Random sequences of calls, lost leases, stops and ends of rounds: no file is lost or processed twice."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.utils import timezone
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from dags_app.models import DAG, InputFile, Runner, Workflow
from dags_app.pull import allocation
from dags_app.pull.ending import expire_runners
from dags_app.services.production import resolve_round
from dags_app.states import DAGStatus, FileState, RoundKind
from outputs_app.models import OutputFile
from requests_app.models import Request
from requests_app.services.runners import lending, recording, starting
from requests_app.states import RequestStatus
from tests.integration.factories import ago, make_claim, make_dag, make_group, make_request, make_round
from tests.integration.pull.factories import CERN, FNAL, make_pull_workflow, open_round
from tests.integration.pull.jobs import output
from wms2_project.errors import Wms2Error

FILES = 4
EXAMPLES = 1000
NODE = st.integers(0, 2)
PICK = st.integers(0, 5)  # mostly one that lives
STATUS = st.sampled_from([RequestStatus.ACTIVE] * 3 + [RequestStatus.HELD, RequestStatus.STOPPING])
SITE = st.sampled_from([CERN, FNAL])


def has_runners(machine: PullMachine) -> bool:
    return bool(machine.runners)


class PullMachine(RuleBasedStateMachine):
    """A pull workflow and its jobs. Calls of ended jobs are refused and change nothing."""

    workflow: ClassVar[Workflow]  # the same for all examples: to make its rows takes longer than an example
    answered: ClassVar[Counter[str]]  # calls that were not refused, of all examples

    def __init__(self) -> None:
        super().__init__()
        allocation._first_fresh.clear()
        self.example = transaction.atomic()
        self.example.__enter__()
        self.round = open_round(self.workflow)
        self.runners: list[Any] = []
        self.live: list[Any] = []
        self.records: dict[Any, dict[str, Any]] = {}
        self.processed: set[str] = set()

    def teardown(self) -> None:
        """Undo the example, so that the next one starts with the same rows."""
        transaction.set_rollback(True)
        self.example.__exit__(None, None, None)

    def runner(self, pick: int) -> Any:
        among = self.live if self.live and pick else self.runners
        return among[pick % len(among)]

    def call(self, function: Any, runner: Any, **values: Any) -> Any:
        try:
            with transaction.atomic():
                answer = function(workflow_id=self.workflow.pk, runner_id=runner, **values)
        except Wms2Error:
            return None
        self.answered[function.__name__] += 1
        return answer

    @initialize(sites=st.lists(SITE, min_size=1, max_size=3))
    def start_some(self, sites: list[str]) -> None:
        for node, site in enumerate(sites):
            self.start_at(site, node)

    @rule(site=SITE, node=NODE)
    def start(self, site: str, node: int) -> None:
        self.start_at(site, node)

    def start_at(self, site: str, node: int) -> None:
        body = {
            "node": f"proc_{node:06d}", "attempt": 0, "instance": uuid4(), "htcondor_id": "1.0", "site": site,
            "slot": "", "seconds_left": 60,
        }  # fmt: skip
        try:
            started = starting.start_runner(
                workflow_id=self.workflow.pk, round_number=self.round.number, group_index=0, body=body
            )
            self.runners.append(started.runner)
            self.live.append(started.runner)
        except Wms2Error:
            return

    @precondition(has_runners)
    @rule(pick=PICK, count=st.integers(1, 3))
    def allocate(self, pick: int, count: int) -> None:
        self.call(lending.allocate, self.runner(pick), count=count, call=uuid4())

    @precondition(has_runners)
    @rule(pick=PICK, take=st.integers(0, 3), again=st.booleans())
    def record(self, pick: int, take: int, again: bool) -> None:
        runner = self.runner(pick)
        self.record_files(runner, take, body=self.records.get(runner) if again else None)

    def record_files(self, runner: Any, take: int, body: dict[str, Any] | None = None) -> None:
        held = InputFile.objects.filter(runner_id=runner, state=FileState.ASSIGNED).order_by("id")
        body = body or {
            "exit_code": 0,
            "processed": list(held.values_list("lfn", flat=True)[:take]),
            "outputs": [output("a.root")],
        }
        if self.call(recording.record_outputs, runner, body=body) is not None:
            self.records[runner] = body

    @precondition(has_runners)
    @rule(pick=PICK, how=st.sampled_from(["work", "work", "confirm", "confirm again", "abort", "silence"]))
    def end_job(self, pick: int, how: str) -> None:
        runner = self.runner(pick)
        if how == "work":
            self.call(lending.allocate, runner, count=2, call=uuid4())
            self.record_files(runner, 2)
        if how == "abort":
            body: dict[str, Any] = {"reason": "failed", "exit_code": 1, "removed": []}
            ended = self.call(recording.abort_runner, runner, body=body) is not None
        elif how == "silence":
            Runner.objects.filter(pk=runner).update(heartbeat_at=ago(hours=1))
            ended = runner in {lost.pk for lost in expire_runners()}
        else:
            body = {"outputs": [{"name": "a.root", "site": CERN}]}
            ended = self.call(recording.confirm_outputs, runner, body=body) is not None
            if how == "confirm again":
                assert (self.call(recording.confirm_outputs, runner, body=body) is not None) == ended
        if ended and runner in self.live:
            self.live.remove(runner)

    @rule(stopped=st.booleans())
    def end_of_round(self, stopped: bool) -> None:
        resolve_round(round_=self.round, now=timezone.now(), stopped=stopped)
        DAG.objects.filter(workflow=self.workflow).update(
            status=DAGStatus.COMPLETED, completed_at=timezone.now()
        )
        self.live = []
        self.round = make_round(self.workflow, kind=RoundKind.PULL)
        make_dag(self.round)
        make_group(self.round)

    @rule(status=STATUS)
    def change_status(self, status: RequestStatus) -> None:
        Request.objects.filter(workflow=self.workflow).update(status=status)

    @invariant()
    def no_file_is_lost_and_every_lent_one_has_a_live_runner_of_the_open_round(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(_STATE, {"workflow": self.workflow.pk})
            files, astray, attempts, processed, parents = cursor.fetchone()
        assert (files, astray, parents) == (FILES, 0, len(processed))
        assert attempts <= 6
        if len(processed) != len(self.processed):
            self.processed = set(processed)
            outputs = OutputFile.objects.filter(block__dataset__workflow=self.workflow)
            named = Counter(lfn for rows in outputs.values_list("parents", flat=True) for lfn in rows)
            assert named == dict.fromkeys(processed, 1)


# Files, those lent to no live runner of the open round, the most attempts, the processed ones, and how often
# outputs name a parent
_STATE = """
    SELECT count(*), count(*) FILTER (WHERE f.state = 'assigned'
               AND NOT coalesce(r.state IN ('running', 'recorded') AND o.status = 'planned', false)),
           max(f.attempts), coalesce(array_agg(f.lfn) FILTER (WHERE f.state = 'processed'), '{}'),
           (SELECT coalesce(sum(jsonb_array_length(p.parents)), 0)
              FROM outputs_app_outputfile p JOIN outputs_app_outputblock b ON b.id = p.block_id
              JOIN outputs_app_outputdataset d ON d.id = b.dataset_id WHERE d.workflow_id = %(workflow)s)
      FROM dags_app_inputfile f
      LEFT JOIN dags_app_runner r ON r.id = f.runner_id
      LEFT JOIN dags_app_round o ON o.id = r.round_id
     WHERE f.workflow_id = %(workflow)s"""


@pytest.mark.django_db
def test_random_histories_neither_lose_nor_double_a_file(sites: list[str], settings: Any) -> None:
    settings.CHECK_OUTPUTS = False
    PullMachine.workflow = make_pull_workflow(places=[[CERN], [CERN, FNAL]] * (FILES // 2))
    make_claim(PullMachine.workflow, PullMachine.workflow.output_datasets[0])
    make_request(workflow=PullMachine.workflow, status=RequestStatus.ACTIVE)
    PullMachine.answered = Counter()
    run_state_machine_as_test(PullMachine, settings=_SETTINGS)
    calls = [lending.allocate, recording.record_outputs, recording.confirm_outputs, recording.abort_runner]
    assert min(PullMachine.answered[call.__name__] for call in calls) >= EXAMPLES // 100, PullMachine.answered


_SETTINGS = settings(
    max_examples=EXAMPLES,
    stateful_step_count=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
