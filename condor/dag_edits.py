"""Changes to a DAG's directory between two submissions.

The caller holds `submit_lock` and has checked that no DAGMan of this directory is queued; only
`write_priority` and `write_landing_sites` may be used while it runs. Every change may be repeated.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from condor.dagtext import GROUP_DAG, OUTER_DAG, amend_group, drop_groups
from condor.layout import check_int
from condor.statusfile import highest_rescue, read_status
from condor.submitfile import LANDING_SITES_INCLUDE, PRIORITY_FILE, render_priority
from condor.types import NO_SITE, UnreadableFile
from sandbox.atomic import replacing
from sandbox.elect_site import ELECTED_SITE
from wms2_project.errors import TransientError
from wms2_project.grammar import Name, check

LANDING_SITES = "landing_sites"
_RUN_STATE = (ELECTED_SITE, f"{GROUP_DAG}.lock", f"{GROUP_DAG}.nodes.log", f"{GROUP_DAG}.status")


@dataclass(frozen=True, slots=True)
class GroupChange:
    """Changes of a group; None leaves a number as it is. `without` are nodes to remove."""

    sites: Collection[str]
    without: Collection[str] = ()
    memory_mb: int | None = None
    retries: int | None = None


def write_priority(directory: Path, priority: int) -> None:
    """Set the priority of jobs submitted later; queued ones keep theirs."""
    replace_file(directory / PRIORITY_FILE, render_priority(priority).encode())


def write_landing_sites(directory: Path, sites: Mapping[str, Collection[str]]) -> None:
    """Set where these groups may land; a group without a site waits until it has one.

    Landings read this before each submission. Other groups land where planned.
    """
    lines = (
        f"{group} {','.join(check(Name.SITE, site, field='sites') for site in sorted(found)) or '-'}\n"
        for group, found in sorted(sites.items())
    )
    replace_file(directory / LANDING_SITES, "".join(lines).encode("ascii"))


def write_runner_sites(directory: Path, sites: Mapping[str, Collection[str]]) -> None:
    """Set where runners of these groups that are submitted later may run."""
    for group, found in sorted(sites.items()):
        names = ",".join(check(Name.SITE, site, field="sites") for site in sorted(found)) or NO_SITE
        include = LANDING_SITES_INCLUDE.rpartition(" ")[2]
        replace_file(directory / group / include, f"landing_sites = {names}\n".encode("ascii"))


def reads_landing_sites(directory: Path) -> bool:
    """Return whether this DAG's landings read `landing_sites`; those of older DAGs do not."""
    return (directory / "scripts" / "landing.sh").exists()


def forget_landing_sites(directory: Path) -> None:
    """Let every group land where its `group.dag` says."""
    (directory / LANDING_SITES).unlink(missing_ok=True)


def change_group(group_directory: Path, change: GroupChange) -> None:
    """Change sites, memory or retries of the group's next jobs, and remove nodes. Done nodes stay done."""
    path = group_directory / GROUP_DAG
    before = path.read_text("ascii")
    after = amend_group(
        before,
        sites=[check(Name.SITE, site, field="sites") for site in sorted(change.sites)],
        without=frozenset(change.without),
        memory_mb=None
        if change.memory_mb is None
        else check_int("memory_mb", change.memory_mb, 1, 10_000_000),
        retries=None if change.retries is None else check_int("retries", change.retries, 0, 1000),
    )
    if after != before:
        replace_file(path, after.encode("ascii"))
    _forget_in_rescues(path, frozenset(change.without), retries=change.retries is not None)
    for node in change.without:  # records of removed nodes no longer apply
        for record in group_directory.glob(f"{node}.post.*.json"):
            record.unlink(missing_ok=True)


def settle_killed(directory: Path, *, done: Collection[str]) -> bool:
    """If DAGMan was killed, write the rescue file it could not write; return whether it was.

    Its lock file would make the next DAGMan recover from the log, in which every removed group has failed.
    Inner DAGMans killed with it, for example with their host, would wait for jobs that are in no queue any
    more.
    """
    path = directory / OUTER_DAG
    if not path.with_name(f"{OUTER_DAG}.lock").exists():
        return False
    for lock in sorted(directory.glob(f"*/{GROUP_DAG}.lock")):
        inner = lock.with_name(GROUP_DAG)
        _settle(inner, done=_done_nodes(inner))
    _settle(path, done=done)
    return True


def write_rescue(dag_file: Path, *, done: Collection[str]) -> None:
    """Write a further rescue file, so that the next DAGMan skips these nodes."""
    last = highest_rescue(dag_file)
    number = int(last.name.rpartition("rescue")[2]) + 1 if last else 1
    lines = "".join(f"DONE {name}\n" for name in sorted(done))
    replace_file(dag_file.with_name(f"{dag_file.name}.rescue{number:03d}"), lines.encode("ascii"))


def _settle(dag_file: Path, *, done: Collection[str]) -> None:
    if done:
        write_rescue(dag_file, done=done)
    dag_file.with_name(f"{dag_file.name}.nodes.log").unlink(missing_ok=True)
    dag_file.with_name(f"{dag_file.name}.lock").unlink()


def _done_nodes(dag_file: Path) -> set[str]:
    """Return the nodes that the status file and the last rescue file report as done.

    Nodes done since then run again.
    """
    rescue = highest_rescue(dag_file)
    lines = rescue.read_text("utf-8").splitlines() if rescue else []
    done = {line.split()[1] for line in lines if line.startswith("DONE ")}
    try:
        reading = read_status(dag_file.with_name(f"{dag_file.name}.status"))
    except UnreadableFile:
        return done
    return done | set(reading.status.done if reading else ())


def remove_groups(directory: Path, groups: Collection[str]) -> None:
    """Remove these groups from the DAG. Their files stay."""
    path = directory / OUTER_DAG
    before = path.read_text("ascii")
    after = drop_groups(before, frozenset(groups))
    if after != before:
        replace_file(path, after.encode("ascii"))
    _forget_in_rescues(path, frozenset(groups), retries=False)


def _forget_in_rescues(dag_file: Path, gone: frozenset[str], *, retries: bool) -> None:
    """Remove nodes from rescue files: DAGMan refuses unknown nodes and applies old retry counts."""
    for path in sorted(dag_file.parent.glob(f"{dag_file.name}.rescue*")):
        lines = path.read_text("utf-8").splitlines(keepends=True)
        kept = [
            line
            for line in lines
            if not gone & set(line.split()[1:2]) and not (retries and line.startswith("RETRY proc_"))
        ]
        if kept != lines:
            replace_file(path, "".join(kept).encode("utf-8"))


def restart_group(group_directory: Path) -> None:
    """Make the group start anew, with a new landing, at the next submission."""
    stale = [group_directory / name for name in _RUN_STATE]
    stale += group_directory.glob(f"{GROUP_DAG}.rescue*")
    stale += group_directory.glob("*.post.*.json")  # records of the previous landing
    for path in stale:
        path.unlink(missing_ok=True)


def replace_file(path: Path, content: bytes) -> None:
    """Replace the file atomically; raise TransientError if it cannot be written."""
    try:
        with replacing(path, mode=0o644) as handle:
            handle.write(content)
    except OSError as error:
        raise TransientError(f"{path} could not be written: {error}", cure="Retried automatically") from error
