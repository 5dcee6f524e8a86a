"""Locations of unfinished input files, queried from Rucio in bulk, and files that no site can read."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, TypeVar

from django.conf import settings
from django.db.models import QuerySet

from dags_app.adapters import rucio
from dags_app.failures.records import bad_copies
from dags_app.models import InputFile, Workflow
from dags_app.planning.types import SitePool
from dags_app.pull.places import sync_places
from dags_app.states import IN_QUEUE, UNFINISHED_FILE, FileState

BATCH = 1000  # names per call to Rucio
Located = tuple[int, str, list[str]]  # id, LFN, storages
_T = TypeVar("_T")


def are_fresh(*, workflow: Workflow, now: datetime, max_age_sec: float | None = None) -> bool:
    """Return whether the locations of all unfinished files are recent."""
    if workflow.located_at is None or workflow.located_through is not None:
        return False
    age = settings.LOCATION_MAX_AGE_SEC if max_age_sec is None else max_age_sec
    return now - workflow.located_at < timedelta(seconds=age)


def refresh_locations(
    *, workflow: Workflow, now: datetime, seconds: float, max_age_sec: float | None = None
) -> int:
    """Look up the locations of the unfinished files for a limited time; return how many are left.

    The next call continues where this one stopped. There are no calls while the last look-up is fresh. Where
    files of a running DAG have moved, its landings are decided anew.
    """
    if not workflow.input_datasets or are_fresh(workflow=workflow, now=now, max_age_sec=max_age_sec):
        return 0
    unfinished = workflow.input_files.filter(state__in=UNFINISHED_FILE).order_by("pk")
    rest = unfinished.filter(pk__gt=workflow.located_through or 0).values_list("pk", "lfn", "locations")
    ends = time.monotonic() + seconds
    for batch in batches(rest.iterator(chunk_size=BATCH)):
        _note_moved(workflow, _store(batch), now)
        if workflow.pulls:
            sync_places(workflow=workflow)
        _save(workflow, located_through=batch[-1][0])
        if time.monotonic() >= ends:
            left = unfinished.filter(pk__gt=batch[-1][0]).count()
            if left:
                return left
    _save(workflow, located_at=now, located_through=None)
    return 0


def locate_files(*, workflow: Workflow, lfns: Collection[str]) -> int:
    """Query where these files are; return how many have moved."""
    rows = workflow.input_files.filter(lfn__in=lfns).order_by("pk").values_list("pk", "lfn", "locations")
    return sum(len(_store(batch)) for batch in batches(rows.iterator(chunk_size=BATCH)))


def _note_moved(workflow: Workflow, moved: Collection[int], now: datetime) -> None:
    assigned = InputFile.objects.filter(pk__in=moved, state=FileState.ASSIGNED) if moved else None
    if assigned is not None and assigned.exists():
        running = workflow.dags.filter(status__in=sorted(IN_QUEUE), applied_sites__isnull=False)
        running.update(landings_stale_since=now)


def readable_files(*, lfns: Collection[str], workflow: Workflow, sites: SitePool) -> list[str]:
    """Return those of these files that have a replica at a usable site which was not found bad."""
    bad, found = bad_copies(workflow=workflow), []
    for batch in batches(sorted(lfns)):
        for lfn, storages in rucio().replicas(batch).items():
            if sites.reading(frozenset(storages)) - bad.reported.get(lfn, frozenset()):
                found.append(lfn)
    return found


def forget_locations(*, workflow: Workflow) -> None:
    """Make the next planning query the locations of every unfinished file."""
    _save(workflow, located_at=None, located_through=None)


def waiting_files(*, workflow: Workflow, sites: SitePool) -> QuerySet[InputFile]:
    """Return the files to be planned that no usable site can read."""
    return _plannable(workflow).exclude(locations__overlap=_readable(sites))


def can_place(*, workflow: Workflow, sites: SitePool) -> bool:
    """Return whether a usable site can read any of the files to be planned."""
    return _plannable(workflow).filter(locations__overlap=_readable(sites)).exists()


def note_waiting(*, workflow: Workflow, sites: SitePool, now: datetime) -> None:
    """Store since when files wait for a replica that a usable site can read."""
    waits = (
        not workflow.generates
        and not workflow.pulls
        and waiting_files(workflow=workflow, sites=sites).exists()
    )
    if waits != (workflow.unplaced_since is not None):
        _save(workflow, unplaced_since=now if waits else None)


def batches(items: Iterable[_T]) -> Iterator[list[_T]]:
    """Yield the items in batches of the size that Rucio accepts."""
    rest = iter(items)
    while batch := list(islice(rest, BATCH)):
        yield batch


def _plannable(workflow: Workflow) -> QuerySet[InputFile]:
    states = [FileState.FRESH, FileState.ATTEMPTED]
    return workflow.input_files.filter(state__in=states, attempts__lt=settings.MAX_FILE_ATTEMPTS)


def _readable(sites: SitePool) -> list[str]:
    return sorted(storage for storage, readers in sites.by_storage.items() if readers & sites.names)


def _store(files: Sequence[Located]) -> list[int]:
    """Look up one batch and return the ids of those that moved; files share few places: one update each."""
    places = rucio().replicas([lfn for _, lfn, _ in files])
    moved: dict[tuple[str, ...], list[int]] = {}
    for key, lfn, known in files:
        found = tuple(sorted(places[lfn]))
        if found != tuple(known):
            moved.setdefault(found, []).append(key)
    for found, keys in moved.items():
        InputFile.objects.filter(pk__in=keys).update(locations=list(found), place_set=None)
    return [key for keys in moved.values() for key in keys]


def _save(workflow: Workflow, **values: Any) -> None:
    Workflow.objects.filter(pk=workflow.pk).update(**values)
    for name, value in values.items():
        setattr(workflow, name, value)
