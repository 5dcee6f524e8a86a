"""The file ledger: who holds each input file, and what became of it. Always updated in bulk."""

from __future__ import annotations

from collections.abc import Iterable

from django.conf import settings
from django.db import connection
from django.db.models import F

from dags_app.models import InputFile, MergeGroup, Round, Workflow
from dags_app.planning.selection import selects_everything, wanted_lumis
from dags_app.planning.types import FileSpec, SitePool
from dags_app.states import FileState, GroupStatus


def files_to_plan(*, workflow: Workflow, sites: SitePool) -> list[FileSpec]:
    """What the next round may read: fresh files, and only when there are none, those tried before."""
    for state in (FileState.FRESH, FileState.ATTEMPTED):
        rows = workflow.input_files.filter(state=state, attempts__lt=settings.MAX_FILE_ATTEMPTS)
        if rows.exists():
            return [_spec(row, workflow, sites) for row in rows.iterator(chunk_size=5000)]
    return []


def _spec(row: InputFile, workflow: Workflow, sites: SitePool) -> FileSpec:
    lumis = tuple((run, first, last) for run, first, last in row.lumis)
    everything = selects_everything(workflow.splitting_params)
    return FileSpec(
        lfn=row.lfn,
        events=row.events,
        size_bytes=row.size_bytes,
        sites=sites.reading(frozenset(row.locations)),
        adler32=row.adler32,
        lumis=lumis,
        mask=None if everything else wanted_lumis(lumis, workflow.splitting_params),
    )


def assign(*, round_: Round, spans: Iterable[tuple[str, int, int]]) -> int:
    """Give the files to the round's groups, in one statement; answer how many were given."""
    columns = list(zip(*spans, strict=True))
    if not columns:
        return 0
    sql = """
        UPDATE dags_app_inputfile AS f
           SET state = %s, round_id = %s, first_group = s.first_group, last_group = s.last_group,
               attempts = f.attempts + 1
          FROM unnest(%s::text[], %s::int[], %s::int[]) AS s(lfn, first_group, last_group)
         WHERE f.workflow_id = %s AND f.lfn = s.lfn AND f.state IN (%s, %s)"""
    with connection.cursor() as cursor:
        cursor.execute(
            sql,
            [
                FileState.ASSIGNED,
                round_.pk,
                list(columns[0]),
                list(columns[1]),
                list(columns[2]),
                round_.workflow_id,
                FileState.FRESH,
                FileState.ATTEMPTED,
            ],
        )
        return int(cursor.rowcount)


def credit_group(*, group: MergeGroup) -> None:
    """The group's outputs are ours: its files are processed once every group that reads them is."""
    sql = """
        UPDATE dags_app_inputfile AS f SET state = %s
         WHERE f.round_id = %s AND f.state = %s AND f.first_group <= %s AND f.last_group >= %s
           AND NOT EXISTS (SELECT 1 FROM dags_app_mergegroup g
                            WHERE g.round_id = f.round_id AND g.index BETWEEN f.first_group AND f.last_group
                              AND g.status <> %s)"""
    with connection.cursor() as cursor:
        cursor.execute(
            sql,
            [
                FileState.PROCESSED,
                group.round_id,
                FileState.ASSIGNED,
                group.index,
                group.index,
                GroupStatus.COLLECTED,
            ],
        )
    Workflow.objects.filter(pk=group.round.workflow_id).update(
        produced_events=F("produced_events") + group.events_written
    )


def exclude_rest(*, workflow: Workflow, reason: str) -> int:
    """Files no round will ever read are not waited for; each says why."""
    rest = workflow.input_files.filter(state__in=[FileState.FRESH, FileState.ATTEMPTED])
    return rest.update(state=FileState.EXCLUDED, excluded_reason=reason)


def give_back(*, round_: Round) -> int:
    """Files of the round that no finished group covers may be planned again."""
    return round_.files.filter(state=FileState.ASSIGNED).update(state=FileState.ATTEMPTED)


def work_left(*, workflow: Workflow) -> str:
    """What is still to be planned, in words; empty when nothing is."""
    if workflow.generates:
        made = Workflow.objects.values_list("produced_events", flat=True).get(pk=workflow.pk)
        missing = (workflow.total_events or 0) - made
        return f"{missing} of {workflow.total_events} events are missing" if missing > 0 else ""
    waiting = workflow.input_files.filter(state__in=[FileState.FRESH, FileState.ATTEMPTED])
    count = waiting.count()
    return f"{count} files are not processed yet" if count else ""


def worn_out_files(*, workflow: Workflow, limit: int = 100) -> list[str]:
    """Files that were tried as often as allowed and never processed."""
    rows = workflow.input_files.filter(state=FileState.ATTEMPTED, attempts__gte=settings.MAX_FILE_ATTEMPTS)
    return list(rows.order_by("lfn").values_list("lfn", flat=True)[:limit])
