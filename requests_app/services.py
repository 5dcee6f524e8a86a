"""What people can do with requests. API, admin, console and commands all call these, and nothing else.

Every action names its actor, takes a reason, is refused with a sentence when the state does not allow
it, and only ever sets a request due: the lifecycle does the work.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from dags_app.adapters import reqmgr2
from dags_app.models import Workflow
from dags_app.services import control, production
from dags_app.states import DAGKind, DAGStatus
from requests_app.documents import Backend, RequestSpec, check_size, read_document
from requests_app.models import Request
from requests_app.states import TERMINAL
from requests_app.states import RequestStatus as S
from requests_app.transitions import begin, transition
from wms2_project import audit
from wms2_project.errors import Conflict, InvalidInput, StaleVersion
from wms2_project.grammar import Name, check

RESERVED = frozenset({"plan", "batch"})  # paths below /requests that are not request names


def import_request(
    *, document: Mapping[str, Any], actor: str, source: str = "document", idempotency_key: str = ""
) -> tuple[Request, bool]:
    """Store a request and its workflow, submitted; True if it is new.

    The same key with the same document answers the first request again; with another one it is refused.
    """
    check_size(document)
    digest = hashlib.sha256(json.dumps(document, sort_keys=True, default=str).encode()).hexdigest()
    if idempotency_key:
        first = Request.objects.filter(idempotency_key=idempotency_key).first()
        if first is not None:
            return _repeated(first, digest)
    who = actor.partition(":")[2]
    spec = read_document(document, overrides={"submitted_by": who}, defaults={"requestor": who})
    if spec.request_name in RESERVED:
        told = f"{spec.request_name!r} is a word of the API itself"
        raise InvalidInput(f"request_name: {told}", fields={"request_name": told}, cure="Choose another name")
    if spec.wms_backend is not Backend.WMS2:
        told = f"{spec.wms_backend} runs this request; WMS2 leaves it alone"
        raise InvalidInput(f"wms_backend: {told}", fields={"wms_backend": told})
    request = _request_of(spec, document)
    request.source, request.idempotency_digest = source, digest
    request.idempotency_key = idempotency_key or None
    try:
        with transaction.atomic():
            request.workflow = workflow_of(spec)
            request.workflow.save(force_insert=True)
            begin(request=request, status=S.SUBMITTED, reason=f"imported from {source}", actor=actor)
    except IntegrityError as error:
        twin = Request.objects.filter(idempotency_key=idempotency_key).first() if idempotency_key else None
        if twin is not None:  # two calls with one key at once: the other was faster
            return _repeated(twin, digest)
        raise Conflict(
            f"a request named {spec.request_name} exists already",
            cure="Choose another name, or restart the existing request to run it again",
        ) from error
    return request, True


def import_by_name(*, request_name: str, actor: str, idempotency_key: str = "") -> tuple[Request, bool]:
    """Fetch the document from ReqMgr2 and import it."""
    check(Name.REQUEST, request_name, field="request_name")
    document = reqmgr2().request(request_name)
    return import_request(document=document, actor=actor, source="reqmgr2", idempotency_key=idempotency_key)


def _repeated(first: Request, digest: str) -> tuple[Request, bool]:
    if first.idempotency_digest != digest:
        raise Conflict(
            "this Idempotency-Key was used with another document",
            cure="Use a new key for a new request",
        )
    return first, False


def _request_of(spec: RequestSpec, document: Mapping[str, Any]) -> Request:
    previous = None
    if spec.previous_version_request:
        previous = Request.objects.filter(request_name=spec.previous_version_request).first()
        if previous is None:
            told = f"there is no request {spec.previous_version_request}"
            raise InvalidInput(f"previous_version_request: {told}", fields={"previous_version_request": told})
    return Request(
        request_name=spec.request_name,
        request_data=dict(document),
        requestor=spec.requestor,
        requestor_dn=spec.requestor_dn,
        group=spec.group,
        submitted_by=spec.submitted_by,
        campaign=spec.campaign,
        wms_backend=spec.wms_backend,
        priority=spec.priority,
        rank=float(spec.priority),
        urgent=spec.urgent,
        processing_version=spec.processing_version,
        previous_version=previous,
        cleanup_policy=spec.cleanup_policy,
        correlation_id=spec.correlation_id,
        callback_url=spec.callback_url,
    )


def workflow_of(spec: RequestSpec) -> Workflow:
    """The workflow that executes the request, not stored yet."""
    same = (
        "request_name", "input_dataset", "primary_dataset", "acquisition_era", "processing_string",
        "processing_version", "prep_id", "cmssw_version", "scram_arch", "global_tag", "sandbox_url",
        "config_cache_id", "splitting_algo", "target_merged_size_kb", "adaptive", "allocation", "memory_mb",
        "cores", "gpus", "time_per_event_sec", "total_events", "filter_efficiency", "merged_lfn_base",
        "unmerged_lfn_base",
    )  # fmt: skip
    return Workflow(
        **{name: getattr(spec, name) for name in same},
        secondary_input_datasets=list(spec.secondary_input_datasets),
        output_datasets=[output.dataset for output in spec.output_datasets],
        site_whitelist=list(spec.site_whitelist),
        site_blacklist=list(spec.site_blacklist),
        splitting_params=spec.splitting_params.to_json(),
        payload_config=dict(spec.payload_config),
        size_per_event_kb=spec.output_kb_per_event,
        next_first_event=spec.first_event,
        next_first_lumi=spec.first_lumi,
        category_throttles=dict(settings.CATEGORY_THROTTLES),
    )


def release_request(
    *, request: Request, actor: str, reason: str, expected_version: int | None = None
) -> Request:
    """Let a held request go on: finished groups are credited, the rest is planned again or resumed."""
    _check(request, reason=reason, expected_version=expected_version)
    if request.status != S.HELD:
        raise Conflict(f"{request.request_name} is {request.status}, not held", cure="Nothing to release")
    with transaction.atomic():
        changes = {"hold_evidence": None, "last_error": "", "hold_after_stop": False}
        transition(request=request, to=S.QUEUED, reason=reason, actor=actor, changes=changes)
        dag = production.newest_dag(workflow=request.workflow)
        if dag is not None and dag.status == DAGStatus.STOPPED:
            production.prepare_dag(parent=dag, kind=DAGKind.RESUME)
        elif dag is not None and not production.is_live(dag):
            production.resolve_round(round_=dag.round, now=timezone.now())
    return request


def stop_request(
    *, request: Request, actor: str, reason: str, expected_version: int | None = None, hold: bool = False
) -> Request:
    """Stop cleanly: jobs leave the queue, finished groups stay. It resumes by itself unless `hold`."""
    _check(request, reason=reason, expected_version=expected_version)
    with transaction.atomic():
        if request.status in (S.QUEUED, S.SUBMITTED) and hold:
            changes: dict[str, Any] = {"hold_evidence": {"reason": reason}, "last_error": reason}
            return transition(request=request, to=S.HELD, reason=reason, actor=actor, changes=changes)
        transition(
            request=request, to=S.STOPPING, reason=reason, actor=actor, changes={"hold_after_stop": hold}
        )
        control.request_stop(workflow=request.workflow, reason=reason)
    return request


def abort_request(
    *, request: Request, actor: str, reason: str, expected_version: int | None = None
) -> Request:
    """Cancel for good. The watcher removes what runs; registered outputs stay as they are."""
    _check(request, reason=reason, expected_version=expected_version)
    with transaction.atomic():
        transition(request=request, to=S.ABORTED, reason=reason, actor=actor)
        control.request_stop(workflow=request.workflow, reason=reason)
    return request


def change_request(
    *,
    request: Request,
    actor: str,
    reason: str,
    changes: Mapping[str, Any],
    expected_version: int | None = None,
) -> Request:
    """Change priority, site lists or memory. Takes effect at the next admission and the next round."""
    _check(request, reason=reason, expected_version=expected_version)
    if request.status in TERMINAL:
        raise Conflict(f"{request.request_name} is {request.status}", cure="What has ended cannot be changed")
    on_request, on_workflow = _checked_changes(changes)
    with transaction.atomic():
        unchanged = Request.objects.filter(pk=request.pk, version=request.version)
        if not unchanged.update(
            **on_request, version=F("version") + 1, next_check_at=timezone.now(), updated_at=timezone.now()
        ):
            raise StaleVersion(f"{request.request_name} changed meanwhile", cure="Read it again and repeat")
        if on_workflow:
            Workflow.objects.filter(pk=request.workflow_id).update(**on_workflow, version=F("version") + 1)
        audit.record(
            actor=actor, action="change", target=request.request_name, reason=reason, changes=dict(changes)
        )
    request.refresh_from_db()
    return request


def _check(request: Request, *, reason: str, expected_version: int | None) -> None:
    audit.need_reason(reason)
    if expected_version is not None and expected_version != request.version:
        raise StaleVersion(
            f"{request.request_name} changed since you read it", cure="Read it again and repeat"
        )


def _checked_changes(changes: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What goes to the request and what to its workflow; all wrong fields are told at once."""
    on_request: dict[str, Any] = {}
    on_workflow: dict[str, Any] = {}
    wrong: dict[str, str] = {}
    for field, value in changes.items():
        if field == "priority" and _is_whole(value, 0, 1_000_000):
            on_request |= {"priority": value, "rank": float(value)}
        elif field == "memory_mb" and _is_whole(value, 1, 1_000_000):
            on_workflow["memory_mb"] = value
        elif field in ("site_whitelist", "site_blacklist") and isinstance(value, list):
            try:
                on_workflow[field] = [check(Name.SITE, site, field=field) for site in value]
            except InvalidInput as error:
                wrong |= error.fields
        else:
            wrong[field] = (
                "cannot be changed to this; priority, memory_mb, site_whitelist, site_blacklist can"
            )
    if wrong or not changes:
        raise InvalidInput("nothing was changed", fields=wrong or {"changes": "name at least one field"})
    return on_request, on_workflow


def _is_whole(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
