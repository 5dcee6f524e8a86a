"""Current estimate of a workflow: its plan spec with steered job sizes, and the cost of an event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.db.models import Sum

from dags_app.models import MergeGroup, Round, Workflow
from dags_app.planning.early_stop import without_early_stop
from dags_app.planning.estimates import (
    Measurement,
    Windows,
    decide_windows,
    estimate_from_pilot,
    estimate_from_rounds,
    steer_events_per_job,
)
from dags_app.planning.payloads import passes_events
from dags_app.planning.splitters import SPLITTERS
from dags_app.planning.types import Estimate, PlanSpec
from dags_app.planning.yields import RoundYield
from dags_app.services.decisions import decided_numbers
from dags_app.services.payloads import payload_rules
from dags_app.states import GroupStatus, RoundKind, SplittingAlgo

_DECIDABLE = ("memory_mb", "time_per_event_sec")


def plan_spec(workflow: Workflow) -> PlanSpec:
    """Return the workflow's spec before any measurement; its early stop has narrowed the ledger."""
    return without_early_stop(asked_spec(workflow))


def asked_spec(workflow: Workflow) -> PlanSpec:
    """Return the workflow's spec as requested."""
    return PlanSpec(
        workflow_id=str(workflow.pk),
        request_name=workflow.request_name,
        algo=SplittingAlgo(workflow.splitting_algo),
        params=workflow.splitting_params,
        gpus=workflow.gpus,
        jobs_per_group=workflow.jobs_per_group or settings.JOBS_PER_GROUP,
        target_merged_size_kb=workflow.target_merged_size_kb,
        joins_files=payload_rules().joins(workflow.payload_config),
    )


def current_estimate(workflow: Workflow) -> Estimate:
    """Return the best estimate of an event's cost; operators' decisions outrank it."""
    decided = {name: value for name, value in decided_numbers(workflow).items() if name in _DECIDABLE}
    return replace(_best_estimate(workflow), **decided, decided=tuple(decided))


def _best_estimate(workflow: Workflow) -> Estimate:
    """Return the estimate of earlier rounds, of the pilot, of the campaign, or of the requestor."""
    measured = measured_estimate(workflow)
    if measured is not None:
        return measured
    if workflow.pilot_metrics:
        return pilot_estimate(workflow, workflow.pilot_metrics)
    return learned_estimate(workflow) or hinted_estimate(workflow)


def measured_estimate(workflow: Workflow) -> Estimate | None:
    """Return the estimate of the workflow's finished groups; None while they are too few."""
    return estimate_from_rounds(
        measurements(workflow),
        cores=workflow.cores,
        memory_per_core_mb=(settings.MEMORY_PER_CORE_MIN_MB, settings.MEMORY_PER_CORE_MAX_MB),
        follows_cores=workflow.adaptive and workflow.payload_config.get("follows_cores") is True,
    )


def learned_estimate(workflow: Workflow) -> Estimate | None:
    """Return the estimate of the workflow's campaign; None if there is none."""
    known = (workflow.learned or {}).get("estimate")
    if not known:
        return None
    return Estimate(
        time_per_event_sec=known["time_per_event_sec"],
        memory_mb=known["memory_mb"],
        size_per_event_kb=known["size_per_event_kb"],
        source="campaign",
        cores=workflow.cores,
    )


def pilot_estimate(workflow: Workflow, report: Mapping[str, Any]) -> Estimate:
    """Return the pilot's estimate, with at least the pool's minimum memory per core."""
    minimum = settings.MEMORY_PER_CORE_MIN_MB * workflow.cores
    return estimate_from_pilot(report, minimum_memory_mb=minimum, cores=workflow.cores)


def pilot_windows(workflow: Workflow) -> Windows | None:
    """Return what the next pilot measures; None if enough is known or its time is spent."""
    return decide_windows(
        workflow.pilot_metrics,
        initial_events=settings.PILOT_INITIAL_EVENTS,
        budget_sec=settings.PILOT_TIME_BUDGET_SEC,
    )


def hinted_estimate(workflow: Workflow) -> Estimate:
    """Return the requestor's estimate; the output of a merge is as large as its input."""
    size_kb = input_kb_per_event(workflow) if passes_events(workflow.payload_config) else None
    return Estimate(
        time_per_event_sec=workflow.time_per_event_sec,
        memory_mb=workflow.memory_mb,
        size_per_event_kb=workflow.size_per_event_kb if size_kb is None else size_kb,
        source="hints",
        cores=workflow.cores,
    )


def input_kb_per_event(workflow: Workflow) -> float | None:
    """Return the mean size of an event in the input files; None without events."""
    sums = workflow.input_files.aggregate(size=Sum("size_bytes"), events=Sum("events"))
    return sums["size"] / 1024 / sums["events"] if sums["events"] else None


def measurements(workflow: Workflow) -> list[Measurement]:
    """Return the measured cost of every collected production group."""
    rows = MergeGroup.objects.filter(
        round__workflow=workflow, round__kind=RoundKind.PRODUCTION, status=GroupStatus.COLLECTED
    ).values_list("metrics", flat=True)
    return [
        Measurement(
            jobs=row["jobs"],
            time_per_event_sec=row["wall_time_per_event_sec"],
            peak_rss_mb=row["peak_rss_mb"],
            size_per_event_kb=row["output_kb_per_event"],
            cores_used=row["cpu_efficiency"],
        )
        for row in rows
        if row
    ]


def round_yields(workflow: Workflow) -> list[RoundYield]:
    """Return the events generated and kept by the collected groups of each round, in order."""
    collected = MergeGroup.objects.filter(round__workflow_id=workflow.pk, status=GroupStatus.COLLECTED)
    sums = collected.order_by("round__number").values_list("round__number", "round__kind")
    return [
        RoundYield(kind == RoundKind.PRODUCTION, generated, written)
        for _, kind, generated, written in sums.annotate(Sum("input_events"), Sum("events_written"))
    ]


def steered_spec(workflow: Workflow, estimate: Estimate) -> PlanSpec:
    """Return the spec with events per job adjusted to the target wall time, unless they are fixed."""
    spec = plan_spec(workflow)
    current = _events_per_job_now(workflow)
    if SPLITTERS[spec.algo].size != "events_per_job" or current is None:
        return spec
    if workflow.adaptive and estimate.source == "measured":
        events = steer_events_per_job(
            current=current,
            time_per_event_sec=estimate.time_per_event_sec,
            target_job_sec=settings.TARGET_JOB_SEC,
        )
    elif estimate.source == "pilot" and not spec.params.get("events_per_job_fixed"):
        events = int((workflow.pilot_metrics or {})["recommended"]["events_per_job"])
    elif estimate.source == "campaign" and not spec.params.get("events_per_job_fixed"):
        events = max(1, round(settings.TARGET_JOB_SEC / estimate.time_per_event_sec))
    else:
        events = current
    return replace(spec, params=_with_whole_lumis(spec.params, events))


def _events_per_job_now(workflow: Workflow) -> int | None:
    """Return the events per job of the last production round, or as requested."""
    last = Round.objects.filter(workflow=workflow, kind=RoundKind.PRODUCTION).order_by("-number").first()
    used = last.estimate.get("events_per_job") if last is not None else None
    asked = workflow.splitting_params.get("events_per_job")
    return int(used or asked) if used or asked else None


def _with_whole_lumis(params: Mapping[str, Any], events: int) -> dict[str, Any]:
    """Round events per job down to whole lumis, because generated lumis are never cut."""
    per_lumi = params.get("events_per_lumi")
    if per_lumi and events > per_lumi:
        events -= events % int(per_lumi)
    return {**params, "events_per_job": events}


def round_limit(workflow: Workflow) -> int | None:
    """Return the number of groups of the next round; adaptive workflows start small."""
    if not workflow.adaptive:
        return None
    begun = workflow.rounds.filter(kind=RoundKind.PRODUCTION).exists()
    return int(settings.GROUPS_PER_ROUND if begun else settings.FIRST_ROUND_GROUPS)
