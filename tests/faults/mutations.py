"""Defects that lose, double or forget something, put back one at a time. Fault schedules must notice each.

Those here are of mechanisms of WMS2; `original_mutations` has those of the original design.
"""

# mypy: disable-error-code="assignment, attr-defined, method-assign, misc"
from __future__ import annotations

from typing import Any
from uuid import uuid4

from tests.faults import original_mutations
from tests.faults.mutation import COPIES, GENERATES, MUTATIONS, READS, always_rescue, edit, mutation, unlock

__all__ = ["MUTATIONS", "original_mutations"]


@mutation(("meanwhile", 1, 0.0, "before submit_dag"))
def no_lock_of_submission() -> None:
    """Two workers submit one DAG at the same time."""
    from dags_app.services import submission
    from requests_app.lifecycle import advance

    unlock(submission, "submit_lock")
    unlock(advance, "try_lock", value=True)


@mutation(("interrupt", 1, 0.0, "submit.sent"))
def decisions_are_overwritten() -> None:
    """A status is changed although a person has changed it since it was read."""
    from requests_app import transitions

    edit(transitions, "transition", "version=request.version, status=current", "")
    from requests_app.lifecycle import advance

    advance.transition = transitions.transition


@mutation(("stop", 2, 0.0, "active"))
def next_dag_does_not_wait() -> None:
    """A stopped request resumes while its DAG is still in the queue."""
    from dags_app.services import control

    control.remove_dag = lambda *, dag, reason, resumable=True: _end_row(dag)
    control.clear_queue = lambda *, dag, reason: 0


def _end_row(dag: Any) -> int:
    from django.utils import timezone

    from dags_app.models import DAG

    return DAG.objects.filter(pk=dag.pk).update(status="stopped", completed_at=timezone.now())


@mutation(("kill_dagman", 10, 0.0, "active"), changes={**READS, "files": 40}, seed=2)
def lock_file_of_killed_dagman() -> None:
    """The lock file of a killed DAGMan is left for the next one."""
    from dags_app.failures import repair

    always_rescue()
    repair.settle_killed = lambda directory, *, done: False


@mutation(("abort", 2, 0.0, "active"))
def abandoned_dags_stay() -> None:
    """DAGs of ended requests are not removed."""
    from requests_app.lifecycle import monitoring

    monitoring.remove_abandoned = lambda *, now: {}


@mutation(changes={**READS, "bad_site": True, "failing": 0.7})
def files_are_not_given_back() -> None:
    """Files of failed groups stay assigned to their round."""
    from dags_app.services import ledger

    ledger.give_back = lambda *, round_: None


@mutation()
def groups_are_not_credited() -> None:
    """Collected groups do not mark their files as processed."""
    from dags_app.services import ledger

    ledger.credit_group = lambda *, group: None


@mutation(changes={**GENERATES, "failing": 0.7})
def event_numbers_again() -> None:
    """The next round generates the events of the round before."""
    from dataclasses import replace

    from dags_app.services import production

    budget = production.event_budget
    production.event_budget = lambda workflow: replace(budget(workflow), first_event=1, first_lumi=1)


@mutation(("meanwhile", 1, 0.0, "collect.read"))
def group_recorded_twice() -> None:
    """A group that another worker has just recorded is credited again."""
    from outputs_app.services import recording
    from requests_app.lifecycle import advance

    unlock(advance, "try_lock", value=True)
    edit(recording, "record_group", "return False", "return ledger.credit_group(group=locked) or False")
    from outputs_app import services

    services.record_group = recording.record_group


@mutation(*(("lose_rule", number, 0.0, "") for number in (9, 10, 11, 12)), changes=COPIES)
def lost_rule_counts_as_done() -> None:
    """A rule that Rucio does not know any more counts as one whose copy is complete."""
    from cms.types import RuleState
    from outputs_app import steps

    check = steps._check_rule

    def _check_rule(rule: Any, now: Any) -> Any:
        return RuleState.OK if steps.rucio().rule(rule.rule_id) is None else check(rule, now)

    steps._check_rule = _check_rule


@mutation(changes=COPIES)
def source_is_released_first() -> None:
    """The source is released before the copy is complete."""
    from outputs_app import steps

    steps._copies_are_safe = lambda block, now: True


@mutation(*(("fail", number, 0.0, "active") for number in (6, 7, 8)), changes=COPIES)
def unrecorded_rules_stay() -> None:
    """A rule that was created and not recorded survives the invalidation of its block."""
    from outputs_app import steps

    steps._delete_rules = lambda block, kinds, now: None


@mutation(*(("fail", number, 0.0, "active") for number in (6, 7, 8)), changes=COPIES)
def invalid_datasets_stay_valid() -> None:
    """The outputs of a failed request stay in use in DBS."""
    from outputs_app import steps
    from outputs_app.pipeline import Step
    from outputs_app.states import BlockStatus

    steps.STEPS[Step.UNDO] = lambda block, now: BlockStatus.INVALIDATED


@mutation(("crash", 1, 0.0, "after POST dbs/DBSWriter"), changes=COPIES)
def dbs_registered_again() -> None:
    """A block that is in DBS already cannot be registered."""
    from cms.dbs import DbsClient
    from wms2_project.errors import ServiceRejected

    register = DbsClient.register_block

    def register_block(self: Any, record: Any) -> Any:
        if self.block(record.block_name) is not None:
            raise ServiceRejected("it is there already")
        return register(self, record)

    DbsClient.register_block = register_block


@mutation()
def datasets_are_not_announced() -> None:
    """Datasets of completed requests are not made VALID."""
    from requests_app.lifecycle import finishing

    finishing.outputs.announce_datasets = lambda **given: None


@mutation(("stop", 2, 0.0, "active"))
def moves_are_not_audited() -> None:
    """Decisions of people leave no audit row."""
    from wms2_project.access import audit

    audit.record_move = lambda **given: None


@mutation(("abort", 2, 0.0, "active"))
def transitions_without_history() -> None:
    """A status is changed without a row of its history."""
    from requests_app import transitions

    transitions._record = lambda request, **given: None


@mutation(("crash", 1, 0.0, "advance.decided"))
def leases_do_not_expire() -> None:
    """The work of a dead worker is not taken up again."""
    from wms2_project import leases

    source = leases.claim_due

    def claim_due(model: Any, *, statuses: Any, limit: int) -> Any:
        return source(model, statuses=statuses, limit=limit) if not _leased(model) else []

    from requests_app.lifecycle import due

    due.claim_due = claim_due


def _leased(model: Any) -> bool:
    return bool(model.objects.exclude(owner="").exists())


@mutation(("silence", 1, 300.0, "find_dag"), ("crash", 1, 0.0, "submit.sent"))
def unknown_means_absent() -> None:
    """A schedd that cannot say whether it has the DAG gets it again, under a new name."""
    from condor.types import Presence
    from dags_app.models import DAG
    from dags_app.services import submission

    find = submission._adopted

    def _adopted(dag: Any) -> Any:
        port = submission.schedd(dag.schedd_name)
        if dag.status == "ready" and dag.schedd_name and port.find_dag(dag.token)[0] is Presence.UNKNOWN:
            DAG.objects.filter(pk=dag.pk).update(token=f"wms2-{uuid4().hex}", schedd_name="")
        return find(dag)

    submission._adopted = _adopted


@mutation(changes={**GENERATES, "pilot": True})
def pilot_output_is_dropped() -> None:
    """The output of a pilot is measured and not kept."""
    from requests_app.lifecycle import handlers

    collect = handlers.collect
    handlers.collect = lambda dag, now: None if dag.round.kind == "pilot" else collect(dag, now)
