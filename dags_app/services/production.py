"""Production: plan a round, write its DAG, record it; prepare rescues; resolve rounds.

Order matters. The directory is complete on disk before a row names it, and the row (with its token)
exists before anything is submitted: a crash anywhere repeats into the same state.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.db.models import Max

from condor.dagfile import write_dag
from dags_app.models import DAG, DAGEvent, MergeGroup, Round, Workflow
from dags_app.planning import names
from dags_app.planning.estimates import events_to_generate
from dags_app.planning.layout import build_layout, file_groups
from dags_app.planning.plan import NothingToPlan, PlanRefused, RoundInput, decide_round
from dags_app.planning.types import EventBudget, Plan, SitePool
from dags_app.recovery import Failures
from dags_app.services import ledger
from dags_app.services.estimating import current_estimate, plan_spec, round_limit, steered_spec
from dags_app.services.layout_spec import layout_spec
from dags_app.services.submission import ensure_submitted
from dags_app.states import LIVE_DAG, DAGKind, GroupStatus, RoundKind, RoundStatus
from wms2_project.errors import TransientError

__all__ = ["NothingToPlan", "PlanRefused", "ensure_submitted"]


EARLY_STOPS = ("total_files", "total_lumis", "total_events")  # the request wants so much and no more


def newest_dag(*, workflow: Workflow) -> DAG | None:
    """The DAG that speaks for the workflow now."""
    return workflow.dags.select_related("round", "workflow").order_by("-created_at", "-id").first()


def decide_plan(*, workflow: Workflow, sites: SitePool) -> Plan:
    """The next round as a value; nothing is written."""
    estimate = current_estimate(workflow)
    return decide_round(
        RoundInput(
            spec=steered_spec(workflow, estimate),
            estimate=estimate,
            sites=sites,
            files=() if workflow.generates else ledger.files_to_plan(workflow=workflow, sites=sites),
            budget=event_budget(workflow) if workflow.generates else None,
            limit_groups=round_limit(workflow),
        )
    )


def event_budget(workflow: Workflow) -> EventBudget:
    """What must still be generated, and from which event and lumi on."""
    missing = (workflow.total_events or 0) - workflow.produced_events
    return EventBudget(
        first_event=workflow.next_first_event,
        first_lumi=workflow.next_first_lumi,
        events=events_to_generate(wanted=missing, filter_efficiency=workflow.filter_efficiency),
    )


def plan_round(*, workflow: Workflow, sites: SitePool, priority: int) -> DAG:
    """Decide the next production round, write its directory and record both."""
    plan = decide_plan(workflow=workflow, sites=sites)
    return write_round(workflow=workflow, plan=plan, kind=RoundKind.PRODUCTION, priority=priority)


def write_round(*, workflow: Workflow, plan: Plan, kind: RoundKind, priority: int) -> DAG:
    """Directory first, rows second: a row never names a directory that is not complete."""
    last = workflow.rounds.aggregate(last=Max("number"))["last"]
    number = 0 if last is None else last + 1
    dag_id = names.dag_id(str(workflow.pk), round_number=number)
    directory = Path(settings.SUBMIT_ROOT) / str(dag_id)
    spec = layout_spec(workflow=workflow, round_number=number, kind=kind, priority=priority)
    write_dag(build_layout(plan=plan, spec=plan_spec(workflow), layout=spec), directory)
    with transaction.atomic():
        round_ = _record_round(workflow, plan, number=number, kind=kind)
        return _record_dag(round_, plan, DAG(id=dag_id, submit_dir=str(directory)))


def _record_round(workflow: Workflow, plan: Plan, *, number: int, kind: RoundKind) -> Round:
    round_ = Round.objects.create(
        workflow=workflow,
        number=number,
        kind=kind,
        estimate=plan.estimate.as_json() | {"events_per_job": plan.events_per_job},
        jobs=plan.jobs,
        input_events=plan.events,
    )
    MergeGroup.objects.bulk_create(
        MergeGroup(
            round=round_,
            index=group.index,
            jobs=len(group.jobs),
            input_events=group.events,
            estimated_output_kb=group.estimated_output_kb,
        )
        for group in plan.groups
    )
    if plan.next_first_event is not None:
        round_.first_event, round_.last_event = workflow.next_first_event, plan.next_first_event - 1
        workflow.next_first_event = plan.next_first_event
        workflow.next_first_lumi = plan.next_first_lumi or workflow.next_first_lumi
        workflow.save(update_fields=["next_first_event", "next_first_lumi", "updated_at"])
    else:
        round_.planned_files = _assign_files(round_, plan)
    round_.save()
    return round_


def _assign_files(round_: Round, plan: Plan) -> int:
    """Give the planned files to their groups; what an early stop leaves over is excluded with its reason."""
    workflow, spans = round_.workflow, list(file_groups(plan))
    assigned = ledger.assign(round_=round_, spans=spans)
    if assigned != len(spans):
        raise TransientError("the ledger changed while the round was planned", cure="It is planned again")
    asked = [name for name in EARLY_STOPS if workflow.splitting_params.get(name)]
    if asked and round_.kind == RoundKind.PRODUCTION and not workflow.adaptive:
        ledger.exclude_rest(workflow=workflow, reason=f"beyond {', '.join(asked)}")
    return assigned


def _record_dag(round_: Round, plan: Plan, dag: DAG) -> DAG:
    groups = len(plan.groups)
    dag.workflow, dag.round, dag.token = round_.workflow, round_, names.token(dag.pk)
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
    """A further DAG of the same round and directory: DAGMan skips what its rescue file says is done."""
    with transaction.atomic():
        existing = parent.children.first()
        if existing is not None:
            return existing
        dag = DAG(
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
        DAGEvent.objects.create(dag=dag, event_type="prepared", to_status=dag.status, detail={"kind": kind})
    return dag


def resolve_round(*, round_: Round, now: datetime) -> None:
    """Close the round: what is collected is credited, the rest may be planned again."""
    with transaction.atomic():
        ledger.give_back(round_=round_)
        Round.objects.filter(pk=round_.pk, status=RoundStatus.PLANNED).update(
            status=RoundStatus.RESOLVED, resolved_at=now
        )


def failures_of(*, dag: DAG) -> Failures:
    """How the round stands after this DAG."""
    groups = list(dag.round.groups.only("index", "status"))
    failed = [group.name for group in groups if group.status != GroupStatus.COLLECTED]
    rescues = dag.round.dags.filter(kind=DAGKind.RESCUE).count()
    return Failures(groups=len(groups), failed=len(failed), rescues=rescues, names=tuple(failed))


def is_live(dag: DAG | None) -> bool:
    """Is there a DAG in, or on its way to, a schedd?"""
    return dag is not None and dag.status in LIVE_DAG
