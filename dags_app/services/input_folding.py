"""Folding of the input files of ended workflows: the ledger is kept as ranges, the rows are removed."""

from __future__ import annotations

from dataclasses import asdict

from django.db import transaction
from django.db.models import Q, QuerySet

from dags_app.models import FoldedInput, InputFile, Workflow
from dags_app.selectors import ledger_of
from dags_app.states import LIVE_DAG, FileState
from wms2_project.time_budget import TimeBudget

ROWS_PER_DELETE = 2_000
# All but files that were excluded although the request asked for them: these are the gaps of its output, and
# a restart carries the decisions of operators over.
_REMOVABLE = ~Q(state=FileState.EXCLUDED) | Q(state=FileState.EXCLUDED, wanted=[])


def foldable_files(workflows: QuerySet[Workflow]) -> QuerySet[InputFile]:
    """Return the files that `fold_input` removes of these workflows. Those with a live DAG keep theirs."""
    idle = workflows.exclude(dags__status__in=sorted(LIVE_DAG))
    return InputFile.objects.filter(_REMOVABLE, workflow__in=idle)


def fold_input(*, workflow: Workflow, budget: TimeBudget) -> tuple[int, bool]:
    """Store the ledger of an ended workflow and remove its files. Return how many, and whether all are gone.

    The ledger is stored before the first row is removed; an interrupted call continues with the rest.
    """
    files = foldable_files(Workflow.objects.filter(pk=workflow.pk))
    if not files.exists():
        return 0, True
    with transaction.atomic():
        if not FoldedInput.objects.filter(workflow=workflow).exists():
            FoldedInput.objects.create(workflow=workflow, ledger=asdict(ledger_of(workflow=workflow)))
    removed = 0
    while True:
        keys = list(files.order_by("pk").values_list("pk", flat=True)[:ROWS_PER_DELETE])
        removed += InputFile.objects.filter(pk__in=keys).delete()[0]
        if len(keys) < ROWS_PER_DELETE:
            return removed, True
        if not budget.goes_on():
            return removed, False
