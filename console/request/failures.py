"""Failures of a request for its page: the matrix, and the clusters behind each cell with what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from console.request.matrix import Matrix, build_matrix, cell_key
from console.request.next_action import REMEDIES, operation_of
from requests_app.models import Request
from requests_app.selectors.diagnosis import ClusterDetail, Diagnosis


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """Failures of one cause at one site. `times` counts the DAGs of the round they occurred in."""

    key: str
    cell: str
    site: str
    jobs: int
    category: str
    exit_code: int
    step: str
    round: str
    times: int
    here: str
    elsewhere: str
    example: str
    node: str
    log_tail: str
    advice: str
    action: str
    url: str


def matrix_of(found: Diagnosis) -> Matrix | None:
    """Return the failures by site and exit code."""
    return build_matrix([*found.running, *found.clusters])


def cluster_rows(request: Request, found: Diagnosis, *, allowed: frozenset[str]) -> list[ClusterRow]:
    """Return the clusters, those of the running DAG first."""
    return [_row(request, one, allowed) for one in (*found.running, *found.clusters)]


def _row(request: Request, one: ClusterDetail, allowed: frozenset[str]) -> ClusterRow:
    remedy, modifications = one.suggestion.action, one.suggestion.modifications
    operation = operation_of(remedy)
    offered = operation in allowed
    return ClusterRow(
        key=f"{one.dag or 'running'}-{one.fingerprint}-{one.site}",
        cell=cell_key(one.site, one.exit_code),
        site=one.site or "–",
        jobs=one.jobs,
        category=one.category,
        exit_code=one.exit_code,
        step=one.step,
        round="running DAG" if one.round is None else f"round {one.round}",
        times=one.dags,
        here=f"{one.share_at_site:.0%}",
        elsewhere=f"{one.share_elsewhere:.0%}" if one.jobs_elsewhere else "–",
        example=one.example,
        node=one.node,
        log_tail=one.log_tail,
        advice=one.suggestion.why,
        action=REMEDIES[remedy] if offered else "",
        url=operation_url(request, operation, modifications) if offered else "",
    )


def operation_url(request: Request, operation: str, values: Mapping[str, Any]) -> str:
    """Return the address of the operation's form with these values filled in."""
    url = reverse(f"admin:requests_app_request_{operation}", args=[request.pk])
    return f"{url}?{urlencode({name: _typed(value) for name, value in values.items()})}" if values else url


def _typed(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
