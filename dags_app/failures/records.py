"""Reads the records of a DAG's failed groups, written by POST scripts, and stores them in a few rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from dags_app.failures.clusters import (
    FailedJob,
    RoundFailures,
    bad_files_of,
    build_clusters,
)
from dags_app.failures.recovery import common_sites
from dags_app.failures.runner_records import read_runner_failures
from dags_app.models import (
    DAG,
    BadReplica,
    DAGEvent,
    FailureCluster,
    MergeGroup,
    QuarantinedReplica,
    Workflow,
)
from dags_app.planning.types import SitePool
from dags_app.states import (
    FAILED_DAG,
    LIVE_DAG,
    DAGKind,
    FileState,
    GroupStatus,
    RoundKind,
    RoundStatus,
)
from sandbox.elect_site import elected_site
from sandbox.exitcodes import INFRASTRUCTURE, Tag, tagged
from sandbox.failure import PAYLOAD
from sandbox.postrecord import SUCCESS, PostRecord, last_records

MAX_GROUPS = 500  # failed groups whose records are read; the rest is only counted
MAX_REPLICAS = 100_000
LEARNED = "failures learned"  # the event
CREDITED = (GroupStatus.DONE, GroupStatus.COLLECTED)


def read_failures(*, dag: DAG, sites: SitePool | None = None) -> RoundFailures:
    """Return the round's failures after this DAG, from the records on disk.

    While the DAG runs, only groups with failed nodes are read: the others have a record per finished job.
    `sites` is needed to attribute bad copies to sites in a pull round.
    """
    if dag.round.kind == RoundKind.PULL:
        return read_runner_failures(dag=dag, sites=sites)
    groups = list(dag.round.groups.defer("metrics", "parts", "last_error").order_by("index"))
    failed = [group for group in groups if group.status not in CREDITED]
    live = dag.status in LIVE_DAG
    failing = [group for group in failed if group.nodes_failed or group.status == GroupStatus.FAILED]
    read = (failing if live else failed)[:MAX_GROUPS]
    ran = Counter({"": 0})
    for group in groups:
        if group.status in CREDITED:
            ran[group.site] += group.jobs
        elif group not in read:
            ran[group.site] += min(max(group.nodes_done - 1, 0), group.jobs)  # the first node is the landing
    jobs: list[FailedJob] = []
    for group in read:
        records = last_records(Path(dag.submit_dir) / group.name)
        ran.update(record.site for record in records.values() if record.site)
        jobs += _failed_jobs(dag, group, records.values())
    return RoundFailures(
        groups=len(groups),
        failed_groups=tuple(group.name for group in failed),
        jobs=tuple(jobs),
        ran={site: count for site, count in ran.items() if site},
        unread_groups=max(len(failed) - MAX_GROUPS, 0),
    )


def _failed_jobs(dag: DAG, group: MergeGroup, records: Iterable[PostRecord]) -> Iterator[FailedJob]:
    found = False
    for record in records:
        if record.category != SUCCESS and record.final:
            found = True
            yield FailedJob.of(group.name, record)
    directory = Path(dag.submit_dir) / group.name
    began = (directory / "group.dag.dagman.out").exists()
    if not found and began and dag.status in FAILED_DAG:
        site = elected_site(directory)
        message = "the group ended without a record" if site else "the landing found no site"
        if dag.exit_code is None:  # DAGMan was killed on the submit host: no site is to blame
            site, message = "", "DAGMan ended without an exit code, and the group with it"
        yield FailedJob(group.name, "landing", site, INFRASTRUCTURE, 0, message)


def record_failures(*, dag: DAG, sites: SitePool | None = None) -> RoundFailures:
    """Store the clusters and unreadable replicas of an ended DAG. May be repeated."""
    found = read_failures(dag=dag, sites=sites)
    clusters = []
    for cluster in build_clusters(found):
        values = asdict(cluster) | {"groups": list(cluster.groups), "bad_files": list(cluster.bad_files)}
        clusters.append(
            FailureCluster(dag=dag, workflow=dag.workflow, fingerprint=cluster.fingerprint, **values)
        )
    blaming = {(lfn, job.site): job for job in found.jobs for lfn in job.bad_files}
    replicas = [
        BadReplica(
            workflow=dag.workflow,
            round=dag.round,
            lfn=lfn,
            site=site,
            exit_code=job.exit_code,
            source=job.source,
        )
        for lfn, sites in bad_files_of(found).items()
        for site in sites
        if site and (job := blaming[lfn, site])
    ]
    with transaction.atomic():
        if not dag.events.filter(event_type=LEARNED).exists():
            DAGEvent.objects.create(dag=dag, event_type=LEARNED, detail={"clusters": len(clusters)})
        FailureCluster.objects.bulk_create(clusters, ignore_conflicts=True)
        BadReplica.objects.bulk_create(  # a replica that fails again belongs to the later round
            replicas,
            update_conflicts=True,
            unique_fields=["workflow", "lfn", "site"],
            update_fields=["round", "exit_code", "source", "created_at"],
            batch_size=1000,
        )
    return found


@dataclass(frozen=True, slots=True)
class PilotOutcomes:
    """Requests whose pilots failed at a site because of the site, and how many pilots succeeded there.

    A request is identified by the workflow of its first version. `proved` are those reported by the wrapper
    or HTCondor, `failed` all of them.
    """

    failed: frozenset[UUID]
    proved: frozenset[UUID]
    succeeded: int


def pilot_outcomes(*, site: str, since: datetime) -> PilotOutcomes:
    """Return the outcomes of pilots at the site.

    A failure that may be due to the code counts if the same pilot has succeeded at another site.
    """
    succeeded = MergeGroup.objects.filter(round__kind=RoundKind.PILOT, status__in=CREDITED)
    elsewhere = succeeded.filter(round=OuterRef("dag__round")).exclude(site__in=["", site])
    met = FailureCluster.objects.filter(dag__round__kind=RoundKind.PILOT, site=site, created_at__gt=since)
    guilty = met.filter(Q(category=INFRASTRUCTURE) | Exists(elsewhere))
    failed, proved = set(), set()
    for own, first, category, source in guilty.values_list(
        "workflow", "workflow__first_version", "category", "source"
    ):
        failed.add(first or own)
        if category == INFRASTRUCTURE and source != PAYLOAD:
            proved.add(first or own)
    there = succeeded.filter(site=site, finished_at__gt=since).count()
    return PilotOutcomes(frozenset(failed), frozenset(proved), there)


def failed_sites(*, workflow: Workflow, kind: RoundKind) -> frozenset[str]:
    """Return the sites where jobs of the workflow's rounds of this kind failed finally."""
    met = workflow.failures.filter(dag__round__kind=kind).exclude(site="")
    return frozenset(met.order_by().values_list("site", flat=True).distinct())


def is_judged(*, dag: DAG) -> bool:
    """Return whether the failures of the ended DAG were recorded."""
    return dag.events.filter(event_type=LEARNED).exists() or dag.failures.exists()


def newest_clusters(rows: QuerySet[FailureCluster]) -> QuerySet[FailureCluster]:
    """Return the last of equal clusters of a DAG and its rescues: the same jobs failed again."""
    last = rows.order_by("dag__round", "fingerprint", "site", "-dag__created_at", "-id")
    return FailureCluster.objects.filter(
        pk__in=last.distinct("dag__round", "fingerprint", "site").values("pk")
    )


def lost_files(*, workflow: Workflow, lfns: Collection[str], sites: SitePool) -> frozenset[str]:
    """Return those of these input files of which every replica is proved bad."""
    corrupt: dict[str, set[str]] = {}
    bad = workflow.bad_replicas.filter(lfn__in=lfns, exit_code__in=tagged(Tag.CORRUPT))
    for lfn, site in bad.values_list("lfn", "site"):
        corrupt.setdefault(lfn, set()).add(site)
    places = workflow.input_files.filter(lfn__in=corrupt).values_list("lfn", "locations")
    return frozenset(lfn for lfn, held in places if sites.holding(frozenset(held)) <= corrupt[lfn])


def live_failures(*, workflow: Workflow) -> RoundFailures:
    """Return the final failures of the DAG that runs, or that has ended and is not recorded yet."""
    open_ones = workflow.dags.filter(
        Q(status__in=sorted(LIVE_DAG)) | Q(status__in=sorted(FAILED_DAG)), round__status=RoundStatus.PLANNED
    )
    dag = open_ones.filter(children__isnull=True).select_related("round").first()
    if dag is None or (dag.status in FAILED_DAG and is_judged(dag=dag)):
        return RoundFailures()
    return read_failures(dag=dag)


def tried(*, dag: DAG) -> dict[str, Any]:
    """Return what was already done automatically about this round."""
    dags = dag.round.dags.order_by("created_at")
    repaired = DAGEvent.objects.filter(dag__in=dags, event_type="repaired").order_by("id")
    return {
        "dags": [
            {"dag": one.token, "kind": one.kind, "status": one.status, "groups_failed": one.nodes_failed}
            for one in dags
        ],
        "repairs": [event.detail for event in repaired],
    }


def rescues_of(*, dag: DAG) -> int:
    """Return the number of rescues of the DAG's round, without resumes after a stop."""
    return dag.round.dags.filter(kind=DAGKind.RESCUE).count()


def files_read_elsewhere(*, dag: DAG) -> dict[str, dict[str, str]]:
    """Return, by site, files of the round that failed there and were read at another site since.

    Each file is mapped to the source of the report.
    """
    bad = list(dag.round.bad_replicas.values_list("lfn", "site", "source"))
    lfns = {lfn for lfn, _, _ in bad}
    read = dag.workflow.input_files.filter(lfn__in=lfns, state=FileState.PROCESSED)
    processed = set(read.values_list("lfn", flat=True))
    found: dict[str, dict[str, str]] = {}
    for lfn, site, source in bad:
        if lfn in processed:
            found.setdefault(site, {})[lfn] = source
    return found


@dataclass(frozen=True, slots=True)
class BadCopies:
    """By file, the sites whose copy to avoid: those one workflow could not read lately, and with these those
    that are in quarantine for all.
    """

    own: dict[str, frozenset[str]]
    reported: dict[str, frozenset[str]]

    def choose(self, lfn: str, sites: frozenset[str]) -> frozenset[str]:
        """Return the sites to read the file from.

        Copies without a reported failure come first. If every copy has one, those that this workflow has
        not tried come next: a release must not repeat the read that failed.
        """
        if lfn not in self.reported:
            return sites
        return sites - self.reported[lfn] or sites - self.own.get(lfn, frozenset()) or sites

    def choose_all(
        self, files: Mapping[str, frozenset[str]], *, within: frozenset[str]
    ) -> Mapping[str, frozenset[str]]:
        """Return the sites to read each file of a group from; all of them if the group had no site then."""
        chosen = {lfn: self.choose(lfn, sites) for lfn, sites in files.items()}
        return chosen if common_sites(chosen, within=within) else files


def bad_copies(*, workflow: Workflow) -> BadCopies:
    """Return the workflow's failed reads of the last days, and what is in quarantine.

    Older failures are forgotten because copies get repaired.
    """
    since = Now() - timedelta(days=settings.SITE_BAN_DURATION_DAYS)
    failed = BadReplica.objects.filter(workflow_id=workflow.pk, created_at__gt=since).order_by("-created_at")
    avoided = QuarantinedReplica.objects.filter(ended_at__isnull=True, expires_at__gt=Now())
    own: dict[str, frozenset[str]] = {}
    for lfn, site in failed.values_list("lfn", "site")[:MAX_REPLICAS]:
        own[lfn] = own.get(lfn, frozenset()) | {site}
    reported = dict(own)
    for lfn, site in avoided.order_by("-created_at").values_list("lfn", "site")[:MAX_REPLICAS]:
        reported[lfn] = reported.get(lfn, frozenset()) | {site}
    return BadCopies(own=own, reported=reported)
