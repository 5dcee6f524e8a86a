"""Removal of files that jobs left on the sites' storage, once their round can no longer run or be collected.

The cleanup node of a group removes its unmerged files. Leftovers belong to groups that failed, moved to
another site or were removed from the queue: their unmerged directories, merged files that were not
collected, and unfinished files of killed jobs. Rounds that may still resume keep everything.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet

from dags_app.models import DAG, DAGEvent, FailureCluster, Round
from dags_app.planning import names
from dags_app.services import control
from dags_app.services.production import merged_lfns
from dags_app.states import LIVE_DAG, DAGStatus, GroupStatus, RoundStatus
from sandbox.elect_site import elected_site
from sandbox.names import pfn
from wms2_project.errors import Wms2Error
from wms2_project.grammar import Name, matches

logger = logging.getLogger(__name__)
MAX_ROUNDS = 200  # of one call
MAX_GROUPS = 500  # uncollected groups whose elected site is read
MAX_NAMED = 20
_PART = re.compile(r"\.([0-9a-f]+\.root)\.[0-9]+\.[0-9a-f]+\.tmp", re.ASCII)  # see sandbox/atomic.py
AGAIN_AFTER, GIVE_UP_AFTER = timedelta(minutes=10), timedelta(days=7)


@dataclass(slots=True)
class Swept:
    """What one sweep of a round removed, and what it could not remove."""

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
    if "{site}" not in settings.STORAGE_PREFIX:
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
        swept = _sweep(round_, dag, sites, ends)
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


def _sweep(round_: Round, dag: DAG | None, sites: Collection[str], ends: float) -> Swept:
    workflow, swept = round_.workflow, Swept()
    used = _used_sites(round_, dag)
    own = re.compile(rf"mg_[0-9]+_r{round_.number}", re.ASCII)
    every, given_up = _merged_names(round_)
    for site in sorted(used.union(sites)):
        root = Path(pfn(settings.STORAGE_PREFIX, site, ""))
        if not root.is_dir():
            if site in used:
                swept.left.append(f"the storage of {site} does not exist")
            continue
        for dataset in workflow.output_datasets:
            base = names.dataset_directory(workflow.unmerged_lfn_base, dataset)
            _empty_unmerged(root, f"{base}/{workflow.pk}", own, swept, ends)
            base = names.dataset_directory(workflow.merged_lfn_base, dataset)
            _remove_merged(root, base, every, given_up, swept)
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


def _empty_unmerged(root: Path, lfn: str, own: re.Pattern[str], swept: Swept, ends: float) -> None:
    directory = _below(root, lfn, swept)
    if directory is None:
        return
    for entry in _entries(directory, swept):
        if own.fullmatch(entry.name):
            if time.monotonic() >= ends:
                swept.out_of_time = True
                return
            _remove(entry, swept)
    try:
        directory.rmdir()  # succeeds once it is empty
    except OSError:
        return


def _remove_merged(
    root: Path, lfn: str, every: frozenset[str], given_up: frozenset[str], swept: Swept
) -> None:
    """Remove merged files that were not collected, and temporary parts of merged files."""
    directory = _below(root, lfn, swept)
    if directory is None:
        return
    for entry in _entries(directory, swept):
        part = _PART.fullmatch(entry.name)
        if entry.name in given_up or (part and part[1] in every):
            _remove(entry, swept)


def _below(root: Path, lfn: str, swept: Swept) -> Path | None:
    """Return the directory below the root; None if it does not exist or a link leads out of the root."""
    directory = Path(f"{root}{lfn}")
    if not directory.is_dir():
        return None
    if os.path.realpath(directory) != f"{os.path.realpath(root)}{lfn}":
        swept.left.append(f"{directory} contains a link out of {root}")
        return None
    return directory


def _entries(directory: Path, swept: Swept) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as found:
            yield from found
    except OSError as error:
        swept.left.append(f"{directory}: {error.strerror}")


def _remove(entry: os.DirEntry[str], swept: Swept) -> None:
    """Remove a file, or a directory with its content; links are removed, not followed."""
    try:
        if not entry.is_dir(follow_symlinks=False):
            os.unlink(entry.path)
            swept.removed += 1
            return
        inside = sum(len(files) for _, _, files in os.walk(entry.path))
        shutil.rmtree(entry.path)
        swept.removed += inside
    except FileNotFoundError:
        return
    except OSError as error:
        swept.left.append(f"{entry.path}: {error.strerror}")
