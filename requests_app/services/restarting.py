"""Restart of a request as its next version, and retirement of the replaced outputs.

The old outputs stay valid until the new version completes; then its cleanup policy applies.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from dags_app.services import control
from outputs_app import services as outputs
from outputs_app.states import DatasetStatus
from requests_app.documents import RequestSpec
from requests_app.documents.outputs import next_version
from requests_app.models import Request
from requests_app.services import owning
from requests_app.services.decisions import carry_decisions, decisions_of
from requests_app.services.importing import request_of, workflow_of
from requests_app.services.reading import read_request
from requests_app.states import TERMINAL, CleanupPolicy, may_move
from requests_app.states import RequestStatus as S
from requests_app.transitions import begin, check_action, transition
from wms2_project.access import audit
from wms2_project.errors import Conflict, Wms2Error

logger = logging.getLogger(__name__)
ACTOR = "system:restart"
MAX_NAME = 190  # leaves space for the version within the 200 characters of a request name


@dataclass(frozen=True, slots=True)
class RestartPreview:
    """Effect of a restart."""

    request_name: str
    processing_version: int
    output_datasets: list[str]
    cleanup_policy: str
    ends_as: Annotated[str, "Status of the present version after the restart."]
    decisions: Annotated[dict[str, Any], "Operator decisions carried over to the next version."]


def preview_restart(
    *, request: Request, actor: str, cleanup_policy: CleanupPolicy | None = None
) -> RestartPreview:
    """Return what `restart_request` would do, or raise as it would. Nothing is written."""
    _check_restart(request)
    made = _clone(request, actor=actor)
    owning.check_outputs(made)
    return RestartPreview(
        request_name=made.request_name,
        processing_version=made.processing_version,
        output_datasets=made.workflow.output_datasets,
        cleanup_policy=cleanup_policy or made.cleanup_policy,
        ends_as=_end_of(request),
        decisions=decisions_of(request.workflow),
    )


def restart_request(
    *,
    request: Request,
    actor: str,
    reason: str,
    cleanup_policy: CleanupPolicy | None = None,
    expected_version: int | None = None,
) -> Request:
    """End the request and submit its next version. Return the new request.

    The next version starts with all operator decisions of this one.
    """
    check_action(request, reason=reason, expected_version=expected_version)
    _check_restart(request)
    now = timezone.now()
    made = _clone(request, actor=actor)
    made.cleanup_policy = cleanup_policy or made.cleanup_policy
    found = owning.ask_dbs(made.workflow.written_datasets)
    try:
        with transaction.atomic():
            _kill(request, actor=actor, reason=reason)
            made.workflow.save(force_insert=True)
            begin(request=made, status=S.SUBMITTED, reason=f"restart of {request}: {reason}", actor=actor)
            owning.claim_outputs(request=made, found=found, now=now)
            audit.record(
                actor=actor,
                action="restart",
                target=request.request_name,
                reason=reason,
                new=str(made),
                decisions=decisions_of(request.workflow),
            )
            carry_decisions(old=request.workflow, new=made.workflow, actor=actor, reason=reason, now=now)
    except IntegrityError as error:
        raise Conflict(
            f"{request.request_name} was restarted in the meantime, or a request named {made} exists",
            cure=f"See /requests/{request.request_name}/versions",
        ) from error
    return made


def _check_restart(request: Request) -> None:
    newer = Request.objects.filter(previous_version=request).first()
    if newer is not None:
        raise Conflict(
            f"{request.request_name} was already restarted as {newer}", cure=f"Restart {newer} instead"
        )
    if request.status == S.NEW:
        raise Conflict(f"{request.request_name} is a draft", cure="Submit the draft instead")
    if len(_ancestors(request)) >= settings.MAX_RESTARTS:
        raise Conflict(
            f"{request.request_name} is restart {settings.MAX_RESTARTS} of at most {settings.MAX_RESTARTS}",
            cure="Fix the cause of the failures, then import the request under a new name",
        )


def _ancestors(request: Request) -> list[Request]:
    found: list[Request] = []
    older = request.previous_version
    while older is not None:
        found.append(older)
        older = older.previous_version
    return found


def _kill(request: Request, *, actor: str, reason: str) -> None:
    if request.status in TERMINAL:
        return
    transition(request=request, to=_end_of(request), reason=reason, actor=actor)
    control.request_stop(workflow=request.workflow, reason=reason)


def _end_of(request: Request) -> S:
    """Return the final status of the restarted request: failed where allowed, else aborted."""
    status = S(request.status)
    if status in TERMINAL:
        return status
    return S.FAILED if may_move(status, S.FAILED) else S.ABORTED


def _clone(request: Request, *, actor: str) -> Request:
    """Build the next version, with all changes made since the import."""
    spec = _as_it_stands(request, actor=actor)
    first = (_ancestors(request) or [request])[-1]
    name = f"{first.request_name[:MAX_NAME]}_v{spec.processing_version + 1}"
    newer = next_version(spec, request_name=name)
    made = request_of(newer, newer.to_document())
    made.source = "restart"
    made.workflow = workflow_of(newer)
    made.workflow.category_throttles = request.workflow.category_throttles
    made.workflow.first_version_id = first.workflow_id
    return made


def _as_it_stands(request: Request, *, actor: str) -> RequestSpec:
    workflow = request.workflow
    spec = read_request(
        request.request_data,
        overrides={
            "request_name": request.request_name,
            "submitted_by": actor.partition(":")[2],
            "allocation": workflow.allocation,  # an older document may name another, which had no effect
        },
        defaults={"requestor": request.requestor},
        stored=True,
    )
    return replace(
        spec,
        correlation_id=request.correlation_id,
        callback_url=request.callback_url,
        priority=request.priority,
        memory_mb=workflow.memory_mb,
        site_whitelist=tuple(workflow.site_whitelist),
        site_blacklist=tuple(workflow.site_blacklist),
    )


def retire_replaced_outputs(*, now: datetime) -> int:
    """Deprecate or invalidate outputs whose newer version is complete. Return the number of requests.

    Deprecated outputs are kept until a person invalidates them. Failed DBS calls are retried at the next
    call.
    """
    retired = 0
    olds = Request.objects.filter(pk__in=_replaced()).select_related("workflow")
    for old in olds:
        new = _replacement(old)
        immediate = new.cleanup_policy == CleanupPolicy.IMMEDIATE_CLEANUP
        retire = outputs.invalidate_outputs if immediate else outputs.supersede_outputs
        message = f"replaced by {new} ({new.cleanup_policy})"
        try:
            retire(workflow=old.workflow, actor=ACTOR, reason=message, now=now)
            retired += 1
        except Wms2Error as error:
            logger.warning("%s: its outputs are not retired yet: %s", old, error)
    return retired


def _replaced() -> set[UUID]:
    """Return the requests with outputs to retire, found from their completed restarts."""
    complete = Request.objects.filter(status=S.COMPLETED, previous_version__isnull=False)
    found: set[UUID] = set()
    for depth in range(1, settings.MAX_RESTARTS + 1):
        older = "__".join(["previous_version"] * depth)
        active = {f"{older}__workflow__datasets__status": DatasetStatus.ACTIVE}
        found.update(complete.filter(**active).values_list(f"{older}__pk", flat=True))
    return found


def _replacement(old: Request) -> Request:
    """Return the next completed version; its cleanup policy applies."""
    newer = Request.objects.get(previous_version=old)
    while newer.status != S.COMPLETED:
        newer = Request.objects.get(previous_version=newer)
    return newer
