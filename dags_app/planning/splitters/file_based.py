"""FileBased: so many whole files per job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dags_app.planning.types import FileSpec, FileWindow, JobSpec, LumiRange

DEFAULT_FILES_PER_JOB = 10


def split_file_based(files: Sequence[FileSpec], params: Mapping[str, Any]) -> Iterator[JobSpec]:
    """Jobs of `files_per_job` files each; `total_files` stops early."""
    per_job = int(params.get("files_per_job") or DEFAULT_FILES_PER_JOB)
    total = params.get("total_files")
    wanted = files[: int(total)] if total else files
    for start in range(0, len(wanted), per_job):
        batch = wanted[start : start + per_job]
        yield JobSpec(
            files=tuple(FileWindow(file=file) for file in batch),
            sites=batch[0].sites,
            events=sum(file.events for file in batch),
            mask=joined_mask(batch),
        )


def joined_mask(files: Sequence[FileSpec]) -> tuple[LumiRange, ...] | None:
    """The lumis wanted of these files; None when all of all of them are."""
    if all(file.mask is None for file in files):
        return None
    wanted: set[LumiRange] = set()
    for file in files:
        wanted.update(file.lumis if file.mask is None else file.mask)
    return tuple(sorted(wanted))
