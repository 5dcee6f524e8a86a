"""Manifests of groups that are done but not collected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from django.db.models import Count

from dags_app.models import DAG, MergeGroup, Round
from dags_app.states import GroupStatus
from sandbox.claims import check_group_manifest
from sandbox.elect_site import elected_site
from sandbox.manifest import (
    GroupManifest,
    ManifestError,
    ManifestUnreadable,
    read_group_manifest,
    read_jobs,
)
from wms2_project.errors import PermanentError, TransientError, Wms2Error


class BadManifest(PermanentError):
    """The manifest of a done group is missing, damaged or does not match its plan."""


class ManifestAway(TransientError):
    """The manifest of a group cannot be read from the disk now."""


def finished_groups(*, dag: DAG) -> Iterator[tuple[MergeGroup, GroupManifest | Wms2Error]]:
    """Yield every uncollected group with its manifest, or with the error of an unusable one."""
    waiting = dag.round.groups.filter(status=GroupStatus.DONE).select_related("round").order_by("index")
    for group in waiting:
        directory = Path(dag.submit_dir) / group.name
        try:
            yield group, read_manifest(directory)
        except ManifestUnreadable as error:
            yield group, ManifestAway(f"{group.name}: {error}", cure=f"See {directory}")
        except ManifestError as error:
            yield group, BadManifest(f"{group.name}: {error}", cure=f"See {directory}")


def count_damaged(*, dag: DAG) -> int:
    """Return the number of uncollected groups with an unusable manifest; raise ManifestAway if unreadable."""
    found = [manifest for _, manifest in finished_groups(dag=dag) if isinstance(manifest, Wms2Error)]
    away = next((one for one in found if isinstance(one, ManifestAway)), None)
    if away is not None:
        raise away
    return len(found)


def count_groups(*, round_: Round) -> dict[str, int]:
    """Return the number of groups of the round by status."""
    return dict(round_.groups.order_by().values_list("status").annotate(count=Count("id")))


def describe(*, round_: Round, groups: Mapping[str, int]) -> str:
    """Describe the progress of the round."""
    done = groups.get(GroupStatus.COLLECTED, 0)
    failed = groups.get(GroupStatus.FAILED, 0)
    text = f"round {round_.number}: {done} of {sum(groups.values())} groups done"
    return f"{text}, {failed} failed" if failed else text


def read_manifest(directory: Path) -> GroupManifest:
    """Return the manifest of one group, checked against its plan and the site it was sent to."""
    manifest = read_group_manifest(directory / "merge_output.json")
    check_group_manifest(manifest, read_jobs(directory / "jobs.json"), site=elected_site(directory))
    return manifest
