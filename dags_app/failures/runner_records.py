"""Reads the records of a pull round's runners.

A failed runner gives its files back, and its next attempt is lent others. So every attempt counts, not only
the last one of a node, and a bad copy is blamed only if the file was lent to the node and the runner's site
reads a storage that holds it: copies that were read from afar belong to another site.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from dags_app.failures.clusters import FailedJob, RoundFailures
from dags_app.models import DAG, InputFile, MergeGroup, Runner, RunnerEvent
from dags_app.planning.types import SitePool
from dags_app.states import LIVE_DAG, GroupStatus, RunnerEventKind
from sandbox.postrecord import SUCCESS, read_records

Lent = Mapping[tuple[str, str], frozenset[str]]  # node and file → storages that hold it


def read_runner_failures(*, dag: DAG, sites: SitePool | None) -> RoundFailures:
    """Return the failures of the round's runners. Without `sites` no copy is blamed."""
    groups = list(dag.round.groups.defer("metrics", "parts", "last_error").order_by("index"))
    failed = [group for group in groups if group.status == GroupStatus.FAILED]
    if dag.status in LIVE_DAG:
        groups = [group for group in groups if group.nodes_failed]
    jobs: list[FailedJob] = []
    ran: Counter[str] = Counter()
    for group in groups:
        found, ended = _read_group(dag, group)
        jobs += found
        ran += ended
    lent = _lent(dag, jobs)
    return RoundFailures(
        groups=len(groups),
        failed_groups=tuple(group.name for group in failed),
        jobs=tuple(_blaming(job, lent, sites) for job in jobs),
        ran=dict(ran),
    )


def _read_group(dag: DAG, group: MergeGroup) -> tuple[list[FailedJob], Counter[str]]:
    records = [one for one in read_records(Path(dag.submit_dir) / group.name) if not one.removed_by_operator]
    failed = [FailedJob.of(group.name, record) for record in records if record.category != SUCCESS]
    return failed, Counter(record.site for record in records if record.site)


def removed_runners(*, dag: DAG) -> list[Runner]:
    """Return the runners of the round whose jobs an operator removed with condor_rm."""
    found: list[Runner] = []
    for group in dag.round.groups.all():
        records = read_records(Path(dag.submit_dir) / group.name)
        removed = {(one.node_name, one.attempt) for one in records if one.removed_by_operator}
        runners = group.runners.filter(node__in=[node for node, _ in removed])
        found += [runner for runner in runners if (runner.node, runner.attempt) in removed]
    return found


def _blaming(job: FailedJob, lent: Lent, sites: SitePool | None) -> FailedJob:
    def is_own_copy(lfn: str) -> bool:
        storages = lent.get((job.node, lfn))
        return storages is not None and sites is not None and job.site in sites.holding(storages)

    return replace(job, bad_files=tuple(lfn for lfn in job.bad_files if is_own_copy(lfn)))


def _lent(dag: DAG, jobs: Iterable[FailedJob]) -> Lent:
    """Return the files that jobs blame and that were lent to their nodes in this round."""
    blamed: dict[str, set[str]] = {}
    for job in jobs:
        for lfn in job.bad_files:
            blamed.setdefault(lfn, set()).add(job.node)
    if not blamed:
        return {}
    rows = InputFile.objects.filter(workflow=dag.workflow_id, lfn__in=blamed)
    files = {key: (lfn, frozenset(places)) for key, lfn, places in rows.values_list("pk", "lfn", "locations")}
    events = RunnerEvent.objects.filter(
        workflow=dag.workflow_id,
        kind=RunnerEventKind.ALLOCATED,
        runner__round=dag.round_id,
        runner__node__in=set().union(*blamed.values()),
    )
    found: dict[tuple[str, str], frozenset[str]] = {}
    for node, keys in events.values_list("runner__node", "file_ids"):
        for lfn, places in (files[key] for key in keys if key in files):
            found[node, lfn] = places
    return found
