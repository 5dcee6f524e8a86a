"""Archiving and removal of the submit directories of requests that ended long ago."""

from __future__ import annotations

import logging
import os
import shutil
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from dags_app.models import DAG, DAGEvent, Round
from dags_app.services.archives import archive_directory, archive_path
from dags_app.services.leftovers import has_left_queue
from dags_app.services.storage_places import is_storage_configured
from dags_app.states import LIVE_DAG, GroupStatus
from wms2_project.errors import NotFound

logger = logging.getLogger(__name__)
MAX_ROUNDS = 200  # of one call
REMOVED = "directory_removed"  # the event


def remove_directories(*, ended: QuerySet[Any, Any], now: datetime, seconds: float) -> int:
    """Archive and remove the directories of the ended workflows' rounds; return how many were removed.

    Rounds with a live DAG, with uncollected groups, or with files still to be removed from the sites'
    storage are kept. The time limit holds between directories and while one is emptied; an interrupted
    removal continues at the next call.
    """
    kept = Round.objects.filter(directory_removed_at__isnull=True, workflow__in=ended)
    idle = kept.exclude(dags__status__in=sorted(LIVE_DAG)).exclude(groups__status=GroupStatus.DONE)
    if is_storage_configured():  # otherwise files of jobs are not removed
        idle = idle.filter(sweep_at__isnull=True)
    ends, done = monotonic() + seconds, 0
    for round_ in idle.order_by("created_at")[:MAX_ROUNDS]:
        if monotonic() >= ends:
            break
        done += _remove(round_, now=now, ends=ends)
    return done


def check_directory(dag: DAG) -> Path:
    """Return the DAG's directory; raise NotFound if it was removed by policy."""
    removed = dag.round.directory_removed_at
    if removed is not None:
        raise NotFound(
            f"The directory of DAG {dag.pk} was removed on {removed:%F} by policy",
            cure=f"See /errors of its request{_where_archived(dag.round)}",
        )
    return Path(dag.submit_dir)


def _where_archived(round_: Round) -> str:
    first = round_.dags.order_by("created_at").first()
    archive = archive_path(first.pk) if first is not None else None
    return f", or the archive {archive} on the submit host" if archive and archive.exists() else ""


def _remove(round_: Round, *, now: datetime, ends: float) -> bool:
    dags = list(round_.dags.order_by("created_at"))
    if not dags or not all(has_left_queue(dag) for dag in dags):
        return False
    first, directory = dags[0], Path(dags[0].submit_dir)
    if directory.name != str(first.pk) or directory.is_symlink():
        logger.warning("%s is not removed: it is not the directory of DAG %s", directory, first.pk)
        return False
    try:
        archive_directory(directory, dag_id=first.pk)
        if not _empty(directory, ends):
            return False
    except OSError as error:
        logger.warning("%s is not removed yet: %s", directory, error)
        return False
    with transaction.atomic():
        Round.objects.filter(pk=round_.pk).update(directory_removed_at=now)
        archive = str(archive_path(first.pk))
        detail = {"directory": str(directory), "archive": archive, "reason": "its request ended long ago"}
        DAGEvent.objects.create(dag=dags[-1], event_type=REMOVED, detail=detail)
    return True


def _empty(directory: Path, ends: float) -> bool:
    """Remove the directory, group by group; return False if time ran out. Links are not followed."""
    if not directory.exists():
        return True
    with os.scandir(directory) as entries:
        for entry in list(entries):
            if monotonic() >= ends:
                return False
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)
    directory.rmdir()
    return True
