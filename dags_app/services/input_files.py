"""Resolution of input: files of a dataset from DBS and their locations from Rucio, stored in the ledger.

Each block is one transaction that also stores its name, so a call that ends early loses nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Sum

from cms.types import DatasetFile, DatasetInfo
from dags_app.adapters import dbs, rucio
from dags_app.models import InputFile, Workflow
from dags_app.planning.lumis import normalised
from dags_app.planning.plan import PlanRefused
from dags_app.planning.selection import Selection
from dags_app.planning.types import FileSpec, SitePool
from dags_app.services.ledger import tally
from dags_app.services.locations import BATCH, batches
from dags_app.states import UNFINISHED_FILE, FileState
from wms2_project.errors import PermanentError

READABLE = frozenset({"VALID", "PRODUCTION"})  # access types of readable datasets
_RESTORE = "Have it restored in DBS and release the request, or abort it"


class NoInput(PermanentError):
    """The dataset has no input for this request. The message is the reason."""


class InputLost(PlanRefused):
    """The input existed when the request was resolved, and does not now."""


@dataclass(frozen=True, slots=True)
class InputSummary:
    """Content of the ledger of a workflow."""

    files: int
    events: int
    blocks_left: int = 0  # still to be read


def resolve_input(*, workflow: Workflow, now: datetime, seconds: float = math.inf) -> InputSummary:
    """Fill the ledger with the selected files, for at most so long, but at least one block.

    Repeat it while blocks are left: each is read once, and nothing is added twice.
    """
    blocks_left = 0
    if workflow.input_resolved_at is None:
        found = [_readable_dataset(name) for name in workflow.input_datasets]
        if not workflow.resolved_through:  # before the first file, to detect later changes
            _save(workflow, input_seen=_sums(found))
        blocks_left = _read_blocks(workflow, seconds=seconds)
        if not blocks_left:
            _close(workflow, found, now)
    totals = workflow.input_files.aggregate(events=Sum("events"))
    files = workflow.input_files.count()
    return InputSummary(files=files, events=totals["events"] or 0, blocks_left=blocks_left)


def _readable_dataset(name: str) -> DatasetInfo:
    """Return the dataset from DBS. Raises NoInput if it cannot be read or has no files."""
    info = dbs().dataset(name)
    if info is None:
        raise NoInput(f"dataset {name} is not in DBS", cure="Check the name of the input dataset")
    if info.access_type not in READABLE:
        raise NoInput(f"{name} is {info.access_type} in DBS", cure="Choose a valid dataset")
    if info.files == 0:
        raise NoInput(f"{name} has no valid files", cure="Wait for data or choose another dataset")
    return info


def _read_blocks(workflow: Workflow, *, seconds: float) -> int:
    """Store the files of the remaining blocks until the time is over; return how many are left."""
    wants, ends = _Wants(workflow), time.monotonic() + seconds
    named = sorted(
        block for name in workflow.input_datasets for block in dbs().blocks(name) if wants.block(block)
    )
    blocks = [name for name in named if name > workflow.resolved_through]
    for number, block in enumerate(blocks):
        if number and time.monotonic() >= ends:
            return len(blocks) - number
        files = [file for file in dbs().block_files(block) if wants(file)]
        places = rucio().replicas([file.lfn for file in files]) if files else {}
        with transaction.atomic():
            _store(workflow, files, places)
            _save(workflow, resolved_through=block)
    return 0


def read_new_files(*, workflow: Workflow) -> None:
    """Add files of DBS that are not in the ledger, if the datasets have changed since they were read."""
    found = [_readable_dataset(name) for name in workflow.input_datasets]
    if workflow.input_seen == _sums(found):
        return
    wants = _Wants(workflow)
    for batch in batches(file for info in found for file in dbs().files(info.name)):
        known = set(
            workflow.input_files.filter(lfn__in=[file.lfn for file in batch]).values_list("lfn", flat=True)
        )
        fresh = [file for file in batch if file.lfn not in known and wants(file)]
        if fresh:
            _store(workflow, fresh, rucio().replicas([file.lfn for file in fresh]))
    _save(workflow, input_seen=_sums(found))


def _close(workflow: Workflow, found: Sequence[DatasetInfo], now: datetime) -> None:
    if not workflow.input_files.exclude(state=FileState.EXCLUDED).exists():
        _save(workflow, resolved_through="")
        raise NoInput(
            f"run lists, block lists, lumi mask and operators exclude all"
            f" {sum(info.files for info in found)} files of {' and '.join(workflow.input_datasets):.500}",
            cure="Extend the run list, the block list or the mask",
        )
    _save(workflow, input_resolved_at=now, located_at=now, located_through=None, resolved_through="")
    tally(workflow=workflow)


def _save(workflow: Workflow, **values: Any) -> None:
    Workflow.objects.filter(pk=workflow.pk).update(**values)
    for name, value in values.items():
        setattr(workflow, name, value)


def _sums(found: Sequence[DatasetInfo]) -> dict[str, dict[str, int]]:
    """Return numbers that change with every change of the datasets' files."""
    names = ("blocks", "files", "events", "size_bytes", "changed_at")
    return {info.name: {name: getattr(info, name) for name in names} for info in found}


def read_input(*, workflow: Workflow, sites: SitePool) -> list[FileSpec]:
    """Return the selected files for planning, directly from DBS and Rucio, without storing them."""
    files: list[FileSpec] = []
    wants = _Wants(workflow)
    every = (file for name in workflow.input_datasets for file in dbs().files(name))
    for batch in batches(every):
        wanted = [file for file in batch if wants(file)]
        places = rucio().replicas([file.lfn for file in wanted]) if wanted else {}
        files.extend(
            FileSpec(
                lfn=file.lfn,
                events=file.events,
                size_bytes=file.size_bytes,
                sites=sites.reading(frozenset(places[file.lfn])),
                adler32=file.adler32,
                lumis=file.lumis,
            )
            for file in wanted
        )
    return files


class _Wants:
    """Selection of blocks and files by the request."""

    def __init__(self, workflow: Workflow) -> None:
        params = workflow.splitting_params
        self._selection = Selection.of(params)
        self._blocks = frozenset(params.get("block_whitelist") or ())
        self._refused = frozenset(params.get("block_blacklist") or ())

    def block(self, name: str) -> bool:
        """Return whether the request selects the block."""
        return not (self._blocks and name not in self._blocks) and name not in self._refused

    def __call__(self, file: DatasetFile) -> bool:
        if not self.block(file.block_name):
            return False
        return self._selection.everything or bool(self._selection.wanted(normalised(file.lumis)))


def check_input(*, workflow: Workflow) -> None:
    """Raise InputLost if DBS no longer has the input as it was resolved.

    This takes two calls for an unchanged dataset; after a change the valid files are listed once.
    """
    found = [_dataset_still_there(name) for name in workflow.input_datasets]
    if workflow.input_seen == _sums(found):
        return
    unfinished = workflow.input_files.filter(state__in=UNFINISHED_FILE)
    blocks = set(unfinished.order_by().values_list("block_name", flat=True).distinct())
    lost = sorted(blocks.difference(*(dbs().blocks(info.name) for info in found)))
    if lost:
        raise InputLost(
            f"DBS has lost {len(lost)} blocks of the input, the first is {lost[0]}", cure=_RESTORE
        )
    valid = frozenset[str]().union(*(dbs().valid_lfns(info.name) for info in found))
    names = unfinished.order_by("lfn").values_list("lfn", flat=True)
    gone = [lfn for lfn in names.iterator(chunk_size=5000) if lfn not in valid]
    if gone:
        raise InputLost(
            f"{len(gone)} files of the input are not valid in DBS any more, the first is {gone[0]}",
            cure="Have them restored in DBS or exclude them, then release the request; or abort it",
        )
    _save(workflow, input_seen=_sums(found))


def _dataset_still_there(name: str) -> DatasetInfo:
    info = dbs().dataset(name)
    if info is None:
        raise InputLost(f"dataset {name} is not in DBS any more", cure=_RESTORE)
    if info.access_type not in READABLE:
        raise InputLost(f"{name} has become {info.access_type} in DBS", cure=_RESTORE)
    return info


def _store(workflow: Workflow, files: list[DatasetFile], places: Mapping[str, Sequence[str]]) -> None:
    rows = [
        InputFile(
            workflow=workflow,
            lfn=file.lfn,
            block_name=file.block_name,
            size_bytes=file.size_bytes,
            events=file.events,
            adler32=file.adler32,
            lumis=[list(part) for part in file.lumis],
            locations=sorted(places[file.lfn]),
        )
        for file in files
    ]
    InputFile.objects.bulk_create(rows, ignore_conflicts=True, batch_size=BATCH)
