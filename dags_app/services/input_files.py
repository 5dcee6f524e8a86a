"""Resolving input: the files of a dataset from DBS, their places from Rucio, into the ledger once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from django.db.models import Sum

from cms.types import DatasetFile
from dags_app.adapters import dbs, rucio
from dags_app.models import InputFile, Workflow
from dags_app.planning.selection import selects_everything, wanted_lumis
from dags_app.planning.types import FileSpec, SitePool
from wms2_project.errors import PermanentError

BATCH = 1000  # Rucio takes so many names per call


class NoInput(PermanentError):
    """The dataset gives this request nothing to work on; the message says why exactly."""


@dataclass(frozen=True, slots=True)
class InputSummary:
    """What the ledger holds for a workflow."""

    files: int
    events: int


def resolve_input(*, workflow: Workflow, now: datetime) -> InputSummary:
    """Fill the ledger with the wanted files. Repeating it adds nothing twice."""
    if workflow.input_resolved_at is None:
        dataset = workflow.input_dataset or ""
        if dbs().dataset(dataset) is None:
            raise NoInput(f"DBS does not know dataset {dataset}", cure="Check the name of the input dataset")
        offered = 0
        for batch in _batches(dbs().files(dataset)):
            offered += len(batch)
            _store(workflow, [file for file in batch if _wanted(file, workflow)])
        if offered == 0:
            raise NoInput(f"{dataset} has no valid files", cure="Wait for data or choose another dataset")
        if not workflow.input_files.exists():
            raise NoInput(
                f"run lists, block lists and lumi mask exclude all {offered} files of {dataset}",
                cure="Widen the run list, the block list or the mask",
            )
        Workflow.objects.filter(pk=workflow.pk).update(input_resolved_at=now)
        workflow.input_resolved_at = now
    totals = workflow.input_files.aggregate(events=Sum("events"))
    return InputSummary(files=workflow.input_files.count(), events=totals["events"] or 0)


def read_input(*, workflow: Workflow, sites: SitePool) -> list[FileSpec]:
    """The wanted files as planning sees them, straight from DBS and Rucio; nothing is stored."""
    files: list[FileSpec] = []
    for batch in _batches(dbs().files(workflow.input_dataset or "")):
        wanted = [file for file in batch if _wanted(file, workflow)]
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


def _wanted(file: DatasetFile, workflow: Workflow) -> bool:
    params = workflow.splitting_params
    allowed, refused = params.get("block_whitelist"), params.get("block_blacklist") or ()
    if (allowed and file.block_name not in allowed) or file.block_name in refused:
        return False
    return selects_everything(params) or bool(wanted_lumis(file.lumis, params))


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
