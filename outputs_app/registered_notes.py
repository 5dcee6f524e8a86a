"""Notes in the directories of groups: which block a file is registered in, written before the registration.

The database has the same. After it was restored from a backup, only the notes may know the blocks that DBS
and Rucio have: with them, files go into the same blocks again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from uuid import UUID

from django.conf import settings

from dags_app.models import MergeGroup
from dags_app.planning import names
from outputs_app.models import OutputBlock
from sandbox.atomic import replacing
from wms2_project.errors import PermanentError

PATTERN = "registered-*.json"


@dataclass(frozen=True, slots=True)
class Note:
    """A block, how many files it has, and which of them are the group's."""

    block_name: str
    files: int
    lfns: frozenset[str]


def write_notes(block: OutputBlock) -> None:
    """Write a note for every group of the block. Groups whose directory is gone get none."""
    by_group: dict[MergeGroup, list[str]] = {}
    for file in block.files.select_related("group__round"):
        by_group.setdefault(file.group, []).append(file.lfn)
    total = sum(map(len, by_group.values()))
    for group, lfns in by_group.items():
        directory = _directory(group.round.workflow_id, group.round.number) / group.name
        if directory.is_dir():
            content = {"block": block.block_name, "files": total, "lfns": sorted(lfns)}
            with replacing(directory / f"registered-{block.pk}.json") as written:
                written.write(json.dumps(content).encode())


def notes_of_group(group: MergeGroup) -> dict[str, Note]:
    """Return the notes of the group by file."""
    directory = _directory(group.round.workflow_id, group.round.number) / group.name
    return {lfn: note for path in directory.glob(PATTERN) for note in (_read(path),) for lfn in note.lfns}


def noted_blocks(workflow_id: UUID) -> frozenset[str]:
    """Return the names of all blocks that were, or were about to be, registered for the workflow."""
    return frozenset(
        _read(path).block_name
        for directory in _directories(workflow_id)
        for path in directory.glob(f"*/{PATTERN}")
    )


def _directories(workflow_id: UUID) -> Iterator[Path]:
    for number in count():
        directory = _directory(workflow_id, number)
        if not directory.is_dir():
            return
        yield directory


def _directory(workflow_id: UUID, round_number: int) -> Path:
    return Path(settings.SUBMIT_ROOT, str(names.dag_id(str(workflow_id), round_number=round_number)))


def _read(path: Path) -> Note:
    try:
        found = json.loads(path.read_bytes())
        return Note(str(found["block"]), int(found["files"]), frozenset(map(str, found["lfns"])))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PermanentError(
            f"{path} is unreadable: {error}", cure="Restore it from a backup of the submit root, or remove it"
        ) from error
