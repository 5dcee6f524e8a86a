"""Diagnosis of failures, per request and across requests: clusters of similar failures with suggestions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar
from uuid import UUID

from django.db.models import Count, Max, Sum

from dags_app.failures import records
from dags_app.failures.clusters import Cluster, Known, Remedy, Suggestion, build_clusters, suggest
from dags_app.models import FailureCluster, MergeGroup, Workflow
from dags_app.selectors import ExcludedFile, excluded_of
from dags_app.states import GroupStatus
from requests_app.models import Request
from requests_app.services.releasing import Modifications, preview_release
from requests_app.states import RequestStatus
from sandbox.exitcodes import fault_of
from sites_app.selectors import usable_sites
from wms2_project.errors import Wms2Error

SHOWN = 50  # clusters per page
PREVIEWED = 10  # clusters with a preview of their suggestion
LISTED = 1000


@dataclass(frozen=True, slots=True)
class Advice(Suggestion):
    """A suggestion, with a preview of its effect for a held request."""

    preview: Annotated[
        dict[str, Any] | None,
        "Effect of a release with these modifications, or `refused` with `fields`. Null if not computed.",
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDetail(Cluster):
    """Failures of one cause at one site with a suggestion. Those of the running DAG have no round and DAG."""

    DERIVED: ClassVar = {"fingerprint": str, "share_at_site": float, "share_elsewhere": float}

    fault: Annotated[str, "Cause: `site`, `data`, `user` or `wms2`."]
    suggestion: Advice
    round: int | None = None
    dag: UUID | None = None
    dag_kind: str | None = None
    at: datetime | None = None
    dags: Annotated[int, "Number of DAGs of the round in which it occurred."] = 1


@dataclass(frozen=True, slots=True)
class FailureCount:
    """Failed jobs of one category, site and exit code."""

    category: str
    site: str
    exit_code: int
    jobs: int


@dataclass(frozen=True, slots=True)
class BadFile:
    """An input file with damaged replicas."""

    lfn: str
    sites: list[str]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Failures of a request, newest first, and the hold reason of a held request."""

    hold: Annotated[dict[str, Any] | None, "Evidence of the hold; null unless the request is held."]
    groups: Annotated[dict[str, int], "Groups of the last round by status."]
    counts: list[FailureCount]
    clusters: list[ClusterDetail]
    running: Annotated[list[ClusterDetail], "Failures of the running DAG."]
    bad_files: list[BadFile]
    excluded_files: list[ExcludedFile]


@dataclass(frozen=True, slots=True)
class FailureCause:
    """Failures of one cause in all requests."""

    fingerprint: str
    jobs: int
    requests: int
    last_seen: datetime
    message: str
    exit_code: int
    step: str
    category: str
    sites: Annotated[dict[str, int], "Jobs by site."]
    examples: Annotated[list[str], "Names of requests."]


def diagnose(request: Request, *, now: datetime, with_previews: bool = True) -> Diagnosis:
    """Return the stored failures of the request and those of its running DAG, limited in number.

    Suggestions for a held request have a preview of their effect, unless that is not wanted.
    """
    workflow = request.workflow
    stored = records.newest_clusters(workflow.failures.all()).select_related("dag", "dag__round")
    rows = list(stored.order_by("-dag__created_at", "-jobs", "id")[:SHOWN])
    running = build_clusters(records.live_failures(workflow=workflow))[:SHOWN]
    known = _known(workflow, [*map(cluster_of, rows), *running], now)
    met = _times_met(workflow)
    bad: dict[str, list[str]] = {}
    for lfn, site in workflow.bad_replicas.order_by("lfn", "site").values_list("lfn", "site")[:LISTED]:
        bad.setdefault(lfn, []).append(site)
    return Diagnosis(
        hold=request.hold_evidence if request.status == RequestStatus.HELD else None,
        groups=_group_counts(request),
        counts=_stored_counts(request),
        clusters=[
            _describe(
                cluster_of(row),
                known,
                request=request if with_previews and number < PREVIEWED else None,
                now=now,
                round=row.dag.round.number,
                dag=row.dag_id,
                dag_kind=row.dag.kind,
                at=row.created_at,
                dags=met[row.dag.round_id, row.fingerprint, row.site],
            )
            for number, row in enumerate(rows)
        ],
        running=[_describe(cluster, known, now=now) for cluster in running],
        bad_files=[BadFile(lfn, sites) for lfn, sites in bad.items()],
        excluded_files=excluded_of(workflow=workflow),
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


def _stored_counts(request: Request) -> list[FailureCount]:
    """Count failed jobs by category, site and exit code over all rounds. Rescued jobs count once."""
    newest = records.newest_clusters(request.workflow.failures.all())
    rows = newest.order_by().values("category", "site", "exit_code")
    counted = rows.annotate(jobs=Sum("jobs")).order_by("-jobs", "category", "site", "exit_code")
    return [FailureCount(**row) for row in counted[:100]]


def _describe(
    cluster: Cluster, known: Known, *, now: datetime, request: Request | None = None, **place: Any
) -> ClusterDetail:
    """Return the cluster with a suggestion, previewed if a held request is given."""
    found = suggest(cluster, known)
    held = request is not None and request.status == RequestStatus.HELD
    preview = _preview(request, found, now) if request is not None and held else None
    return ClusterDetail(
        **{one.name: getattr(cluster, one.name) for one in fields(Cluster)},
        fault=fault_of(cluster.exit_code).value,
        suggestion=Advice(found.action, found.why, dict(found.modifications), preview),
        **place,
    )


def _preview(request: Request, suggestion: Suggestion, now: datetime) -> dict[str, Any]:
    """Return the effect of following the suggestion, or why it would be refused."""
    if suggestion.action is Remedy.FAIL:
        return {"effect": "the request fails and its outputs are invalidated"}
    asked: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in suggestion.modifications.items()
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


def diagnose_all(*, now: datetime, days: int = 7, limit: int = 100) -> list[FailureCause]:
    """Return failures grouped by cause across requests and sites, most frequent first."""
    lately = FailureCluster.objects.filter(created_at__gt=now - timedelta(days=days))
    recent = records.newest_clusters(lately)
    summed = (
        recent.order_by()
        .values("fingerprint")
        .annotate(jobs=Sum("jobs"), requests=Count("workflow", distinct=True), last_seen=Max("created_at"))
        .order_by("-jobs", "fingerprint")[:limit]
    )
    found: dict[str, dict[str, Any]] = {
        row["fingerprint"]: dict(row) | {"sites": {}, "examples": []} for row in summed
    }
    rows = recent.filter(fingerprint__in=list(found))
    largest = rows.order_by("fingerprint", "-jobs", "-id").distinct("fingerprint")
    for row in largest.values("fingerprint", "message", "exit_code", "step", "category"):
        found[row["fingerprint"]] |= row
    _add_sites(found, rows)
    return [FailureCause(**one) for one in found.values() if "message" in one]


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
