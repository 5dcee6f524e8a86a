"""Selectors of rounds, groups, DAGs and the ledger, in a fixed number of queries."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from django.db import connection
from django.db.models import Count, Sum

from dags_app.models import DAG, FoldedInput, InputFile, MergeGroup, Schedd, Workflow
from dags_app.planning.estimates import estimate_from_rounds
from dags_app.planning.layout import json_ranges
from dags_app.planning.lumis import normalised, subtract
from dags_app.pull.selectors import pull_states
from dags_app.services import ledger
from dags_app.services.estimating import measurements
from dags_app.states import UNFINISHED_FILE, FileState, GroupStatus, RoundKind, RoundStatus
from sandbox.lumis import LumiRange, Ranges
from wms2_project.errors import InvalidInput, NotFound

MAX_MEMORY_MB = 10_000_000
LISTED = 1000  # files listed by name; more are only counted
MAX_RANGES = 20_000

Lumis = Annotated[dict[str, list[list[int]]], "Run → [[first, last], …]."]
PartOfFile = Annotated[
    Ranges, "[run, first, last] of lumis; of events, with run 0, if the splitting is by events."
]


@dataclass(frozen=True, slots=True)
class AskedInput:
    """The selected input."""

    files: int
    events: int


@dataclass(frozen=True, slots=True)
class InputShare:
    """Input in one state."""

    files: int
    events: int
    lumis: Lumis


@dataclass(frozen=True, slots=True)
class HalfDoneFile:
    """A file of which a part is processed."""

    lfn: str
    done: PartOfFile
    missing: PartOfFile


@dataclass(frozen=True, slots=True)
class ExcludedFile:
    """A file that is not processed, and why."""

    lfn: str
    reason: str


@dataclass(frozen=True, slots=True)
class InputLedger:
    """The input of a request that reads datasets, by state."""

    input_dataset: str | None
    input_datasets: list[str]
    asked: AskedInput
    states: Annotated[dict[str, InputShare], "By state of the files."]
    missing: InputShare
    half_done_files: list[HalfDoneFile]
    excluded_files: list[ExcludedFile]
    pull: Annotated[dict[str, int] | None, "Files by the states of justIN; null without pull allocation."]
    folded_at: Annotated[datetime | None, "When the rows of its files were removed; null before."] = None


@dataclass(frozen=True, slots=True)
class Events:
    """A number of events."""

    events: int


@dataclass(frozen=True, slots=True)
class AskedEvents:
    """The requested events, after the filter."""

    events: int
    filter_efficiency: float


@dataclass(frozen=True, slots=True)
class PlannedEvents:
    """The events that a round generates."""

    round: int
    first_event: int | None
    last_event: int | None


@dataclass(frozen=True, slots=True)
class GeneratedLedger:
    """The events of a request that generates them, by round."""

    input_dataset: str | None
    asked: AskedEvents
    planned: list[PlannedEvents]
    generated: Events
    produced: Events
    missing: Events
    next_first_event: int
    next_first_lumi: int


# The newest rounds of workflow w as JSON, newest first, each with its groups by status and its DAGs.
ROUNDS = """(
SELECT coalesce(json_agg(r), '[]') FROM (
  SELECT d.id, d.number, d.kind, d.status, d.jobs, d.input_events, d.estimate,
         json_build_object('planned', count(m.id) FILTER (WHERE m.status = 'planned'),
                           'done', count(m.id) FILTER (WHERE m.status = 'done'),
                           'collected', count(m.id) FILTER (WHERE m.status = 'collected'),
                           'failed', count(m.id) FILTER (WHERE m.status = 'failed')) AS groups,
         (SELECT coalesce(json_agg(g), '[]') FROM (
            SELECT id, workflow_id AS workflow, w.request_name, d.number AS round, kind, parent_id AS parent,
                   status, schedd_name, dagman_cluster_id, total_nodes, total_edges, node_counts, nodes_idle,
                   nodes_running, nodes_done, nodes_failed, nodes_held, observed_at, created_at, submitted_at,
                   completed_at
              FROM dags_app_dag WHERE round_id = d.id ORDER BY created_at) g) AS dags,
         d.created_at, d.resolved_at
    FROM dags_app_round d LEFT JOIN dags_app_mergegroup m ON m.round_id = d.id
   WHERE d.workflow_id = w.id GROUP BY d.id ORDER BY d.number DESC LIMIT 50) r)"""


def workflow_named(request_name: str | None) -> Workflow | None:
    """Return the workflow of the request, None for no name; raise InvalidInput if there is none."""
    if request_name is None:
        return None
    found = Workflow.objects.filter(request_name=request_name).first()
    if found is None:
        message = f"there is no request {request_name}"
        raise InvalidInput(f"request_name: {message}", fields={"request_name": message})
    return found


def dag_by_id(dag_id: UUID) -> DAG:
    """Return the DAG with its workflow and round; raise NotFound if there is none."""
    dag = DAG.objects.select_related("workflow", "round").filter(pk=dag_id).first()
    if dag is None:
        raise NotFound(f"There is no DAG {dag_id}")
    return dag


def schedd_by_name(name: str) -> Schedd:
    """Return the schedd; one that is configured but has no row yet is returned unsaved."""
    return Schedd.objects.filter(name=name).first() or Schedd(name=name)


def group_counts(rounds: Collection[UUID]) -> dict[UUID, dict[str, int]]:
    """Return the number of groups in each status, by round."""
    counts: dict[UUID, dict[str, int]] = {key: {status.value: 0 for status in GroupStatus} for key in rounds}
    rows = MergeGroup.objects.filter(round__in=list(rounds)).values("round", "status").annotate(n=Count("id"))
    for row in rows.order_by():
        counts[row["round"]][row["status"]] = row["n"]
    return counts


def group_totals(round_id: UUID) -> dict[str, int]:
    """Return sums over the groups of a round."""
    sums = MergeGroup.objects.filter(round=round_id).aggregate(
        jobs=Sum("jobs"), input_events=Sum("input_events"), events_read=Sum("events_read"),
        events_written=Sum("events_written"),
    )  # fmt: skip
    return {name: value or 0 for name, value in sums.items()}


def rounds_of(*, workflow: Workflow) -> list[dict[str, Any]]:
    """Return the newest rounds of a workflow with their DAGs, newest first, in the form of RoundBody."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {ROUNDS} FROM dags_app_workflow w WHERE w.id = %s", [workflow.pk])  # noqa: S608
        found = cursor.fetchone()
    rounds: list[dict[str, Any]] = found[0] if found else []
    return rounds


def ledger_of(*, workflow: Workflow) -> InputLedger | GeneratedLedger:
    """Return the requested, planned, processed, attempted, excluded and missing input, with ranges.

    Of a workflow that ended long ago it is the ledger that was stored when its files were folded.
    """
    if not workflow.has_ledger:
        return _generated_ledger(workflow)
    folded = FoldedInput.objects.filter(workflow=workflow).first()
    return _input_ledger(workflow) if folded is None else _folded_ledger(folded)


def _folded_ledger(folded: FoldedInput) -> InputLedger:
    kept = folded.ledger
    return InputLedger(
        **kept
        | {
            "asked": AskedInput(**kept["asked"]),
            "states": {state: InputShare(**share) for state, share in kept["states"].items()},
            "missing": InputShare(**kept["missing"]),
            "half_done_files": [HalfDoneFile(**one) for one in kept["half_done_files"]],
            "excluded_files": [ExcludedFile(**one) for one in kept["excluded_files"]],
            "folded_at": folded.folded_at,
        }
    )


def _input_ledger(workflow: Workflow) -> InputLedger:
    books = {state: _Book() for state in FileState}
    gap, half_done = _Book(), list[HalfDoneFile]()
    reader, read = ledger.AccountReader(workflow), _read_by_open_round(workflow)
    files = InputFile.objects.filter(workflow=workflow).order_by("lfn")
    for row in ledger.ledger_rows(files):
        account, state = reader.account(row), FileState(row.state)
        lumis = ledger.as_ranges(row.lumis)
        done: Ranges = ()
        if state is not FileState.PROCESSED and (account.done or row.lfn in read):
            done = normalised([*account.done, *read.get(row.lfn, ())])
        left, beyond = subtract(account.wanted, done), subtract(account.asked, account.wanted)
        for book, part, files_in in (
            (books[state], left, 1),
            (books[FileState.PROCESSED], done, 0),
            (books[FileState.EXCLUDED], beyond, 0),
        ):
            if part or files_in:
                share = reader.share(row, part)
                book.enter(files_in, share, lumis if reader.by_events else part)
        if state is FileState.EXCLUDED and row.wanted != []:
            gap.enter(1, reader.share(row, left), lumis if reader.by_events else left)
        if done and len(half_done) < LISTED:
            half_done.append(HalfDoneFile(row.lfn, done, left))
    missing = _Book.sum_of([*(books[state] for state in sorted(UNFINISHED_FILE)), gap])
    return InputLedger(
        input_dataset=workflow.input_dataset,
        input_datasets=list(workflow.input_datasets),
        asked=AskedInput(
            files=sum(book.files for book in books.values()),
            events=sum(book.events for book in books.values()),
        ),
        states={state.value: book.share() for state, book in books.items()},
        missing=missing.share(),
        half_done_files=half_done,
        excluded_files=excluded_of(workflow=workflow),
        pull=pull_states(workflow) if workflow.pulls else None,
    )


def excluded_of(*, workflow: Workflow) -> list[ExcludedFile]:
    """Return the excluded files with their reasons, limited in number."""
    rows = InputFile.objects.filter(workflow=workflow, state=FileState.EXCLUDED).order_by("lfn")
    return [ExcludedFile(row.lfn, row.excluded_reason) for row in rows[:LISTED]]


def _read_by_open_round(workflow: Workflow) -> dict[str, list[LumiRange]]:
    """Return what collected groups of the open round have read of shared files."""
    groups = MergeGroup.objects.filter(
        round__workflow=workflow, round__status=RoundStatus.PLANNED, status=GroupStatus.COLLECTED
    )
    read: dict[str, list[LumiRange]] = {}
    for parts in groups.exclude(parts={}).values_list("parts", flat=True):
        for lfn, ranges in parts.items():
            read.setdefault(lfn, []).extend(ledger.as_ranges(ranges))
    return read


@dataclass(slots=True)
class _Book:
    """Files, events and lumis in one state. Events of a part are its share of the file's."""

    files: int = 0
    events: int = 0
    lumis: list[LumiRange] = field(default_factory=list)
    joined: int = 0  # ranges when they were joined last

    def enter(self, files: int, events: int, lumis: Ranges) -> None:
        """Add a file or part. Ranges are joined now and then, so that memory does not grow with files."""
        self.files += files
        self.events += events
        self.lumis.extend(lumis)
        if len(self.lumis) > max(MAX_RANGES, 2 * self.joined):
            self.lumis = list(normalised(self.lumis))
            self.joined = len(self.lumis)

    @classmethod
    def sum_of(cls, books: Sequence[_Book]) -> _Book:
        every = [one for book in books for one in book.lumis]
        return cls(sum(book.files for book in books), sum(book.events for book in books), every)

    def share(self) -> InputShare:
        return InputShare(self.files, self.events, json_ranges(normalised(self.lumis)))


def _generated_ledger(workflow: Workflow) -> GeneratedLedger:
    collected = MergeGroup.objects.filter(round__workflow=workflow, status=GroupStatus.COLLECTED)
    made = collected.aggregate(read=Sum("events_read"), written=Sum("events_written"))
    asked = workflow.total_events or 0
    generated, produced = made["read"] or 0, made["written"] or 0
    return GeneratedLedger(
        input_dataset=None,
        asked=AskedEvents(asked, workflow.filter_efficiency),
        planned=[
            PlannedEvents(row.number, row.first_event, row.last_event)
            for row in workflow.rounds.order_by("number")
        ],
        generated=Events(generated),
        produced=Events(produced),
        missing=Events(max(asked - produced, 0)),
        next_first_event=workflow.next_first_event,
        next_first_lumi=workflow.next_first_lumi,
    )


def forecast_of(*, workflow: Workflow) -> dict[str, Any]:
    """Return the estimate of the first production round and the measurements of production."""
    first = workflow.rounds.filter(kind=RoundKind.PRODUCTION).order_by("number").first()
    measured = estimate_from_rounds(measurements(workflow), cores=1, memory_per_core_mb=(0, MAX_MEMORY_MB))
    predicted = first.estimate if first is not None else None
    if predicted is None or measured is None:
        return {"predicted": predicted, "measured": None, "ratio": None}
    seen = measured.as_json()
    ratio = {
        key: round(seen[key] / predicted[key], 3) if predicted[key] else None
        for key in ("time_per_event_sec", "memory_mb", "size_per_event_kb")
    }
    return {"predicted": predicted, "measured": seen, "ratio": ratio}
