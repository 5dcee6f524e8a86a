"""Operator decisions about a workflow: they outrank the document, every measurement and every setting.

Decided numbers are columns of the workflow, decided exclusions name their operator on the input file.
Planning, repair, recovery and previews read them there; nothing else stores them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import F, QuerySet

from dags_app.models import InputFile, Workflow
from dags_app.services.ledger import tally
from dags_app.states import FileState

COLUMNS = {  # decision → column
    "memory_mb": "chosen_memory_mb",
    "time_per_event_sec": "chosen_time_per_event_sec",
    "retry_count": "chosen_retries",
    "error_hold_threshold": "chosen_hold_threshold",
}
_COPIED = ("lfn", "block_name", "size_bytes", "events", "adler32", "lumis", "locations")
_COPIED_DECISION = ("state", "excluded_reason", "excluded_by")


def decided_numbers(workflow: Workflow) -> dict[str, Any]:
    """Return the decided numbers by name."""
    found = {name: getattr(workflow, column) for name, column in COLUMNS.items()}
    return {name: value for name, value in found.items() if value is not None}


def decide(*, workflow: Workflow, numbers: Mapping[str, Any]) -> None:
    """Store decided numbers by name. None withdraws a decision."""
    changes = {COLUMNS[name]: value for name, value in numbers.items()}
    if changes:
        Workflow.objects.filter(pk=workflow.pk).update(**changes, version=F("version") + 1)
        workflow.refresh_from_db()


def excluded_by_operators(workflow: Workflow) -> QuerySet[InputFile]:
    """Return the input files that operators excluded."""
    return workflow.input_files.filter(state=FileState.EXCLUDED).exclude(excluded_by="").order_by("lfn")


def carry_over(*, old: Workflow, new: Workflow) -> None:
    """Copy every decision to the next version, before its input is resolved."""
    decide(workflow=new, numbers=decided_numbers(old))
    rows = excluded_by_operators(old).values(*_COPIED, *_COPIED_DECISION)
    InputFile.objects.bulk_create(
        (InputFile(workflow=new, **row) for row in rows), ignore_conflicts=True, batch_size=1000
    )
    tally(workflow=new)
