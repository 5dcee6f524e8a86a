"""Reading workflows' rounds, groups and DAGs, in a fixed number of queries."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, Sum

from dags_app.models import DAG, MergeGroup, Round, Workflow
from dags_app.states import GroupStatus


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
