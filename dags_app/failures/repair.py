"""Repair of a DAG before it continues: groups leave unusable sites and drop unreadable files.

The directory is updated once per DAG, before its submission and under its lock; a mark in it names the DAG
for which that was done, so that nothing is changed once DAGMan may be running.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet, Sum

from condor.dag_edits import (
    GroupChange,
    change_group,
    forget_landing_sites,
    remove_groups,
    replace_file,
    restart_group,
    settle_killed,
)
from condor.dagfile import submit_lock
from condor.submitfile import MANIFEST
from dags_app.failures.records import CREDITED, bad_copies, failed_sites
from dags_app.failures.recovery import Blame, BrokenGroup, Repair, decide_repair
from dags_app.models import DAG, DAGEvent, InputFile, MergeGroup
from dags_app.planning.names import group_index
from dags_app.planning.plan import PlanRefused
from dags_app.planning.types import SERVICE_NODES, SitePool
from dags_app.services.decisions import decided_numbers
from dags_app.services.landing_sites import files_by_group, usable_now
from dags_app.services.ledger import tally
from dags_app.services.locations import locate_files
from dags_app.states import FileState, RoundKind
from sandbox.elect_site import elected_site
from sandbox.exitcodes import Tag, has_tag
from sandbox.jsonfile import read_json
from sandbox.postrecord import SUCCESS, PostRecord, last_records

MARK = ".repaired_for"
MERGE = "merge"


def decide_repairs(*, dag: DAG, sites: SitePool) -> list[Repair]:
    """Return how every group that is not done continues.

    Before a file is excluded or a group has no site, the locations of the files are queried from Rucio
    again.
    """
    repairs = _decide(dag, sites)
    homeless = {group_index(repair.group) for repair in repairs if repair.homeless}
    files = files_by_group(dag) if homeless else {}
    doubted = {lfn for repair in repairs for lfn in repair.excluded}
    doubted |= {file.lfn for index in homeless if index is not None for file in files.get(index, ())}
    if doubted and locate_files(workflow=dag.workflow, lfns=doubted):
        return _decide(dag, sites)
    return repairs


def _decide(dag: DAG, sites: SitePool) -> list[Repair]:
    groups = dag.round.groups.exclude(status__in=CREDITED).order_by("index")
    files = files_by_group(dag)
    bad: dict[str, dict[str, int]] = {}
    for lfn, site, exit_code in dag.round.bad_replicas.values_list("lfn", "site", "exit_code"):
        bad.setdefault(lfn, {})[site] = exit_code
    fitting = frozenset(usable_now(dag=dag, sites=sites))
    broken = [_broken(dag, group, files.get(group.index, ()), bad, sites, fitting) for group in groups]
    avoided = bad_copies(workflow=dag.workflow)
    # A group that has landed stays with the copies it reads there until one of them fails
    broken = [
        one if one.elected else replace(one, files=avoided.choose_all(one.files, within=fitting))
        for one in broken
    ]
    if dag.round.kind == RoundKind.PILOT:  # one job is no evidence against a site, so another site is tried
        left = failed_sites(workflow=dag.workflow, kind=RoundKind.PILOT)
        broken = [replace(group, failed_at=left) for group in broken]
    return [decide_repair(group) for group in broken]


def _broken(
    dag: DAG,
    group: MergeGroup,
    files: Sequence[InputFile],
    bad: Mapping[str, Mapping[str, int]],
    sites: SitePool,
    fitting: frozenset[str],
) -> BrokenGroup:
    directory = Path(dag.submit_dir) / group.name
    elected = elected_site(directory)
    gone = frozenset(file.lfn for file in files if file.state == FileState.EXCLUDED)
    files = [file for file in files if file.lfn not in gone]
    blamed = {file.lfn: _blame(file, bad[file.lfn], sites) for file in files if file.lfn in bad}
    lost_inputs = bool(elected) and _lost_inputs(last_records(directory).get(MERGE))
    readable = {file.lfn: sites.reading(frozenset(file.locations)) for file in files}
    if elected in fitting and not lost_inputs:
        gone_there = {lfn for lfn, read_at in readable.items() if elected not in read_at} - blamed.keys()
        for lfn in gone_there - _still_read(directory) if gone_there else ():
            readable[lfn] |= {elected}  # nothing more is read of it there
    return BrokenGroup(
        name=group.name,
        fitting=fitting,
        elected=elected,
        gone=gone,
        files=readable,
        bad=blamed,
        read=_read_so_far(directory) if blamed else frozenset(),
        shared=frozenset(file.lfn for file in files if file.first_group != file.last_group),
        lost_inputs=lost_inputs,
    )


def _blame(file: InputFile, codes: Mapping[str, int], sites: SitePool) -> Blame:
    return Blame(
        sites=frozenset(codes),
        corrupt=frozenset(site for site, code in codes.items() if has_tag(code, Tag.CORRUPT)),
        holders=sites.holding(frozenset(file.locations)),
    )


def _done_nodes(group: Path) -> set[str]:
    return {node for node, record in last_records(group).items() if record.category == SUCCESS}


def _read_so_far(group: Path) -> frozenset[str]:
    """Return the files of which finished jobs of the group have read something."""
    done = _done_nodes(group)
    if not done:
        return frozenset()
    manifest: Any = read_json(group / MANIFEST)
    jobs = manifest["jobs"].items()
    return frozenset(file["lfn"] for node, job in jobs if node in done for file in job["files"])


def _still_read(group: Path) -> frozenset[str]:
    """Return the files that unfinished jobs of the group read."""
    done = _done_nodes(group)
    manifest: Any = read_json(group / MANIFEST)
    jobs = manifest["jobs"].items()
    return frozenset(file["lfn"] for node, job in jobs if node not in done for file in job["files"])


def _lost_inputs(merge: PostRecord | None) -> bool:
    return merge is not None and merge.category != SUCCESS and has_tag(merge.exit_code, Tag.LOST)


def check_sites(repairs: Sequence[Repair]) -> None:
    """Raise PlanRefused if a group has work but no site."""
    homeless = [repair.group for repair in repairs if repair.homeless]
    if homeless:
        raise PlanRefused(
            f"no usable site can run {len(homeless)} groups any more, the first is {homeless[0]}:"
            " site lists, drains, bans, memory and data exclude every site",
            cure="Lift a ban or extend the site list. A release then plans the rest again",
        )


def repair_dag(*, dag: DAG, sites: SitePool) -> None:
    """Update the directory of a DAG that continues, once, before it is submitted."""
    directory = Path(dag.submit_dir)
    mark = directory / MARK
    with submit_lock(directory):
        if mark.exists() and mark.read_text("ascii").strip() == dag.token:
            return
        repairs = decide_repairs(dag=dag, sites=sites)
        check_sites(repairs)
        settle_killed(directory, done=[group.name for group in dag.round.groups.filter(status__in=CREDITED)])
        jobs = {repair.group: _amend(dag, directory, repair) for repair in repairs if not repair.emptied}
        emptied = [repair.group for repair in repairs if repair.emptied]
        if emptied:
            remove_groups(directory, emptied)
        forget_landing_sites(directory)  # the groups' own files have their sites now
        with transaction.atomic():
            record_repairs(dag=dag, repairs=repairs)
            for name, left in jobs.items():
                _rows(dag, [name]).exclude(jobs=left).update(jobs=left)
            _recount(dag, sites)
        replace_file(mark, f"{dag.token}\n".encode())


def record_repairs(*, dag: DAG, repairs: Sequence[Repair]) -> None:
    """Store excluded files, files set aside and emptied groups, with an event."""
    excluded = {lfn: why for repair in repairs for lfn, why in repair.excluded.items()}
    aside = [lfn for repair in repairs for lfn in repair.set_aside]
    emptied = [repair.group for repair in repairs if repair.emptied]
    restarted = [repair.group for repair in repairs if repair.restart]
    held = dag.round.files.filter(state=FileState.ASSIGNED)
    for lfn, why in excluded.items():
        held.filter(lfn=lfn).update(state=FileState.EXCLUDED, excluded_reason=why)
    held.filter(lfn__in=aside).update(state=FileState.ATTEMPTED, whole=True)
    _rows(dag, emptied).delete()
    _rows(dag, restarted).update(nodes_done=0, nodes_failed=0, site="")
    if excluded:
        tally(workflow=dag.workflow)
    detail = {"restarted": restarted, "excluded": excluded, "set_aside": aside, "emptied": emptied}
    if any(detail.values()):
        DAGEvent.objects.create(dag=dag, event_type="repaired", detail=detail)


def _rows(dag: DAG, names: Collection[str]) -> QuerySet[MergeGroup]:
    return dag.round.groups.filter(index__in=[group_index(name) for name in names])


def _amend(dag: DAG, directory: Path, repair: Repair) -> int:
    """Change one group's files; return how many processing jobs it has then."""
    group, decided = directory / repair.group, decided_numbers(dag.workflow)
    if repair.restart:
        restart_group(group)
    manifest, idle = _without_files(group, repair.dropped)
    change_group(
        group,
        GroupChange(
            sites=repair.sites,
            without=idle,
            memory_mb=decided.get("memory_mb"),
            retries=decided.get("retry_count"),
        ),
    )
    if manifest is not None:
        replace_file(group / MANIFEST, json.dumps(manifest, sort_keys=True).encode())
        return len(manifest["jobs"])
    return _rows(dag, [repair.group]).values_list("jobs", flat=True).get()


def _without_files(group: Path, gone: frozenset[str]) -> tuple[Any, frozenset[str]]:
    """Return the manifest without these files, and the nodes that have none left. Done nodes stay."""
    if not gone:
        return None, frozenset()
    manifest: Any = read_json(group / MANIFEST)
    done = _done_nodes(group)
    idle = set()
    for node, job in manifest["jobs"].items():
        if node in done or not job["files"]:
            continue
        dropped = [file for file in job["files"] if file["lfn"] in gone]
        job["files"] = [file for file in job["files"] if file["lfn"] not in gone]
        lost = sum(file["last_event"] - file["first_event"] + 1 for file in dropped)
        job["events"] = max(job["events"] - lost, 0)
        if dropped and not job["files"]:
            idle.add(node)
    manifest["jobs"] = {node: job for node, job in manifest["jobs"].items() if node not in idle}
    return manifest, frozenset(idle)


def _recount(dag: DAG, sites: SitePool) -> None:
    """Update the node counts and sites of the DAG."""
    groups = dag.round.groups.count()
    jobs = dag.round.groups.aggregate(jobs=Sum("jobs"))["jobs"] or 0
    counts = dag.node_counts | {
        "Processing": jobs,
        "Landing": groups,
        "Merge": groups,
        "Cleanup": groups,
        "MergeGroup": groups,
    }
    DAG.objects.filter(pk=dag.pk).update(
        total_nodes=jobs + SERVICE_NODES * groups,
        total_edges=2 * jobs + groups,
        node_counts=counts,
        applied_sites=usable_now(dag=dag, sites=sites),
        version=F("version") + 1,
    )
    dag.refresh_from_db()
