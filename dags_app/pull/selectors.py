"""Reads of pull workflows."""

from __future__ import annotations

from django.conf import settings
from django.db.models import Count, Q

from dags_app.models import RunnerOutput, Workflow
from dags_app.states import FileState, RunnerState, UploadState


def pull_states(workflow: Workflow) -> dict[str, int]:
    """Return the number of files by the states of justIN, which follow from file, place and runner."""
    tried = Q(state=FileState.ATTEMPTED, attempts__gte=settings.MAX_FILE_ATTEMPTS)
    free = Q(state__in=[FileState.FRESH, FileState.ATTEMPTED]) & ~tried
    recorded = Q(state=FileState.ASSIGNED, runner__state=RunnerState.RECORDED)
    words = {
        "finding": free & Q(locations=[]),
        "unallocated": free & ~Q(locations=[]),
        "allocated": Q(state=FileState.ASSIGNED) & ~recorded,
        "outputting": recorded,
        "processed": Q(state=FileState.PROCESSED),
        "failed": tried,
    }
    counts = {word: Count("id", filter=condition) for word, condition in words.items()}
    return dict(workflow.input_files.aggregate(**counts))


def unconfirmed_uploads(workflow: Workflow) -> int:
    """Return how many outputs of lost runners may be on a storage: no later runner has deleted them."""
    if not workflow.pulls:
        return 0
    return RunnerOutput.objects.filter(runner__workflow=workflow, state=UploadState.VOID).count()
