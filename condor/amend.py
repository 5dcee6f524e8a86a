"""Changes to a DAG's directory between two submissions.

The caller holds `submit_lock` and knows that no DAGMan of this directory is queued; only `write_priority` may
be used while it runs.
"""

from __future__ import annotations

import os
from pathlib import Path

from condor.dagfile import DIGEST_FILE, DagEntry, Digest, dag_entries
from condor.dagtext import GROUP_DAG
from condor.layout import DagLayout
from condor.submitfile import PRIORITY_FILE, render_priority
from wms2_project.errors import Conflict, TransientError

_RUN_STATE = ("elected_site.inc", f"{GROUP_DAG}.lock", f"{GROUP_DAG}.nodes.log", f"{GROUP_DAG}.status")


def write_priority(directory: Path, priority: int) -> None:
    """Jobs submitted from now on get this priority; those already queued keep theirs."""
    _replace(directory / PRIORITY_FILE, render_priority(priority).encode(), 0o644)


def rewrite_dag(layout: DagLayout, directory: Path) -> int:
    """Give a DAG other resources, sites, retries or manifests; what is done stays done.

    The groups must be the same. Returns how many files changed.
    """
    digest = Digest()
    changed: list[DagEntry] = []
    for entry in dag_entries(layout):
        digest.add(entry)
        path = directory / entry.path
        if entry.content is None:
            if not path.is_dir():
                raise Conflict(f"{path} is not part of the DAG that was submitted", cure="Plan a new DAG")
        elif not path.exists() or path.read_bytes() != entry.content:
            changed.append(entry)
    if digest.groups != sum(1 for found in directory.iterdir() if found.name.startswith("mg_")):
        raise Conflict(f"{directory} holds groups the new layout lacks", cure="Plan a new DAG")
    for entry in changed:
        _replace(directory / entry.path, entry.content or b"", entry.mode)
    if changed:
        _replace(directory / DIGEST_FILE, f"{digest.hexdigest()}\n".encode(), 0o644)
    return len(changed)


def restart_group(group_directory: Path) -> None:
    """Make the group begin anew, with a landing of its own, at the next submission."""
    doomed = [group_directory / name for name in _RUN_STATE]
    doomed += group_directory.glob(f"{GROUP_DAG}.rescue*")
    for path in doomed:
        path.unlink(missing_ok=True)


def _replace(path: Path, content: bytes, mode: int) -> None:
    """Old content or new content, never something between."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as handle:
            handle.write(content)
            handle.flush()
            os.fchmod(handle.fileno(), mode)
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise TransientError(f"{path} could not be written: {error}", cure="It is tried again") from error
