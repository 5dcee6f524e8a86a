"""Stored progress of groups that run: nodes by state, and the site."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from condor.dagtext import GROUP_DAG
from condor.statusfile import read_status
from condor.types import UnreadableFile
from dags_app.models import DAG, MergeGroup
from sandbox.elect_site import elected_site


class GroupCount(NamedTuple):
    """The nodes of a group by state, and its site, if known."""

    round_id: UUID
    number: int
    done: int
    failed: int
    running: int = 0
    idle: int = 0
    held: int = 0
    site: str = ""


def count_nodes(counts: Sequence[GroupCount]) -> None:
    """Store the progress of groups that are not done, in one update; an empty site changes nothing."""
    if not counts:
        return
    sql = """
        UPDATE dags_app_mergegroup AS m
           SET nodes_done = c.done, nodes_failed = c.failed, nodes_running = c.running, nodes_idle = c.idle,
               nodes_held = c.held, site = coalesce(nullif(c.site, ''), m.site)
          FROM unnest(%s::uuid[], %s::int[], %s::int[], %s::int[], %s::int[], %s::int[], %s::int[],
                      %s::text[])
            AS c (round_id, number, done, failed, running, idle, held, site)
         WHERE m.round_id = c.round_id AND m.index = c.number AND m.status IN ('planned', 'failed')"""
    with connection.cursor() as cursor:
        cursor.execute(sql, [list(column) for column in zip(*counts, strict=True)])


def last_count(dag: DAG, group: MergeGroup) -> GroupCount:
    """Return the final progress of the group; what its files do not have stays as last observed."""
    directory = Path(dag.submit_dir) / group.name
    known = GroupCount(group.round_id, group.index, group.nodes_done, group.nodes_failed)
    known = known._replace(site=elected_site(directory))
    try:
        reading = read_status(directory / f"{GROUP_DAG}.status")
    except (UnreadableFile, OSError):
        return known
    if reading is None:
        return known
    return known._replace(done=reading.status.nodes_done, failed=reading.status.nodes_failed)
