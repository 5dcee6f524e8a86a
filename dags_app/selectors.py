"""Reading workflows' rounds, groups and DAGs, in a fixed number of queries."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, Sum

from dags_app.models import DAG, InputFile, MergeGroup, Round, Workflow
from dags_app.planning.estimates import estimate_from_rounds
from dags_app.planning.layout import by_run
from dags_app.planning.lumis import normalised
from dags_app.planning.types import LumiRange
from dags_app.services.estimating import measurements
from dags_app.states import UNFINISHED_FILE, FileState, GroupStatus, RoundKind

MAX_MEMORY_MB = 10_000_000
LISTED = 1000  # files named one by one; more are only counted


@dataclass(frozen=True, slots=True)
class RoundSummary:
    """One round: what it set out to do and how its groups stand."""

    id: UUID
    number: int
    kind: str
    status: str
    jobs: int
    input_events: int
    estimate: dict[str, Any]
    created_at: datetime
    resolved_at: datetime | None
    groups: dict[str, int] = field(default_factory=dict)
    dags: list[DAG] = field(default_factory=list)


def group_counts(rounds: Collection[UUID]) -> dict[UUID, dict[str, int]]:
    """How many groups of each round are in which status; every status is named."""
    counts: dict[UUID, dict[str, int]] = {key: {status.value: 0 for status in GroupStatus} for key in rounds}
    rows = MergeGroup.objects.filter(round__in=list(rounds)).values("round", "status").annotate(n=Count("id"))
    for row in rows.order_by():
        counts[row["round"]][row["status"]] = row["n"]
    return counts


def group_totals(round_id: UUID) -> dict[str, int]:
    """What the groups of a round were to read and have written."""
    sums = MergeGroup.objects.filter(round=round_id).aggregate(
        jobs=Sum("jobs"), input_events=Sum("input_events"), events_read=Sum("events_read"),
        events_written=Sum("events_written"),
    )  # fmt: skip
    return {name: value or 0 for name, value in sums.items()}


def rounds_of(*, workflow: Workflow, limit: int = 50) -> list[RoundSummary]:
    """The newest rounds of a workflow, newest first, each with its DAGs."""
    rounds = list(Round.objects.filter(workflow=workflow).order_by("-number")[:limit])
    counts = group_counts([row.id for row in rounds])
    dags: dict[UUID, list[DAG]] = {}
    for dag in DAG.objects.filter(round__in=rounds).order_by("created_at"):
        dags.setdefault(dag.round_id, []).append(dag)
    return [
        RoundSummary(
            id=row.id, number=row.number, kind=row.kind, status=row.status, jobs=row.jobs,
            input_events=row.input_events, estimate=row.estimate, created_at=row.created_at,
            resolved_at=row.resolved_at, groups=counts[row.id], dags=dags.get(row.id, []),
        )
        for row in rounds
    ]  # fmt: skip


def latest_dag(*, workflow: Workflow) -> DAG | None:
    """The DAG that runs, or the one that ran last."""
    return DAG.objects.filter(workflow=workflow).order_by("-created_at").first()


def ledger_of(*, workflow: Workflow) -> dict[str, Any]:
    """What was asked, planned, processed, attempted, excluded and is missing, with ranges."""
    return _generated_ledger(workflow) if workflow.generates else _input_ledger(workflow)


def _input_ledger(workflow: Workflow) -> dict[str, Any]:
    files = InputFile.objects.filter(workflow=workflow)
    sums = files.order_by().values("state").annotate(files=Count("id"), events=Sum("events"))
    totals: dict[str, Any] = {row["state"]: row for row in sums}
    lumis: dict[str, list[LumiRange]] = {state.value: [] for state in FileState}
    for state, ranges in files.values_list("state", "lumis").iterator(chunk_size=5000):
        lumis[state].extend((run, first, last) for run, first, last in ranges)
    by_state = {
        state.value: {
            "files": totals.get(state.value, {}).get("files", 0),
            "events": totals.get(state.value, {}).get("events") or 0,
            "lumis": by_run(normalised(lumis[state.value])),
        }
        for state in FileState
    }
    unfinished = [one for state in sorted(UNFINISHED_FILE) for one in lumis[state]]
    excluded = files.filter(state=FileState.EXCLUDED).order_by("lfn")[:LISTED]
    return {
        "input_dataset": workflow.input_dataset,
        "asked": {
            "files": sum(part["files"] for part in by_state.values()),
            "events": sum(part["events"] for part in by_state.values()),
        },
        "states": by_state,
        "missing": {
            "files": sum(by_state[state]["files"] for state in sorted(UNFINISHED_FILE)),
            "events": sum(by_state[state]["events"] for state in sorted(UNFINISHED_FILE)),
            "lumis": by_run(normalised(unfinished)),
        },
        "excluded_files": [{"lfn": row.lfn, "reason": row.excluded_reason} for row in excluded],
    }


def _generated_ledger(workflow: Workflow) -> dict[str, Any]:
    collected = MergeGroup.objects.filter(round__workflow=workflow, status=GroupStatus.COLLECTED)
    made = collected.aggregate(read=Sum("events_read"), written=Sum("events_written"))
    asked = workflow.total_events or 0
    return {
        "input_dataset": None,
        "asked": {"events": asked, "filter_efficiency": workflow.filter_efficiency},
        "planned": [
            {"round": row.number, "first_event": row.first_event, "last_event": row.last_event}
            for row in workflow.rounds.order_by("number")
        ],
        "generated": {"events": made["read"] or 0},
        "produced": {"events": made["written"] or 0},
        "missing": {"events": max(asked - (made["written"] or 0), 0)},
        "next_first_event": workflow.next_first_event,
        "next_first_lumi": workflow.next_first_lumi,
    }


def forecast_of(*, workflow: Workflow) -> dict[str, Any]:
    """What the first production round believed of an event, and what production then measured."""
    first = workflow.rounds.filter(kind=RoundKind.PRODUCTION).order_by("number").first()
    measured = estimate_from_rounds(measurements(workflow), cores=1, memory_per_core_mb=(0, MAX_MEMORY_MB))
    predicted = first.estimate if first is not None else None
    if predicted is None or measured is None:
        return {"predicted": predicted, "measured": None, "ratio": None}
    seen = measured.as_json()
    ratio = {
        key: round(seen[key] / predicted[key], 3) if predicted[key] else None
        for key in ("time_per_event_sec", "memory_mb", "size_per_event_kb")
    }
    return {"predicted": predicted, "measured": seen, "ratio": ratio}
