"""Secondary input (pileup): the files of a dataset that jobs read besides their input, and where they are.

Nothing of it is planned or split. DBS and Rucio are queried once for all workflows that name the dataset, and
again after some days; jobs run only at sites whose storages hold every file they are given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import F

from dags_app.adapters import dbs, rucio
from dags_app.models import SecondaryDataset, Workflow
from dags_app.services.input_files import READABLE, NoInput
from dags_app.services.locations import batches
from wms2_project.errors import ServiceUnavailable

CURE = "Check MCPileup, DataPileup and the secondary input datasets of the request"


def secondary_datasets(*, workflow: Workflow) -> list[SecondaryDataset]:
    """Return the resolved secondary datasets of the workflow."""
    names = workflow.secondary_input_datasets
    return list(SecondaryDataset.objects.filter(pk__in=names).order_by("pk")) if names else []


def unresolved(*, workflow: Workflow) -> list[str]:
    """Return the secondary datasets of the workflow whose files are not known yet."""
    if not workflow.secondary_input_datasets:
        return []
    known = {row.name for row in secondary_datasets(workflow=workflow)}
    return [name for name in workflow.secondary_input_datasets if name not in known]


def refresh_secondary(*, workflow: Workflow, now: datetime, waiting: bool = False) -> bool:
    """Query DBS and Rucio for secondary datasets that are new or were queried days ago.

    Return whether one was queried.

    `waiting`: no usable site holds them, so that Rucio is asked again for replicas much sooner. What is known
    stays in use while a service is unavailable. Raises NoInput if jobs could read nothing.
    """
    known = {row.name: row for row in secondary_datasets(workflow=workflow)}
    asked = False
    for name in workflow.secondary_input_datasets:
        row = known.get(name)
        try:
            if row is None or now - row.resolved_at > timedelta(days=settings.PILEUP_CACHE_DAYS):
                _store(read_secondary(name, now=now))
                asked = True
            elif waiting and now - row.located_at > timedelta(seconds=settings.LOCATION_MAX_AGE_SEC):
                _locate(row, now)
                _store(row)
                asked = True
        except ServiceUnavailable:
            if row is None:
                raise
    return asked


def forget_locations(*, workflow: Workflow) -> None:
    """Look up replicas of secondary datasets at the next check if the workflow waits for them."""
    rows = SecondaryDataset.objects.filter(pk__in=workflow.secondary_input_datasets)
    rows.update(located_at=F("resolved_at") - timedelta(days=1))


def _store(row: SecondaryDataset) -> None:
    """Store the dataset. If two requests resolve it at the same time, the later result stays."""
    columns = ["lfns", "missing", "places", "files", "resolved_at", "located_at"]
    SecondaryDataset.objects.bulk_create(
        [row], update_conflicts=True, unique_fields=["name"], update_fields=columns
    )


def read_secondary(name: str, *, now: datetime) -> SecondaryDataset:
    """Return the dataset as DBS and Rucio have it now; nothing is stored."""
    info = dbs().dataset(name)
    if info is None:
        raise NoInput(f"secondary dataset {name} is not in DBS", cure=CURE)
    if info.access_type not in READABLE:
        raise NoInput(f"the secondary dataset {name} is {info.access_type} in DBS", cure=CURE)
    valid = sorted(dbs().valid_lfns(name))
    if not valid:
        raise NoInput(f"the secondary dataset {name} has no valid files", cure=CURE)
    lfns = spread(valid, settings.PILEUP_MAX_FILES)
    row = SecondaryDataset(name=name, lfns=lfns, files=len(valid), resolved_at=now, located_at=now)
    _locate(row, now)
    return row


def spread(names: Sequence[str], most: int) -> list[str]:
    """Return at most so many of the names, taken at equal distances."""
    if len(names) <= most:
        return list(names)
    return [names[index * len(names) // most] for index in range(most)]


def _locate(row: SecondaryDataset, now: datetime) -> None:
    places: Counter[tuple[str, ...]] = Counter()
    missing = []
    for batch in batches(row.lfns):
        for lfn, storages in rucio().replicas(batch).items():
            if storages:
                places[tuple(sorted(storages))] += 1
            else:
                missing.append(lfn)
    row.places = [[list(storages), count] for storages, count in sorted(places.items())]
    row.missing, row.located_at = sorted(missing), now


def files_at(row: SecondaryDataset, storages: Iterable[str]) -> int:
    """Return how many of the files are at one of these storages."""
    read = frozenset(storages)
    return sum(count for held, count in row.places if read.intersection(held))


def located_files(row: SecondaryDataset) -> int:
    """Return how many of the files are at any storage. Jobs get these files."""
    return sum(count for _, count in row.places)


def holds_all(row: SecondaryDataset, storages: Iterable[str]) -> bool:
    """Return whether these storages together have every file that jobs get."""
    return 0 < located_files(row) == files_at(row, storages)


def pileup_of(*, workflow: Workflow) -> dict[str, list[str]]:
    """Return the files that jobs of the workflow get, by dataset."""
    return {
        row.name: [lfn for lfn in row.lfns if lfn not in gone]
        for row in secondary_datasets(workflow=workflow)
        for gone in [frozenset(row.missing)]
    }
