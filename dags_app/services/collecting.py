"""Collecting: read the manifests of groups that are done but not yet in our tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from django.db.models import Count

from dags_app.models import DAG, MergeGroup, Round
from dags_app.states import GroupStatus
from sandbox.manifest import (
    GroupManifest,
    ManifestError,
    check_group_manifest,
    read_group_manifest,
    read_jobs,
)
from wms2_project.errors import PermanentError


class BadManifest(PermanentError):
    """A group says it is done, but its manifest is missing, damaged or speaks of something else."""


@dataclass(frozen=True, slots=True)
class FinishedGroup:
    """A group whose outputs are ready to be recorded."""

    group: MergeGroup
    manifest: GroupManifest


def finished_groups(*, dag: DAG) -> Iterator[FinishedGroup | BadManifest]:
    """Every uncollected group with its manifest; a bad one is told, not skipped and not in the way."""
    waiting = dag.round.groups.filter(status=GroupStatus.DONE).select_related("round").order_by("index")
    for group in waiting:
        try:
            yield FinishedGroup(group, read_manifest(Path(dag.submit_dir) / group.name))
        except ManifestError as error:
            yield BadManifest(f"{group.name}: {error}", cure=f"See {dag.submit_dir}/{group.name}")


def count_groups(*, round_: Round) -> dict[str, int]:
    """How many groups of the round are in which status."""
    return dict(round_.groups.order_by().values_list("status").annotate(count=Count("id")))


def describe(*, round_: Round, groups: Mapping[str, int]) -> str:
    """How far the round is, in words."""
    done = groups.get(GroupStatus.COLLECTED, 0)
    failed = groups.get(GroupStatus.FAILED, 0)
    told = f"round {round_.number}: {done} of {sum(groups.values())} groups done"
    return f"{told}, {failed} failed" if failed else told


def read_manifest(directory: Path) -> GroupManifest:
    """The manifest of one group, checked against what was planned for it."""
    manifest = read_group_manifest(directory / "merge_output.json")
    check_group_manifest(manifest, read_jobs(directory / "jobs.json"))
    return manifest
