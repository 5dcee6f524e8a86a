"""Fail a request, or invalidate the outputs of an ended one."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.db import transaction

from condor.dag_edits import replace_file
from dags_app.services import control
from outputs_app import services as outputs
from outputs_app.models import OutputBlock
from requests_app.models import Request
from requests_app.states import TERMINAL, TRANSITIONS, may_move
from requests_app.states import RequestStatus as S
from requests_app.transitions import check_action, transition
from wms2_project.errors import Conflict

MANIFESTS = "invalidations"  # below the submit root, one file per request


def fail_request(
    *, request: Request, actor: str, reason: str, now: datetime, expected_version: int | None = None
) -> Request:
    """Fail the request and invalidate its outputs. Repeating it continues the invalidation.

    The manifest lists the outputs; the block sweep invalidates them. The watcher removes running DAGs.
    """
    check_action(request, reason=reason, expected_version=expected_version)
    if request.status != S.FAILED and not may_move(S(request.status), S.FAILED):
        able = ", ".join(sorted(one for one in S if S.FAILED in TRANSITIONS[one]))
        raise Conflict(
            f"{request.request_name} is {request.status}; only requests that are {able} can be failed",
            cure="Stop it with hold first, or abort it. Use invalidate for outputs of an ended request",
        )
    _write_manifest(request, actor=actor, reason=reason, now=now)
    with transaction.atomic():
        if request.status != S.FAILED:
            transition(request=request, to=S.FAILED, reason=reason, actor=actor)
            control.request_stop(workflow=request.workflow, reason=reason)
        outputs.invalidate_outputs(workflow=request.workflow, actor=actor, reason=reason, now=now)
    return request


def invalidate_request(
    *, request: Request, actor: str, reason: str, now: datetime, expected_version: int | None = None
) -> Request:
    """Invalidate the outputs of an ended request. Its status is unchanged. May be repeated.

    For outputs that a newer version superseded or that turned out to be wrong.
    """
    check_action(request, reason=reason, expected_version=expected_version)
    if request.status not in TERMINAL:
        raise Conflict(
            f"{request.request_name} is {request.status}; only ended requests can be invalidated",
            cure="Fail the request, which also invalidates its outputs, or abort it first",
        )
    _write_manifest(request, actor=actor, reason=reason, now=now)
    outputs.invalidate_outputs(workflow=request.workflow, actor=actor, reason=reason, now=now)
    return request


def _write_manifest(request: Request, *, actor: str, reason: str, now: datetime) -> None:
    """Write the list of blocks and rules of the request, for checking the invalidation."""
    directory = Path(settings.SUBMIT_ROOT) / MANIFESTS
    directory.mkdir(parents=True, exist_ok=True)
    blocks = OutputBlock.objects.filter(dataset__workflow=request.workflow).prefetch_related("rules")
    manifest = {
        "request_name": request.request_name,
        "invalidated_by": actor,
        "reason": reason,
        "at": now.isoformat(),
        "blocks": [
            {"block": block.block_name, "rules": sorted(rule.rule_id for rule in block.rules.all())}
            for block in blocks.order_by("block_name")
        ],
    }
    replace_file(directory / f"{request.request_name}.json", json.dumps(manifest, indent=1).encode())
