"""Random sequences of calls, lost leases, stops and ends of rounds: no file is lost or processed twice."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.utils import timezone
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from dags_app.models import DAG, InputFile, Runner, Workflow
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
EXAMPLES = int(os.environ.get("WMS2_PULL_EXAMPLES", "200"))  # 1000 take a minute
PICK = st.integers(0, 5)


class PullMachine(RuleBasedStateMachine):
    """A pull workflow and its jobs. Calls of ended jobs are refused and change nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.example = transaction.atomic()
        self.example.__enter__()
        self.workflow: Workflow = make_pull_workflow(places=[[CERN], [CERN, FNAL]] * (FILES // 2))
        make_claim(self.workflow, self.workflow.output_datasets[0])
        self.request = make_request(workflow=self.workflow, status=RequestStatus.ACTIVE)
        self.runners: list[Any] = []
        self.records: dict[Any, dict[str, Any]] = {}
        self.processed: set[str] = set()

    def teardown(self) -> None:
        """Delete the rows of the example, so that the next one starts with empty tables."""
        transaction.set_rollback(True)
        self.example.__exit__(None, None, None)

    def runner(self, pick: int) -> Any:
        return self.runners[pick % len(self.runners)] if self.runners else None

    def call(self, function: Any, runner: Any, **values: Any) -> Any:
        try:
            with transaction.atomic():
                return function(workflow_id=self.workflow.pk, runner_id=runner, **values)
        except Wms2Error:
            return None

    @rule(site=st.sampled_from([CERN, FNAL]), node=PICK)
    def start(self, site: str, node: int) -> None:
        round_ = open_round(self.workflow)
        body = {
            "node": f"proc_{node:06d}", "attempt": 0, "instance": uuid4(), "htcondor_id": "1.0", "site": site,
            "slot": "", "seconds_left": 60,
        }  # fmt: skip
        try:
            started = starting.start_runner(
                workflow_id=self.workflow.pk, round_number=round_.number, group_index=0, body=body
            )
            self.runners.append(started.runner)
        except Wms2Error:
            return

    @rule(pick=PICK, count=st.integers(1, 3))
    def allocate(self, pick: int, count: int) -> None:
        if (runner := self.runner(pick)) is not None:
            self.call(lending.allocate, runner, count=count, call=uuid4())

    @rule(pick=PICK, take=st.integers(0, 3), again=st.booleans())
    def record(self, pick: int, take: int, again: bool) -> None:
        if (runner := self.runner(pick)) is None:
            return
        held = InputFile.objects.filter(runner_id=runner, state=FileState.ASSIGNED).order_by("id")
        body = {
            "exit_code": 0,
            "processed": list(held.values_list("lfn", flat=True))[:take],
            "outputs": [output("a.root")],
        }
        body = self.records.get(runner, body) if again else body
        if self.call(recording.record_outputs, runner, body=body) is not None:
            self.records[runner] = body

    @rule(pick=PICK, times=st.integers(1, 2))
    def confirm(self, pick: int, times: int) -> None:
        if (runner := self.runner(pick)) is not None:
            for _ in range(times):
                body = {"outputs": [{"name": "a.root", "site": CERN}]}
                self.call(recording.confirm_outputs, runner, body=body)

    @rule(pick=PICK)
    def abort(self, pick: int) -> None:
        if (runner := self.runner(pick)) is not None:
            self.call(
                recording.abort_runner, runner, body={"reason": "failed", "exit_code": 1, "removed": []}
            )

    @rule(pick=PICK)
    def end_of_lease(self, pick: int) -> None:
        if (runner := self.runner(pick)) is not None:
            Runner.objects.filter(pk=runner).update(heartbeat_at=ago(hours=1))
            expire_runners()

    @rule(stopped=st.booleans())
    def end_of_round(self, stopped: bool) -> None:
        resolve_round(round_=open_round(self.workflow), now=timezone.now(), stopped=stopped)
        DAG.objects.filter(workflow=self.workflow).update(
            status=DAGStatus.COMPLETED, completed_at=timezone.now()
        )
        round_ = make_round(self.workflow, kind=RoundKind.PULL)
        make_dag(round_)
        make_group(round_)

    @rule(status=st.sampled_from([RequestStatus.STOPPING, RequestStatus.HELD, RequestStatus.ACTIVE]))
    def change_status(self, status: RequestStatus) -> None:
        Request.objects.filter(pk=self.request.pk).update(status=status)

    @invariant()
    def no_file_is_lost_and_every_lent_one_has_a_live_runner_of_the_open_round(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(_STATE, [self.workflow.pk])
            files, astray, attempts, processed = cursor.fetchone()
        assert (files, astray) == (FILES, 0)
        assert attempts <= 6
        if len(processed) != len(self.processed):
            self.processed = set(processed)
            outputs = OutputFile.objects.filter(block__dataset__workflow=self.workflow)
            parents = Counter(lfn for rows in outputs.values_list("parents", flat=True) for lfn in rows)
            assert parents == dict.fromkeys(processed, 1)


# Files, those lent to no live runner of the open round, the most attempts, and the processed ones
_STATE = """
    SELECT count(*), count(*) FILTER (WHERE f.state = 'assigned'
               AND NOT coalesce(r.state IN ('running', 'recorded') AND o.status = 'planned', false)),
           max(f.attempts), coalesce(array_agg(f.lfn) FILTER (WHERE f.state = 'processed'), '{}')
      FROM dags_app_inputfile f
      LEFT JOIN dags_app_runner r ON r.id = f.runner_id
      LEFT JOIN dags_app_round o ON o.id = r.round_id
     WHERE f.workflow_id = %s"""


@pytest.mark.django_db
def test_random_histories_neither_lose_nor_double_a_file(sites: list[str], settings: Any) -> None:
    settings.CHECK_OUTPUTS = False
    run_state_machine_as_test(PullMachine, settings=_SETTINGS)


_SETTINGS = settings(
    max_examples=EXAMPLES,
    stateful_step_count=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
