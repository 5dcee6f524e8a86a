"""The file ledger: assignment and state of each input file, always updated in bulk."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from dags_app.failures.records import bad_copies
from dags_app.models import InputFile, MergeGroup, Round, Workflow
from dags_app.planning.coverage import Account, Span, account_of, cuts_by_events, narrowed, settle_file
from dags_app.planning.early_stop import early_stop, narrow
from dags_app.planning.lumis import normalised
from dags_app.planning.selection import Selection
from dags_app.planning.types import FileSpec, PlanSpec, SitePool
from dags_app.states import FileState, GroupStatus, RoundStatus
from sandbox.lumis import Ranges, count
from wms2_project.words import counted

CHUNK = 5000
_COPY = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})  # special characters of COPY


class LedgerRow(NamedTuple):
    """Columns of a file that are read in bulk; model instances would cost several times as much."""

    lfn: str
    state: str
    events: int
    size_bytes: int
    adler32: str
    locations: list[str]
    lumis: list[list[int]]
    wanted: list[list[int]] | None
    done: list[list[int]]


@dataclass(frozen=True, slots=True)
class Gap:
    """Excluded input: its files and events, of how many, and the reason of the first file."""

    files: int
    events: int
    asked: int
    first: str
    reason: str

    def __str__(self) -> str:
        among = f"{self.events} of {counted(self.asked, 'input event')} in {counted(self.files, 'file')}"
        return f"{among} are excluded, the first is {self.first}: {self.reason}"


def ledger_rows(files: QuerySet[InputFile]) -> Iterator[LedgerRow]:
    """Yield these files, with one chunk in memory at a time."""
    return map(LedgerRow._make, files.values_list(*LedgerRow._fields).iterator(chunk_size=CHUNK))


def files_to_plan(*, workflow: Workflow, sites: SitePool) -> Iterator[list[FileSpec]]:
    """Yield what the next round may read: fresh files; then, if they make no job, attempted ones."""
    for state in (FileState.FRESH, FileState.ATTEMPTED):
        rows = workflow.input_files.filter(state=state, attempts__lt=settings.MAX_FILE_ATTEMPTS)
        if found := _specs(ledger_rows(rows), workflow, sites):
            yield avoiding_bad_copies(found, workflow=workflow)


def storages_to_read(*, workflow: Workflow, prepared: bool) -> list[frozenset[str]]:
    """Return the distinct sets of storages of files of the prepared DAG, or of files to be planned."""
    tried = Q(state__in=(FileState.FRESH, FileState.ATTEMPTED), attempts__lt=settings.MAX_FILE_ATTEMPTS)
    left = workflow.input_files.filter(Q(state=FileState.ASSIGNED) if prepared else tried)
    return [frozenset(one) for one in left.order_by().values_list("locations", flat=True).distinct()]


def avoiding_bad_copies(files: list[FileSpec], *, workflow: Workflow) -> list[FileSpec]:
    """Return the files with their sites, without bad copies where there are others."""
    bad = bad_copies(workflow=workflow)
    if not bad.reported:
        return files
    return [replace(file, sites=bad.choose(file.lfn, file.sites)) for file in files]


def _specs(rows: Iterable[LedgerRow], workflow: Workflow, sites: SitePool) -> list[FileSpec]:
    reader = AccountReader(workflow)
    everything, by_events = reader.selection.everything, reader.by_events
    places: dict[tuple[str, ...], frozenset[str]] = {}  # files share few sets of storages
    specs = []
    for row in rows:
        key = tuple(row.locations)
        if key not in places:
            places[key] = sites.reading(frozenset(key))
        lumis = as_ranges(row.lumis)
        mask = None if everything else reader.selection.wanted(lumis)
        spec = FileSpec(row.lfn, row.events, row.size_bytes, places[key], row.adler32, lumis, mask)
        if row.done or row.wanted is not None:
            spec = narrowed(spec, reader.account(row).left, by_events=by_events)
        specs.append(spec)
    return specs


class AccountReader:
    """Reads ledger rows of one workflow as accounts."""

    def __init__(self, workflow: Workflow) -> None:
        self.selection = Selection.of(workflow.splitting_params)
        self.by_events = cuts_by_events(workflow.splitting_algo)

    def account(self, row: LedgerRow | InputFile) -> Account:
        """Return the account of the file."""
        return account_of(
            lumis=as_ranges(row.lumis),
            events=row.events,
            wanted=None if row.wanted is None else as_ranges(row.wanted),
            done=as_ranges(row.done),
            selection=self.selection,
            by_events=self.by_events,
        )

    def share(self, row: LedgerRow, part: Ranges) -> int:
        """Return the number of events in a part of the file, estimated by its size."""
        whole = self.account(row).asked if self.by_events else as_ranges(row.lumis)
        return round(row.events * count(part) / count(whole)) if whole else row.events


def as_ranges(rows: Sequence[Sequence[int]]) -> Ranges:
    """Return stored ranges as normalised tuples."""
    return normalised([(run, first, last) for run, first, last in rows])


def stop_early(*, workflow: Workflow, spec: PlanSpec, sites: SitePool) -> int:
    """Exclude what lies beyond the request's early stop, once, before its first round."""
    name = early_stop(spec.algo, spec.params)
    if not name or workflow.rounds.exists():
        return 0
    files = next(files_to_plan(workflow=workflow, sites=sites), [])
    kept = {file.lfn: file for file in narrow(spec, files)}
    for file in files:
        cut = kept.get(file.lfn, file)
        if cut is not file:
            ranges = cut.left if cuts_by_events(spec.algo) else cut.mask
            workflow.input_files.filter(lfn=file.lfn).update(wanted=ranges)
    beyond = [file.lfn for file in files if file.lfn not in kept]
    rest = workflow.input_files.filter(state=FileState.FRESH, lfn__in=beyond)
    excluded = rest.update(state=FileState.EXCLUDED, excluded_reason=f"beyond {name}", wanted=[])
    tally(workflow=workflow)
    return excluded


def assign(*, round_: Round, spans: Sequence[Span], unfinished: Collection[str] = ()) -> int:
    """Assign the files to the round's groups in one update; return how many were assigned.

    Files that the round leaves unfinished are not processed when its groups are.
    """
    sql = """
        UPDATE dags_app_inputfile AS f
           SET state = %s, round_id = %s, first_group = s.first_group, last_group = s.last_group,
               attempts = f.attempts + 1
          FROM file_span AS s
         WHERE f.workflow_id = %s AND f.lfn = s.lfn AND f.state IN (%s, %s)"""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE file_span (lfn text, first_group int, last_group int)")
        with cursor.copy("COPY file_span FROM STDIN") as copy:
            for start in range(0, len(spans), CHUNK):  # in large chunks: a call per row is slow
                rows = (f"{lfn.translate(_COPY)}\t{a}\t{b}\n" for lfn, a, b in spans[start : start + CHUNK])
                copy.write("".join(rows))
        cursor.execute("ANALYZE file_span")
        cursor.execute(
            sql,
            [FileState.ASSIGNED, round_.pk, round_.workflow_id, FileState.FRESH, FileState.ATTEMPTED],
        )
        assigned = int(cursor.rowcount)
        cursor.execute("DROP TABLE file_span")
    if unfinished:
        round_.files.filter(lfn__in=unfinished).update(whole=False)
    return assigned


def credit_group(*, group: MergeGroup) -> None:
    """Mark the group's files as processed once every group that reads them is collected.

    Files shared with earlier groups are found by the names in `parts`: a search by ranges of groups would
    scan all files of the round for every group.
    """
    sql = """
        UPDATE dags_app_inputfile AS f SET state = %(processed)s
         WHERE f.id IN (SELECT id FROM dags_app_inputfile
                         WHERE round_id = %(round)s AND first_group = %(index)s
                        UNION ALL
                        SELECT id FROM dags_app_inputfile
                         WHERE workflow_id = %(workflow)s AND lfn = ANY(%(shared)s))
           AND f.round_id = %(round)s AND f.state = %(assigned)s AND f.whole
           AND NOT EXISTS (SELECT 1 FROM dags_app_mergegroup g
                            WHERE g.round_id = f.round_id AND g.index BETWEEN f.first_group AND f.last_group
                              AND (f.first_group = f.last_group OR g.parts ? f.lfn)
                              AND g.status <> %(collected)s)"""
    values: dict[str, Any] = {
        "processed": FileState.PROCESSED,
        "assigned": FileState.ASSIGNED,
        "collected": GroupStatus.COLLECTED,
        "workflow": group.round.workflow_id,
        "round": group.round_id,
        "index": group.index,
        "shared": list(group.parts),
    }
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
    Workflow.objects.filter(pk=group.round.workflow_id).update(
        produced_events=F("produced_events") + group.events_written
    )


def exclude_files(*, workflow: Workflow, lfns: Collection[str], reason: str, actor: str) -> int:
    """Exclude files from planning by an operator's decision. Processed files are unaffected."""
    named = workflow.input_files.filter(lfn__in=lfns).exclude(state=FileState.PROCESSED)
    text = f"excluded by {actor}: {reason}"
    excluded = named.update(state=FileState.EXCLUDED, excluded_reason=text, excluded_by=actor)
    tally(workflow=workflow)
    return excluded


def tally(*, workflow: Workflow) -> None:
    """Store sums over the workflow's files: requested, excluded, and done in closed rounds.

    The events done in the open round come from its groups.
    """
    closed = Q(state=FileState.PROCESSED) & ~Q(round__status=RoundStatus.PLANNED)
    asked = workflow.input_files.exclude(state=FileState.EXCLUDED, wanted=[])
    sums = asked.aggregate(
        input_events=Coalesce(Sum("events"), 0),
        input_events_done=Coalesce(Sum("events", filter=closed), 0),
        input_events_excluded=Coalesce(Sum("events", filter=Q(state=FileState.EXCLUDED)), 0),
    )
    reader = AccountReader(workflow)
    for row in ledger_rows(excluded_files(workflow=workflow).exclude(done=[])):
        sums["input_events_excluded"] -= reader.share(row, reader.account(row).done)
    Workflow.objects.filter(pk=workflow.pk).update(**sums)


def excluded_files(*, workflow: Workflow) -> QuerySet[InputFile]:
    """Return requested files that will not be read."""
    return workflow.input_files.filter(state=FileState.EXCLUDED).exclude(wanted=[])


def gap_of(*, workflow: Workflow) -> Gap | None:
    """Return the excluded input; None if nothing is excluded."""
    sums = Workflow.objects.values_list("input_events_excluded", "input_events").get(pk=workflow.pk)
    first = excluded_files(workflow=workflow).order_by("lfn").first() if sums[0] else None
    if first is None:
        return None
    files = excluded_files(workflow=workflow).count()
    return Gap(files, events=sums[0], asked=sums[1], first=first.lfn, reason=first.excluded_reason)


def give_back(*, round_: Round) -> None:
    """Release the files of the round: what no collected group has read may be planned again.

    An attempt counts once per file, and only if a part of it failed.
    """
    held = round_.files.filter(state=FileState.ASSIGNED)
    held.filter(first_group=F("last_group"), whole=True).update(state=FileState.ATTEMPTED)
    rows = list(held.filter(Q(first_group__lt=F("last_group")) | Q(whole=False)))
    if not rows:
        return
    groups = list(round_.groups.order_by("index").values_list("index", "status", "parts"))
    collected = {index: status == GroupStatus.COLLECTED for index, status, _ in groups}
    read: dict[str, list[tuple[Ranges, bool]]] = {}
    for index, _, parts in groups:
        for lfn, ranges in parts.items():
            read.setdefault(lfn, []).append((as_ranges(ranges), collected[index]))
    reader = AccountReader(round_.workflow)
    for row in rows:
        account = reader.account(row)
        row.state, covered = settle_file(account.left, read.get(row.lfn, [((), False)]))
        row.done, row.whole = normalised([*account.done, *covered]), True
        row.attempts -= row.state == FileState.FRESH
    InputFile.objects.bulk_update(rows, ["state", "done", "whole", "attempts"], batch_size=1000)


def work_left(*, workflow: Workflow) -> str:
    """Describe what is still to be planned; empty if nothing is."""
    if not workflow.has_ledger:
        made = Workflow.objects.values_list("produced_events", flat=True).get(pk=workflow.pk)
        missing = (workflow.total_events or 0) - made
        return f"{missing} of {workflow.total_events} events are missing" if missing > 0 else ""
    waiting = workflow.input_files.filter(state__in=[FileState.FRESH, FileState.ATTEMPTED])
    files = waiting.count()
    return f"{files} files are not processed yet" if files else ""


def worn_out_files(*, workflow: Workflow, limit: int = 100) -> list[str]:
    """Return files that were tried as often as allowed and never processed."""
    rows = workflow.input_files.filter(state=FileState.ATTEMPTED, attempts__gte=settings.MAX_FILE_ATTEMPTS)
    return list(rows.order_by("lfn").values_list("lfn", flat=True)[:limit])
