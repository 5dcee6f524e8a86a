"""Removal of files that jobs left on the sites' storage, once their round can no longer run or be collected.

The cleanup node of a group removes its unmerged files. Leftovers belong to groups that failed, moved to
another site or were removed from the queue: their unmerged directories, merged files that were not
collected, and unfinished files of killed jobs. Rounds that may still resume keep everything.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.db.models import Q, QuerySet

from dags_app.models import DAG, DAGEvent, FailureCluster, Round
from dags_app.planning import names
from dags_app.services import control
from dags_app.services.credentials import storage_of
from dags_app.services.production import merged_lfns
from dags_app.services.storage_places import dag_places, is_storage_configured
from dags_app.states import LIVE_DAG, DAGStatus, GroupStatus, RoundStatus
from sandbox.elect_site import elected_site
from sandbox.storage import Entry, Kind, Storage, StorageError, is_mounted, local_path
from wms2_project.errors import Wms2Error
from wms2_project.grammar import Name, matches

logger = logging.getLogger(__name__)
MAX_ROUNDS = 200  # of one call
MAX_GROUPS = 500  # uncollected groups whose elected site is read
MAX_NAMED = 20
# A file that a killed job had not finished: `<name>.part-…` and, by earlier versions, `.<name>.….tmp`.
_PART = re.compile(r"\.?([0-9a-f]+\.root)(?:\.part-[0-9a-f]+|\.[0-9]+\.[0-9a-f]+\.tmp)", re.ASCII)
AGAIN_AFTER, GIVE_UP_AFTER = timedelta(minutes=10), timedelta(days=7)


@dataclass(slots=True)
class Swept:
    """Files that one sweep of a round removed, and those that it failed to remove."""

    removed: int = 0
    left: list[str] = field(default_factory=list)
    out_of_time: bool = False


def remove_leftovers(
    *, ended: QuerySet[Any, Any], sites: Collection[str], now: datetime, seconds: float
) -> int:
    """Remove the leftovers of rounds that are over, for at most so long; return how many are done.

    These are resolved rounds and those of the ended workflows, once none of their jobs is in a queue.
    Failed removals are retried with growing intervals for a week; then their names are recorded in the
    DAG's events.
    """
    if not is_storage_configured():
        return 0
    over = Round.objects.filter(Q(status=RoundStatus.RESOLVED) | Q(workflow__in=ended), sweep_at__lte=now)
    idle = over.exclude(dags__status__in=sorted(LIVE_DAG)).select_related("workflow")
    ends, done = time.monotonic() + seconds, 0
    for round_ in idle.order_by("sweep_at")[:MAX_ROUNDS]:
        if time.monotonic() >= ends:
            break
        dag = round_.dags.filter(children__isnull=True).order_by("-created_at").first()
        if dag is not None and not has_left_queue(dag):
            _postpone(round_, dag, now)
            continue
        with storage_of(workflow=round_.workflow, now=now) as access:
            swept = _sweep(access, round_, dag, sites, ends)
        if swept.out_of_time:
            return done
        done += _conclude(round_, dag, swept, now)
    return done


def has_left_queue(dag: DAG) -> bool:
    """Return whether no job of the DAG is in a queue. A job that is being removed may still write."""
    if dag.status == DAGStatus.COMPLETED:
        return True
    try:
        return control.clear_queue(dag=dag, reason="its round is over") == 0
    except Wms2Error as error:
        logger.warning("leftovers of %s are not removed yet: %s", dag.token, error)
        return False


def _conclude(round_: Round, dag: DAG | None, swept: Swept, now: datetime) -> bool:
    """Record what was removed; return False if the round is to be swept again."""
    if swept.left and now - _ended_at(round_, dag) < GIVE_UP_AFTER:
        logger.warning("%s: leftovers not removed: %s", round_.workflow, "; ".join(swept.left[:MAX_NAMED]))
        _postpone(round_, dag, now)
        return False
    if dag is not None and (swept.removed or swept.left):
        detail = {"files": swept.removed, "left": swept.left[:MAX_NAMED], "left_count": len(swept.left)}
        DAGEvent.objects.create(dag=dag, event_type="leftovers_removed", detail=detail)
    Round.objects.filter(pk=round_.pk).update(sweep_at=None)
    return True


def _postpone(round_: Round, dag: DAG | None, now: datetime) -> None:
    wait = max(AGAIN_AFTER, now - _ended_at(round_, dag))
    Round.objects.filter(pk=round_.pk).update(sweep_at=now + wait)


def _ended_at(round_: Round, dag: DAG | None) -> datetime:
    return round_.resolved_at or (dag.completed_at if dag is not None else None) or round_.created_at


def _sweep(access: Storage, round_: Round, dag: DAG | None, sites: Collection[str], ends: float) -> Swept:
    """Check the sites that were used and, where storage is mounted, all others."""
    workflow, swept = round_.workflow, Swept()
    used, places = _used_sites(round_, dag), dag_places(dag)
    every, given_up = _merged_names(round_)
    for site in sorted(used.union(sites)):
        for prefix in places.prefixes(site):
            if not is_mounted(prefix) and site not in used:
                continue
            if is_mounted(prefix) and not local_path(prefix).is_dir():
                if site in used:
                    swept.left.append(f"the storage of {site} does not exist")
                continue
            sweeper = _Sweeper(access, prefix, swept, ends)
            try:
                for dataset in workflow.written_datasets:
                    base = names.dataset_directory(workflow.unmerged_lfn_base, dataset)
                    sweeper.empty_unmerged(f"{base}/{workflow.pk}", round_.number)
                    base = names.dataset_directory(workflow.merged_lfn_base, dataset)
                    sweeper.remove_merged(base, every, given_up)
            except StorageError as error:
                swept.left.append(f"{site}: {error}")
            if swept.out_of_time:
                return swept
    return swept


def _used_sites(round_: Round, dag: DAG | None) -> set[str]:
    """Return sites where groups of the round have been; for groups that moved, only where one failed."""
    found = set(round_.groups.exclude(site="").values_list("site", flat=True).distinct())
    found |= set(FailureCluster.objects.filter(dag__round=round_).values_list("site", flat=True))
    if dag is not None:
        uncollected = round_.groups.exclude(status=GroupStatus.COLLECTED).order_by("index")[:MAX_GROUPS]
        found |= {elected_site(Path(dag.submit_dir) / group.name) for group in uncollected}
    return {site for site in found if matches(Name.SITE, site)}


def _merged_names(round_: Round) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of the round's merged files, and of those that were not collected."""
    every: set[str] = set()
    given_up: set[str] = set()
    for group in round_.groups.only("index", "status", "round").iterator(chunk_size=5000):
        group.round = round_
        own = [os.path.basename(lfn) for lfn in merged_lfns(group)]
        every.update(own)
        if group.status != GroupStatus.COLLECTED:
            given_up.update(own)
    return frozenset(every), frozenset(given_up)


class _Sweeper:
    """Removes files below one prefix. Links on mounted storage are removed, never followed."""

    def __init__(self, storage: Storage, prefix: str, swept: Swept, ends: float) -> None:
        self._storage, self._prefix, self._swept, self._ends = storage, prefix, swept, ends

    def empty_unmerged(self, lfn: str, round_number: int) -> None:
        """Remove the round's directories below the workflow's, and that one when it is empty."""
        own = re.compile(rf"mg_[0-9]+_r{round_number}", re.ASCII)
        url = self._below(lfn)
        entries = self._storage.list(url) if url else []
        for entry in entries:
            if own.fullmatch(entry.name):
                if time.monotonic() >= self._ends:
                    self._swept.out_of_time = True
                    return
                self._remove(f"{url}/{entry.name}", entry)
        if entries:
            with suppress(StorageError):
                self._storage.remove_directory(url)  # succeeds once it is empty

    def remove_merged(self, lfn: str, every: frozenset[str], given_up: frozenset[str]) -> None:
        """Remove merged files that were not collected, and temporary parts of merged files."""
        url = self._below(lfn)
        for entry in self._storage.list(url) if url else []:
            part = _PART.fullmatch(entry.name)
            if entry.name in given_up or (part and part[1] in every):
                self._remove(f"{url}/{entry.name}", entry)

    def _below(self, lfn: str) -> str:
        """Return the URL of a directory; '' if a link in its path leads out of a mounted storage."""
        url = f"{self._prefix}{lfn}"
        if is_mounted(url) and local_path(url).is_dir():
            root, directory = local_path(self._prefix), local_path(url)
            if os.path.realpath(directory) != f"{os.path.realpath(root)}{lfn}":
                self._swept.left.append(f"{directory} leads elsewhere")
                return ""
        return url

    def _remove(self, url: str, entry: Entry) -> None:
        """Remove a file, or a directory with all that is in it."""
        try:
            if entry.is_directory:
                for inner in self._storage.list(url):
                    self._remove(f"{url}/{inner.name}", inner)
                self._storage.remove_directory(url)
            else:
                self._swept.removed += self._storage.delete(url)
        except StorageError as error:
            if error.kind in (Kind.DOWN, Kind.TIMEOUT):
                raise
            self._swept.left.append(error.message)
