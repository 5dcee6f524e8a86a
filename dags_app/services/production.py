"""Production: plan a round, write its DAG, record it; prepare rescues; resolve rounds.

The directory is complete on disk before a row names it, and the row (with its token) exists before anything
is submitted: after a crash at any point, repeating leads to the same state.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.db.models import Max

from condor.dagfile import write_dag
from dags_app.models import DAG, DAGEvent, MergeGroup, Round, Workflow
from dags_app.planning import names
from dags_app.planning.coverage import Reading, cuts_by_events, read_plan
from dags_app.planning.estimates import events_to_generate
from dags_app.planning.layout import build_layout
from dags_app.planning.plan import NothingPlaceable, NothingToPlan, PlanRefused, RoundInput, decide_round
from dags_app.planning.types import EventBudget, Plan, SitePool
from dags_app.planning.yields import believed_efficiency
from dags_app.pull.ending import end_round_runners
from dags_app.services import ledger
from dags_app.services.configurations import pset_assets
from dags_app.services.estimating import (
    asked_spec,
    current_estimate,
    plan_spec,
    round_limit,
    round_yields,
    steered_spec,
)
from dags_app.services.input_files import check_input
from dags_app.services.landing_sites import usable_now
from dags_app.services.layout_spec import layout_spec
from dags_app.services.storage_places import jobs_ca_file
from dags_app.services.submission import ensure_submitted
from dags_app.services.user_sandboxes import user_sandbox_assets
from dags_app.states import LIVE_DAG, DAGKind, DAGStatus, GroupStatus, RoundKind, RoundStatus
from wms2_project.errors import InvalidInput, TransientError
from wms2_project.failpoints import failpoint

__all__ = ["NothingPlaceable", "NothingToPlan", "PlanRefused", "ensure_submitted"]
MAX_NAMED = 100


def newest_dag(*, workflow: Workflow) -> DAG | None:
    """Return the current DAG of the workflow: of its last round, the one without children.

    The creation time is not used first, because clocks of workers differ.
    """
    last = workflow.dags.filter(children__isnull=True).select_related("round")
    return last.order_by("-round__number", "-created_at", "-id").first()


def decide_plan(*, workflow: Workflow, sites: SitePool) -> Plan:
    """Plan the next round without writing anything."""
    estimate = current_estimate(workflow)
    given = RoundInput(
        spec=steered_spec(workflow, estimate),
        estimate=estimate,
        sites=sites,
        budget=event_budget(workflow) if workflow.generates else None,
        limit_groups=round_limit(workflow),
        max_jobs=settings.MAX_JOBS_PER_ROUND,
    )
    if workflow.generates:
        return decide_round(given)
    waiting: NothingPlaceable | None = None
    for files in ledger.files_to_plan(workflow=workflow, sites=sites):
        try:
            return decide_round(replace(given, files=files))
        except NothingToPlan:  # for example files without lumis: continue with the others
            continue
        except NothingPlaceable as refused:
            waiting = waiting or refused
    if waiting is not None:
        raise waiting
    raise NothingToPlan(f"{workflow.request_name} has nothing left to plan")


@contextmanager
def faults_refused() -> Iterator[None]:
    """Raise InvalidInput inside the block as PlanRefused, which holds the request: a retry would not help."""
    try:
        yield
    except InvalidInput as fault:
        raise PlanRefused(fault.message, cure=fault.cure) from fault


def prepare_input(*, workflow: Workflow, sites: SitePool) -> None:
    """Check that the input is unchanged, and narrow it to what the request wants."""
    if workflow.generates:
        return
    check_input(workflow=workflow)
    ledger.stop_early(workflow=workflow, spec=asked_spec(workflow), sites=sites)


def event_budget(workflow: Workflow) -> EventBudget:
    """Return what must still be generated, and the first event and lumi."""
    missing = (workflow.total_events or 0) - workflow.produced_events
    efficiency = believed_efficiency(round_yields(workflow), declared=workflow.filter_efficiency)
    return EventBudget(
        first_event=workflow.next_first_event,
        first_lumi=workflow.next_first_lumi,
        events=events_to_generate(wanted=missing, filter_efficiency=efficiency),
    )


def plan_round(*, workflow: Workflow, sites: SitePool, priority: int) -> DAG:
    """Plan the next production round, write its directory and record both."""
    with faults_refused():
        prepare_input(workflow=workflow, sites=sites)
        plan = decide_plan(workflow=workflow, sites=sites)
    kind = RoundKind.PRODUCTION
    return write_round(workflow=workflow, plan=plan, kind=kind, priority=priority, sites=sites)


def write_round(
    *, workflow: Workflow, plan: Plan, kind: RoundKind, priority: int, sites: SitePool | None = None
) -> DAG:
    """Write the directory, then the rows, so that a row never names an incomplete directory.

    `sites` are those the plan was made for; its landings follow what changes since. Raises PlanRefused if the
    payload cannot be run.
    """
    last = workflow.rounds.aggregate(last=Max("number"))["last"]
    number = 0 if last is None else last + 1
    dag_id = names.dag_id(str(workflow.pk), round_number=number)
    directory = Path(settings.SUBMIT_ROOT) / str(dag_id)
    spec = layout_spec(
        workflow=workflow,
        round_number=number,
        kind=kind,
        priority=priority,
        prefixes=sites.prefixes if sites is not None else {},
    )
    own = jobs_ca_file() if kind == RoundKind.PULL else ()
    further = (
        *own,
        *user_sandbox_assets(workflow=workflow),
        *pset_assets(workflow=workflow, payload=spec.payload),
    )
    spec = replace(spec, job_files=(*spec.job_files, *further))
    write_dag(build_layout(plan=plan, spec=plan_spec(workflow), layout=spec), directory)
    failpoint("plan.written")
    with transaction.atomic():
        round_ = _record_round(workflow, plan, number=number, kind=kind)
        dag = DAG(id=dag_id, submit_dir=str(directory), workflow=workflow, round=round_)
        dag.applied_sites = usable_now(dag=dag, sites=sites) if sites is not None else None
        return _record_dag(round_, plan, dag)


def _record_round(workflow: Workflow, plan: Plan, *, number: int, kind: RoundKind) -> Round:
    round_ = Round.objects.create(
        workflow=workflow,
        number=number,
        kind=kind,
        estimate=plan.estimate.as_json() | {"events_per_job": plan.events_per_job},
        jobs=plan.jobs,
        input_events=plan.events,
    )
    reading = read_plan(plan, by_events=cuts_by_events(workflow.splitting_algo))
    MergeGroup.objects.bulk_create(
        (
            MergeGroup(
                round=round_,
                index=group.index,
                jobs=len(group.jobs),
                input_events=group.events,
                estimated_output_kb=group.estimated_output_kb,
                parts=reading.parts.get(group.index, {}),
            )
            for group in plan.groups
        ),
        batch_size=5000,
    )
    if plan.next_first_event is not None:
        round_.first_event, round_.last_event = workflow.next_first_event, plan.next_first_event - 1
        workflow.next_first_event = plan.next_first_event
        workflow.next_first_lumi = plan.next_first_lumi or workflow.next_first_lumi
        workflow.save(update_fields=["next_first_event", "next_first_lumi", "updated_at"])
    else:
        round_.planned_files = _assign_files(round_, reading)
    round_.save()
    return round_


def _assign_files(round_: Round, reading: Reading) -> int:
    assigned = ledger.assign(round_=round_, spans=reading.spans, unfinished=reading.unfinished)
    if assigned != len(reading.spans):
        raise TransientError("the ledger changed while the round was planned", cure="Retried automatically")
    return assigned


def _record_dag(round_: Round, plan: Plan, dag: DAG) -> DAG:
    groups = len(plan.groups)
    dag.token = names.token(dag.pk)
    if round_.kind == RoundKind.PULL:
        dag.total_nodes = plan.jobs
        dag.node_counts = {"Processing": plan.jobs, "MergeGroup": groups}
    else:
        dag.total_nodes = plan.total_nodes
        dag.total_edges = 2 * plan.jobs + groups
        dag.node_counts = {
            "Processing": plan.jobs,
            "Landing": groups,
            "Merge": groups,
            "Cleanup": groups,
            "MergeGroup": groups,
        }
    dag.save(force_insert=True)
    DAGEvent.objects.create(dag=dag, event_type="planned", to_status=dag.status, detail={"groups": groups})
    return dag


def prepare_dag(*, parent: DAG, kind: DAGKind) -> DAG:
    """Create a further DAG of the same round and directory. DAGMan skips what is done."""
    with transaction.atomic():
        existing = parent.children.first()
        if existing is not None:
            return existing
        dag = DAG(
            id=names.next_dag_id(parent.pk),
            workflow=parent.workflow,
            round=parent.round,
            parent=parent,
            kind=kind,
            submit_dir=parent.submit_dir,
            total_nodes=parent.total_nodes,
            total_edges=parent.total_edges,
            node_counts=parent.node_counts,
        )
        dag.token = names.token(dag.pk)
        dag.save(force_insert=True)
        parent.round.groups.filter(status=GroupStatus.FAILED).update(status=GroupStatus.PLANNED)
        parent.round.groups.exclude(nodes_failed=0).update(nodes_failed=0)
        DAGEvent.objects.create(dag=dag, event_type="prepared", to_status=dag.status, detail={"kind": kind})
    return dag


def resolve_round(*, round_: Round, now: datetime, stopped: bool = False) -> None:
    """Close the round: collected groups are credited, the rest may be planned again.

    `stopped`: by a clean stop. Then files that runners held do not lose an attempt.
    """
    with transaction.atomic():
        if round_.kind == RoundKind.PULL:
            end_round_runners(round_=round_, stopped=stopped)
        _discard_uncollected(round_)
        ledger.give_back(round_=round_)
        Round.objects.filter(pk=round_.pk, status=RoundStatus.PLANNED).update(
            status=RoundStatus.RESOLVED, resolved_at=now
        )
        ledger.tally(workflow=round_.workflow)


def _discard_uncollected(round_: Round) -> None:
    """Fail groups whose outputs could not be collected, and record the names in the DAG's events."""
    lost = list(round_.groups.filter(status=GroupStatus.DONE).order_by("index"))
    if not lost:
        return
    for group in lost:
        group.status = GroupStatus.FAILED
        group.last_error = f"discarded: {group.last_error or 'its outputs were not collected'}"
    MergeGroup.objects.bulk_update(lost, ["status", "last_error"], batch_size=1000)
    named = [{"group": group.name, "merged_files": merged_lfns(group)} for group in lost[:MAX_NAMED]]
    dag = round_.dags.filter(children__isnull=True).latest("created_at")
    DAGEvent.objects.create(dag=dag, event_type="discarded", detail={"count": len(lost), "groups": named})


def merged_lfns(group: MergeGroup) -> list[str]:
    """Return the merged files of the group, one per output dataset, and its log file if it has one."""
    workflow = group.round.workflow
    kinds = dict.fromkeys(workflow.output_datasets, names.merged_lfn)
    if workflow.log_dataset:
        kinds[workflow.log_dataset] = names.log_lfn
    base, number, index = workflow.merged_lfn_base, group.round.number, group.index
    return [
        name(base, str(workflow.pk), round_number=number, group=index, dataset=dataset)
        for dataset, name in kinds.items()
    ]


def resumes(dag: DAG | None) -> bool:
    """Return whether the DAG was stopped in the middle of its round and can be resumed."""
    return dag is not None and dag.status == DAGStatus.STOPPED and dag.round.status == RoundStatus.PLANNED


def is_live(dag: DAG | None) -> bool:
    """Return whether the DAG is in, or about to be submitted to, a schedd."""
    return dag is not None and dag.status in LIVE_DAG
