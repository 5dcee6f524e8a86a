"""Diagnosis of failures, per request and across requests: clusters of similar failures with suggestions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Count, Max, Sum

from dags_app.failures import records
from dags_app.failures.clusters import Cluster, Known, Remedy, build_clusters, suggest
from dags_app.models import FailureCluster, InputFile, MergeGroup, Workflow
from dags_app.states import FileState, GroupStatus
from requests_app.models import Request
from requests_app.services.releasing import Modifications, preview_release
from requests_app.states import RequestStatus
from sites_app.selectors import usable_sites
from wms2_project.errors import Wms2Error

SHOWN = 50  # clusters per page
PREVIEWED = 10  # clusters with a preview of their suggestion
LISTED = 1000


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Failures of a request, newest first, and the hold reason of a held request."""

    hold: dict[str, Any] | None
    groups: dict[str, int]
    counts: list[dict[str, Any]]
    clusters: list[dict[str, Any]]
    running: list[dict[str, Any]]
    bad_files: list[dict[str, Any]]
    excluded_files: list[dict[str, str]]


def diagnose(request: Request, *, now: datetime) -> Diagnosis:
    """Return the stored failures of the request and those of its running DAG, limited in number."""
    workflow = request.workflow
    stored = records.newest_clusters(workflow.failures.all()).select_related("dag", "dag__round")
    rows = list(stored.order_by("-dag__created_at", "-jobs", "id")[:SHOWN])
    running = build_clusters(records.live_failures(workflow=workflow))[:SHOWN]
    known = _known(workflow, [*map(cluster_of, rows), *running], now)
    met = _times_met(workflow)
    excluded = InputFile.objects.filter(workflow=workflow, state=FileState.EXCLUDED).order_by("lfn")
    bad: dict[str, list[str]] = {}
    for lfn, site in workflow.bad_replicas.order_by("lfn", "site").values_list("lfn", "site")[:LISTED]:
        bad.setdefault(lfn, []).append(site)
    return Diagnosis(
        hold=request.hold_evidence if request.status == RequestStatus.HELD else None,
        groups=_group_counts(request),
        counts=_stored_counts(request),
        clusters=[
            _describe_row(row, known)
            | {"dags": met[row.dag.round_id, row.fingerprint, row.site]}
            | _previewed(request, row, known, now, wanted=number < PREVIEWED)
            for number, row in enumerate(rows)
        ],
        running=[_describe(cluster, known) for cluster in running],
        bad_files=[{"lfn": lfn, "sites": sites} for lfn, sites in bad.items()],
        excluded_files=[{"lfn": row.lfn, "reason": row.excluded_reason} for row in excluded[:LISTED]],
    )


def _known(workflow: Workflow, clusters: Iterable[Cluster], now: datetime) -> Known:
    blamed = {lfn for cluster in clusters for lfn in cluster.bad_files}
    sites = usable_sites(workflow=workflow, now=now)
    done = MergeGroup.objects.filter(round__workflow=workflow, status__in=records.CREDITED)
    return Known(
        lost_files=records.lost_files(workflow=workflow, lfns=blamed, sites=sites),
        memory_asked_mb=max(workflow.memory_mb, workflow.chosen_memory_mb or 0),
        groups_done=done.count(),
    )


def _times_met(workflow: Workflow) -> dict[tuple[UUID, str, str], int]:
    """Count, per round, the DAGs in which each cause occurred at each site."""
    rows = workflow.failures.order_by().values_list("dag__round", "fingerprint", "site")
    return {(round_, *key): dags for round_, *key, dags in rows.annotate(dags=Count("id"))}


def _group_counts(request: Request) -> dict[str, int]:
    last = request.workflow.rounds.order_by("-number").first()
    if last is None:
        return {}
    counts = dict(last.groups.order_by().values_list("status").annotate(n=Count("id")))
    return {status.value: counts.get(status, 0) for status in GroupStatus}


def _stored_counts(request: Request) -> list[dict[str, Any]]:
    """Count failed jobs by category, site and exit code over all rounds. Rescued jobs count once."""
    newest = records.newest_clusters(request.workflow.failures.all())
    rows = newest.order_by().values("category", "site", "exit_code")
    counted = rows.annotate(jobs=Sum("jobs")).order_by("-jobs", "category", "site", "exit_code")
    return [dict(row) for row in counted[:100]]


def _describe_row(row: FailureCluster, known: Known) -> dict[str, Any]:
    return _describe(cluster_of(row), known) | {
        "fingerprint": row.fingerprint,
        "round": row.dag.round.number,
        "dag": str(row.dag_id),
        "dag_kind": row.dag.kind,
        "at": row.created_at,
    }


def _previewed(
    request: Request, row: FailureCluster, known: Known, now: datetime, *, wanted: bool
) -> dict[str, Any]:
    """Return the suggestion with a preview of its effect, for a held request."""
    if not wanted or request.status != RequestStatus.HELD:
        return {}
    advice = _advice(cluster_of(row), known)
    return {"suggestion": advice | {"preview": _preview(request, advice, now)}}


def _advice(cluster: Cluster, known: Known) -> dict[str, Any]:
    found = suggest(cluster, known)
    return {"action": found.action.value, "why": found.why, "modifications": dict(found.modifications)}


def _describe(cluster: Cluster, known: Known) -> dict[str, Any]:
    return asdict(cluster) | {
        "fingerprint": cluster.fingerprint,
        "share_at_site": round(cluster.share_at_site, 4),
        "share_elsewhere": round(cluster.share_elsewhere, 4),
        "suggestion": _advice(cluster, known),
    }


def _preview(request: Request, suggestion: dict[str, Any], now: datetime) -> dict[str, Any]:
    """Return the effect of following the suggestion, or why it would be refused."""
    if suggestion["action"] == Remedy.FAIL:
        return {"effect": "the request fails and its outputs are invalidated"}
    asked: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in suggestion["modifications"].items()
    }
    try:
        changes = Modifications(**asked)
        seen = preview_release(request=request, modifications=changes, now=now, ask_rucio=False)
    except Wms2Error as error:
        return {"refused": str(error), "fields": getattr(error, "fields", {})}
    return asdict(seen)


def cluster_of(row: FailureCluster) -> Cluster:
    """Convert a stored cluster to its value type."""
    values = {one.name: getattr(row, one.name) for one in fields(Cluster)}
    return Cluster(**(values | {"groups": tuple(row.groups), "bad_files": tuple(row.bad_files)}))


def diagnose_all(*, now: datetime, days: int = 7, limit: int = 100) -> list[dict[str, Any]]:
    """Return failures grouped by cause across requests and sites, most frequent first."""
    lately = FailureCluster.objects.filter(created_at__gt=now - timedelta(days=days))
    recent = records.newest_clusters(lately)
    summed = (
        recent.order_by()
        .values("fingerprint")
        .annotate(jobs=Sum("jobs"), requests=Count("workflow", distinct=True), last_seen=Max("created_at"))
        .order_by("-jobs", "fingerprint")[:limit]
    )
    found = {row["fingerprint"]: row | {"sites": {}, "examples": []} for row in summed}
    rows = recent.filter(fingerprint__in=list(found))
    largest = rows.order_by("fingerprint", "-jobs", "-id").distinct("fingerprint")
    for row in largest.values("fingerprint", "message", "exit_code", "step", "category"):
        found[row["fingerprint"]] |= row
    _add_sites(found, rows)
    return list(found.values())


def _add_sites(found: dict[str, dict[str, Any]], rows: Any) -> None:
    by_site: Iterable[tuple[str, str, int]] = (
        rows.order_by().values_list("fingerprint", "site").annotate(jobs=Sum("jobs"))
    )
    for fingerprint, site, jobs in by_site:
        found[fingerprint]["sites"][site] = jobs
    names = rows.order_by("fingerprint", "-jobs").values_list("fingerprint", "workflow__request_name")
    for fingerprint, name in names[:5000]:
        examples = found[fingerprint]["examples"]
        if name not in examples and len(examples) < 5:
            examples.append(name)
