"""Replica locations of a request: looked up before planning, and again while files wait or a DAG runs."""

from __future__ import annotations

import logging

from django.conf import settings

from dags_app.services import locations
from requests_app.lifecycle.outcome import Wait
from requests_app.lifecycle.snapshot import Snapshot
from wms2_project.errors import ServiceUnavailable, Wms2Error
from wms2_project.wakeups import DATA
from wms2_project.words import counted

logger = logging.getLogger(__name__)
FOLLOW_SLICE_SEC = 5.0  # of one check of a running request; the next check continues


def look_up(snapshot: Snapshot) -> Wait | None:
    """Refresh the locations of unfinished files. Return Wait if more are left than fit into one task."""
    workflow = snapshot.workflow
    left = locations.refresh_locations(workflow=workflow, now=snapshot.now, seconds=settings.INPUT_LOOK_SEC)
    locations.note_waiting(workflow=workflow, sites=snapshot.sites, now=snapshot.now)
    message = f"looking up replicas in Rucio: {counted(left, 'file')} left"
    return Wait(0, message, DATA) if left else None


def before_planning(snapshot: Snapshot) -> Wait | None:
    """Refresh locations before planning. Known locations are used while Rucio is unavailable."""
    workflow = snapshot.workflow
    try:
        return look_up(snapshot)
    except ServiceUnavailable as error:
        if workflow.located_at is None:
            raise
        logger.warning("planned with the locations of %s: %s", workflow.located_at, error)
        locations.note_waiting(workflow=workflow, sites=snapshot.sites, now=snapshot.now)
        return None


def follow_replicas(snapshot: Snapshot) -> None:
    """Refresh the locations of unfinished files from time to time while the DAG runs.

    Groups that have not landed follow the replicas of their files. An error is retried at a later check.
    """
    workflow, max_age_sec = snapshot.workflow, settings.LOCATION_FOLLOW_SEC
    if not workflow.input_datasets or locations.are_fresh(
        workflow=workflow, now=snapshot.now, max_age_sec=max_age_sec
    ):
        return
    try:
        left = locations.refresh_locations(
            workflow=workflow, now=snapshot.now, seconds=FOLLOW_SLICE_SEC, max_age_sec=max_age_sec
        )
    except Wms2Error as error:
        logger.warning("replicas are not looked up now: %s", error)
        return
    if not left:
        locations.note_waiting(workflow=workflow, sites=snapshot.sites, now=snapshot.now)
