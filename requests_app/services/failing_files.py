"""Exclusion of input files by an operator: by name, or all that are in a state."""

from __future__ import annotations

from collections.abc import Collection

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from dags_app.models import InputFile
from dags_app.services import ledger
from dags_app.states import FileState
from requests_app.models import Request
from requests_app.states import SWEPT, TERMINAL
from requests_app.transitions import check_action
from wms2_project.access import audit
from wms2_project.errors import Conflict, InvalidInput
from wms2_project.leases import wake

FAILED = "failed"  # attempted as often as allowed
STATES = (FAILED, *sorted({FileState.FRESH, FileState.ATTEMPTED, FileState.ASSIGNED}))


def fail_files(
    *,
    request: Request,
    actor: str,
    reason: str,
    state: str = "",
    lfns: Collection[str] = (),
    expected_version: int | None = None,
) -> int:
    """Exclude files that are not processed, by name or by state; return how many.

    A runner that holds an excluded file cannot confirm it.
    """
    check_action(request, reason=reason, expected_version=expected_version)
    if request.status in TERMINAL:
        raise Conflict(
            f"{request} is {request.status}", cure="Only requests that have not ended have files left"
        )
    if bool(state) == bool(lfns):
        message = "give either a state or names of files"
        raise InvalidInput(f"state: {message}", fields={"state": message})
    with transaction.atomic():
        chosen = list(_chosen(request, state, lfns).values_list("lfn", flat=True))
        count = ledger.exclude_files(workflow=request.workflow, lfns=chosen, reason=reason, actor=actor)
        audit.record(
            actor=actor,
            action="fail files",
            target=request.request_name,
            reason=reason,
            files=count,
            state=state,
        )
        wake(Request.objects.filter(pk=request.pk, status__in=sorted(SWEPT)))
    return count


def _chosen(request: Request, state: str, lfns: Collection[str]) -> QuerySet[InputFile]:
    files = request.workflow.input_files.exclude(state__in=[FileState.PROCESSED, FileState.EXCLUDED])
    if lfns:
        return files.filter(lfn__in=lfns)
    if state == FAILED:
        return files.filter(state=FileState.ATTEMPTED, attempts__gte=settings.MAX_FILE_ATTEMPTS)
    return files.filter(state=state)
