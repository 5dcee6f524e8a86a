"""Lending of files to runners in one statement.

The statement probes the first file of each set of places, fresh and attempted ones apart, then takes files
in the order: nearest set, fresh before attempted, oldest first. It locks the runner first, so that a runner
that ends at the same time either gets nothing or gives back all that it got.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings

from dags_app.pull.distances import Source
from dags_app.states import FileState, RunnerEventKind, RunnerState
from wms2_project.postgresql.prepared import execute_prepared

# Sets are searched one distance after the other, and only until enough files are found. In the order of the
# joins, which the lateral references fix: the distances, the heads of their sets, the files of a set.
_LEND = f"""
    WITH holder AS MATERIALIZED (
         SELECT r.id, r.round_id, g.index AS number
           FROM dags_app_runner r JOIN dags_app_mergegroup g ON g.id = r.group_id
          WHERE r.id = %(runner)s AND r.state = '{RunnerState.RUNNING}'
            FOR NO KEY UPDATE OF r),
    picked AS MATERIALIZED (
         SELECT f.id, row_number() OVER () AS place
           FROM unnest(%(steps)s::int[]) AS d (distance)
          CROSS JOIN LATERAL (
                SELECT s.set_id, s.start_id, l.least, l.most, h.id AS head
                  FROM unnest(%(sets)s::bigint[], %(distances)s::int[], %(starts)s::bigint[])
                           AS s (set_id, distance, start_id)
                 CROSS JOIN (VALUES (0, 0), (1, %(most)s::int)) AS l (least, most)
                 CROSS JOIN LATERAL (
                       SELECT f.id FROM dags_app_inputfile f
                        WHERE f.workflow_id = %(workflow)s AND f.place_set_id = s.set_id
                          AND f.state IN ('fresh', 'attempted') AND f.attempts BETWEEN l.least AND l.most
                          AND f.id >= CASE WHEN l.least = 0 THEN s.start_id ELSE 0 END
                        ORDER BY f.attempts, f.id LIMIT 1) h
                 WHERE s.distance = d.distance
                 ORDER BY l.least, h.id) h
          CROSS JOIN LATERAL (
                SELECT f.id FROM dags_app_inputfile f
                 WHERE f.workflow_id = %(workflow)s AND f.place_set_id = h.set_id
                   AND f.state IN ('fresh', 'attempted') AND f.attempts BETWEEN h.least AND h.most
                   AND f.id >= CASE WHEN h.least = 0 THEN h.start_id ELSE 0 END
                   AND NOT (f.lfn = ANY(%(avoided)s::text[]))
                 ORDER BY f.attempts, f.id LIMIT %(count)s
                   FOR UPDATE SKIP LOCKED) f
          WHERE (SELECT count(*) FROM holder) > 0
          LIMIT %(count)s),
    lent AS (
         UPDATE dags_app_inputfile AS f
            SET state = '{FileState.ASSIGNED}', runner_id = holder.id, round_id = holder.round_id,
                first_group = holder.number, last_group = holder.number, attempts = f.attempts + 1
           FROM picked, holder
          WHERE f.id = picked.id
      RETURNING f.id, f.lfn, f.size_bytes, f.adler32, f.events, f.lumis, f.place_set_id, f.first_event,
                f.attempts, picked.place),
    noted AS (
         UPDATE dags_app_runner AS r
            SET files_lent = r.files_lent + (SELECT count(*) FROM lent), heartbeat_at = statement_timestamp(),
                last_lent = CASE WHEN r.last_call = %(call)s THEN r.last_lent ELSE '{{}}' END
                            || ARRAY(SELECT id FROM lent ORDER BY place),
                last_call = %(call)s, last_count = %(asked)s
           FROM holder
          WHERE r.id = holder.id),
    logged AS (
         INSERT INTO dags_app_runnerevent (workflow_id, runner_id, kind, file_ids, message)
         SELECT %(workflow)s, holder.id, '{RunnerEventKind.ALLOCATED}', ARRAY(SELECT id FROM lent), ''
           FROM holder WHERE (SELECT count(*) FROM lent) > 0)
    SELECT lent.* FROM holder LEFT JOIN lent ON true ORDER BY lent.place"""  # noqa: S608 - states only

# By round and set: fresh files below this id were lent when this process last searched the set. It skips what
# PostgreSQL has not vacuumed yet. A search that finds too few starts again from 0, so that no file is missed.
# Files that become fresh again do so at the end of a round.
_first_fresh: dict[tuple[UUID, int], int] = {}
MAX_HINTS = 10_000


class LentFile(NamedTuple):
    """A file that was lent to a runner."""

    id: int
    lfn: str
    size_bytes: int
    adler32: str
    events: int
    lumis: list[list[int]]
    set_id: int
    first_event: int | None
    attempts: int


@dataclass(frozen=True, slots=True)
class Asked:
    """A call of a runner for files; `avoided` are files with bad copies near it."""

    workflow_id: UUID
    round_id: UUID
    runner_id: UUID
    call: UUID
    count: int
    sources: Sequence[Source]
    avoided: Collection[str] = ()


def lend_files(asked: Asked) -> list[LentFile] | None:
    """Lend up to so many files; return None if the runner may not be lent any because it is not running.

    Avoided files are lent only if there are no others.
    """
    starts = [_first_fresh.get((asked.round_id, source.set_id), 0) for source in asked.sources]
    everything = [0] * len(starts)
    found = _lend(asked, starts=starts, avoided=asked.avoided, count=asked.count)
    if found is None:
        return None
    if len(found) < asked.count and any(starts):
        found += _lend(asked, starts=everything, avoided=asked.avoided, count=asked.count - len(found)) or []
    if len(found) < asked.count and asked.avoided:
        found += _lend(asked, starts=everything, avoided=(), count=asked.count - len(found)) or []
    _note_first(asked.round_id, found)
    return found


def _lend(
    asked: Asked, *, starts: Sequence[int], avoided: Collection[str], count: int
) -> list[LentFile] | None:
    values: dict[str, Any] = {
        "runner": asked.runner_id,
        "workflow": asked.workflow_id,
        "steps": _array(sorted({source.distance for source in asked.sources})),
        "sets": _array(source.set_id for source in asked.sources),
        "distances": _array(source.distance for source in asked.sources),
        "starts": _array(starts),
        "most": settings.MAX_FILE_ATTEMPTS - 1,
        "avoided": list(avoided),
        "count": count,
        "asked": asked.count,
        "call": asked.call,
    }
    rows = execute_prepared(_LEND, values)
    if not rows:
        return None
    return [_lent_file(row) for row in rows if row[0] is not None]


def _array(numbers: Iterable[int]) -> str:
    """Return an array as PostgreSQL writes it; the driver takes several times as long for a list."""
    return "{" + ",".join(map(str, numbers)) + "}"


def _lent_file(row: tuple[Any, ...]) -> LentFile:
    values = dict(zip(LentFile._fields, row, strict=False))
    return LentFile(**values | {"lumis": json.loads(values["lumis"])})  # Django does not parse it


def _note_first(round_id: UUID, found: Sequence[LentFile]) -> None:
    if len(_first_fresh) > MAX_HINTS:
        _first_fresh.clear()
    for file in found:
        if file.attempts == 1:
            _first_fresh[round_id, file.set_id] = file.id
