"""Resolving input: the files of a dataset from DBS, their places from Rucio, into the ledger once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, islice
from operator import itemgetter

from django.db.models import Sum

from cms.types import DatasetFile
from dags_app.adapters import dbs, rucio
from dags_app.models import InputFile, Workflow
from dags_app.planning.lumis import normalised
from dags_app.planning.plan import PlanRefused
from dags_app.planning.selection import Selection
from dags_app.planning.types import FileSpec, SitePool
from dags_app.services.ledger import tally
from dags_app.states import UNFINISHED_FILE, FileState
from wms2_project.errors import PermanentError

BATCH = 1000  # Rucio takes so many names per call
READABLE = frozenset({"VALID", "PRODUCTION"})  # access types of datasets one may still read
_RESTORE = "Have it restored and release the request, or abort it"


class NoInput(PermanentError):
    """The dataset gives this request nothing to work on; the message says why exactly."""


class InputLost(PlanRefused):
    """The input was there when the request came, and is not now."""


@dataclass(frozen=True, slots=True)
class InputSummary:
    """What the ledger holds for a workflow."""

    files: int
    events: int


def resolve_input(*, workflow: Workflow, now: datetime) -> InputSummary:
    """Fill the ledger with the wanted files. Repeating it adds nothing twice."""
    if workflow.input_resolved_at is None:
        dataset = workflow.input_dataset or ""
        info = dbs().dataset(dataset)
        if info is None:
            raise NoInput(f"DBS does not know dataset {dataset}", cure="Check the name of the input dataset")
        if info.access_type not in READABLE:
            raise NoInput(f"{dataset} is {info.access_type} in DBS", cure="Choose a valid dataset")
        offered, wants = 0, _Wants(workflow)
        for batch in _batches(dbs().files(dataset)):
            offered += len(batch)
            _store(workflow, [file for file in batch if wants(file)])
        if offered == 0:
            raise NoInput(f"{dataset} has no valid files", cure="Wait for data or choose another dataset")
        if not workflow.input_files.exclude(state=FileState.EXCLUDED).exists():
            raise NoInput(
                f"run lists, block lists, lumi mask and operators exclude all {offered} files of {dataset}",
                cure="Widen the run list, the block list or the mask",
            )
        Workflow.objects.filter(pk=workflow.pk).update(input_resolved_at=now)
        workflow.input_resolved_at = now
        tally(workflow=workflow)
    totals = workflow.input_files.aggregate(events=Sum("events"))
    return InputSummary(files=workflow.input_files.count(), events=totals["events"] or 0)


def read_input(*, workflow: Workflow, sites: SitePool) -> list[FileSpec]:
    """The wanted files as planning sees them, straight from DBS and Rucio; nothing is stored."""
    files: list[FileSpec] = []
    wants = _Wants(workflow)
    for batch in _batches(dbs().files(workflow.input_dataset or "")):
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
    """Does the request want anything of a file?"""

    def __init__(self, workflow: Workflow) -> None:
        params = workflow.splitting_params
        self._selection = Selection.of(params)
        self._blocks = frozenset(params.get("block_whitelist") or ())
        self._refused = frozenset(params.get("block_blacklist") or ())

    def __call__(self, file: DatasetFile) -> bool:
        if (self._blocks and file.block_name not in self._blocks) or file.block_name in self._refused:
            return False
        return self._selection.everything or bool(self._selection.wanted(normalised(file.lumis)))


def check_input(*, workflow: Workflow) -> None:
    """Refuse to plan on input that DBS no longer has as it was resolved; jobs would only fail on it."""
    dataset = workflow.input_dataset or ""
    info = dbs().dataset(dataset)
    if info is None:
        raise InputLost(f"DBS does not know dataset {dataset} any more", cure=_RESTORE)
    if info.access_type not in READABLE:
        raise InputLost(f"{dataset} has become {info.access_type} in DBS", cure=_RESTORE)
    unfinished = workflow.input_files.filter(state__in=UNFINISHED_FILE)
    blocks = set(unfinished.order_by().values_list("block_name", flat=True).distinct())
    lost = sorted(blocks - dbs().blocks(dataset))
    if lost:
        raise InputLost(
            f"DBS has lost {len(lost)} blocks of the input, the first is {lost[0]}", cure=_RESTORE
        )
    rows = unfinished.order_by("block_name", "lfn").values_list("block_name", "lfn")
    gone: list[str] = []
    for block, own in groupby(rows, key=itemgetter(0)):
        valid = dbs().block_lfns(block)
        gone.extend(lfn for _, lfn in own if lfn not in valid)
    if gone:
        raise InputLost(
            f"{len(gone)} files of the input are not valid in DBS any more, the first is {gone[0]}",
            cure="Have them restored or exclude them, and release the request; or abort it",
        )


def _store(workflow: Workflow, files: list[DatasetFile]) -> None:
    places = rucio().replicas([file.lfn for file in files]) if files else {}
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


def _batches(files: Iterable[DatasetFile]) -> Iterator[list[DatasetFile]]:
    waiting = iter(files)
    while batch := list(islice(waiting, BATCH)):
        yield batch
