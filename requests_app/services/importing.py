"""Import of requests: validate the document and store the request and its workflow, or raise."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from dags_app.adapters import reqmgr2
from dags_app.models import Workflow
from dags_app.pull.patterns import name_pull_outputs
from dags_app.services.user_sandboxes import check_sandbox
from requests_app.documents import Backend, RequestSpec, check_size
from requests_app.documents.table import columns_of
from requests_app.models import Request
from requests_app.ranking import initial_rank
from requests_app.selectors.requests import owners_of
from requests_app.services import owning
from requests_app.services.callbacks import check_url
from requests_app.services.quotas import check_submission
from requests_app.services.reading import read_request
from requests_app.states import RequestStatus as S
from requests_app.transitions import begin
from wms2_project.errors import Conflict, InvalidInput, NotAllowed, QuotaExceeded
from wms2_project.grammar import Name, check

BESIDE = ("correlation_id", "callback_url", "submitted_by")  # fields unknown to ReqMgr2
REQMGR2 = "reqmgr2"  # source of a document fetched by name
RESERVED = frozenset({"plan", "batch"})  # paths below /requests, so not allowed as request names


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of a document: sender, source and idempotency key."""

    actor: str
    source: str
    idempotency_key: str
    on_behalf: bool
    draft: bool = False
    groups: frozenset[str] = frozenset()  # the groups the sender is a member of

    @property
    def who(self) -> str:
        """Name of the sender."""
        return self.actor.partition(":")[2]


def import_request(
    *,
    document: Mapping[str, Any],
    actor: str,
    source: str = "document",
    idempotency_key: str = "",
    on_behalf: bool = False,
    draft: bool = False,
    groups: frozenset[str] = frozenset(),
) -> tuple[Request, bool]:
    """Store a request and its workflow, submitted or as a draft. Return it, and whether it is new.

    A repeated key with the same document returns the first request; with another document it raises Conflict.
    `on_behalf`: sent by an operator for any requestor and group; the document may name the submitter.
    Otherwise
    submitter and requestor are the actor, and the group is one of `groups` or an open one.
    """
    check_size(document)
    origin = Origin(actor, source, idempotency_key, on_behalf, draft, groups)
    digest = _digest({**document, "draft": True} if draft else document)
    first = _first(origin, digest)
    return (first, False) if first is not None else _store(document, origin, digest)


def import_by_name(
    *,
    request_name: str,
    actor: str,
    idempotency_key: str = "",
    on_behalf: bool = False,
    beside: Mapping[str, str] | None = None,
    draft: bool = False,
) -> tuple[Request, bool]:
    """Fetch the document from ReqMgr2 and import it. A known key returns the first request without fetching.

    The request belongs to the document's Requestor; only that account and operators may import it.
    `on_behalf`: the caller is an operator. `beside`: fields of BESIDE that the caller adds to the document.
    """
    check(Name.REQUEST, request_name, field="request_name")
    origin = Origin(actor, REQMGR2, idempotency_key, on_behalf, draft)
    added = {name: value for name, value in (beside or {}).items() if name in BESIDE}
    kind = {"draft": True} if draft else {}
    digest = _digest({"request_name": request_name, "source": origin.source} | added | kind)
    first = _first(origin, digest)
    if first is not None:
        return first, False
    document = reqmgr2().request(request_name)
    check_size(document)
    return _store(document, origin, digest, added)


def _store(
    document: Mapping[str, Any], origin: Origin, digest: str, added: Mapping[str, str] | None = None
) -> tuple[Request, bool]:
    submitter = {"submitted_by": origin.who}
    owner = {"requestor": origin.who} if origin.on_behalf or origin.source != REQMGR2 else {}
    spec = read_request(
        document,
        overrides=dict(added or {}) | ({} if origin.on_behalf else submitter),
        defaults=owner | (submitter if origin.on_behalf else {}),
    )
    _check_requestor(spec, origin)
    request = request_of(spec, document)
    check_import(spec, request, origin)
    request.source, request.idempotency_digest = origin.source, digest
    request.idempotency_key = _scoped(origin)
    request.workflow = workflow_of(spec)
    found = {} if origin.draft else owning.ask_dbs(request.workflow.written_datasets)
    try:
        with transaction.atomic():
            check_submission(request=request, now=timezone.now())
            request.workflow.save(force_insert=True)
            reason = f"imported from {origin.source}"
            status = S.NEW if origin.draft else S.SUBMITTED
            begin(request=request, status=status, reason=reason, actor=origin.actor)
            if not origin.draft:
                owning.claim_outputs(request=request, found=found, now=request.status_since)
    except (IntegrityError, QuotaExceeded) as error:
        twin = _first(origin, digest)
        if twin is not None:  # a concurrent call with the same key was faster
            return twin, False
        if isinstance(error, QuotaExceeded):
            raise
        check_not_replaced(request.previous_version)
        raise Conflict(
            f"a request named {spec.request_name} already exists",
            cure="Choose another name, or restart the existing request to run it again",
        ) from error
    return request, True


def check_import(
    spec: RequestSpec, request: Request, origin: Origin, *, draft: Request | None = None
) -> None:
    """Raise if WMS2 does not accept the request, or the sender may not submit it.

    `draft` is the request before an edit; values set by an operator or ReqMgr2 are kept.
    """
    _check_taken_here(spec)
    if origin.on_behalf:
        return
    _check_priority(request, origin, draft)
    _check_group(request, origin, draft)
    if draft is None or request.previous_version != draft.previous_version:
        _check_owns(request.previous_version, origin)


def _check_requestor(spec: RequestSpec, origin: Origin) -> None:
    """Raise NotAllowed if the requestor is another account. Names are compared exactly."""
    if origin.on_behalf or spec.requestor == origin.who:
        return
    if origin.source == REQMGR2:
        raise NotAllowed(
            f"{spec.request_name} belongs to {spec.requestor} in ReqMgr2; you are {origin.who}",
            cure="Ask its requestor or an operator to import it",
        )
    raise NotAllowed(
        f"requestor: you are {origin.who} and cannot submit as {spec.requestor}",
        cure="Omit the requestor, or ask an operator to submit the request",
    )


def _check_taken_here(spec: RequestSpec) -> None:
    """Raise InvalidInput for reserved names, other backends, forbidden hosts and missing sandboxes."""
    if spec.request_name in RESERVED:
        message = f"{spec.request_name!r} is reserved by the API"
        raise InvalidInput(
            f"request_name: {message}", fields={"request_name": message}, cure="Choose another name"
        )
    if spec.wms_backend is not Backend.WMS2:
        message = f"{spec.wms_backend} is not WMS2; only requests for WMS2 are accepted"
        raise InvalidInput(f"wms_backend: {message}", fields={"wms_backend": message})
    if spec.callback_url:
        check_url(spec.callback_url)
    check_sandbox(url=spec.sandbox_url, digest=spec.sandbox_sha256)


def _check_priority(request: Request, origin: Origin, draft: Request | None) -> None:
    """Limit the priority set by a requestor. The priority of a ReqMgr2 request is trusted."""
    if draft is None and origin.source == REQMGR2:
        return
    limit = max(settings.REQUESTOR_MAX_PRIORITY, draft.priority if draft is not None else 0)
    if request.priority > limit:
        raise NotAllowed(
            f"{request}: requestors may set a priority up to {limit}",
            cure="Set a lower priority, or ask an operator",
        )


def _check_group(request: Request, origin: Origin, draft: Request | None) -> None:
    """Limit the group set by a requestor to their own and open groups, because it uses the group's quota."""
    if draft is None and origin.source == REQMGR2:
        return
    usable = {"", *settings.OPEN_GROUPS, *origin.groups, *([draft.group] if draft is not None else [])}
    if request.group not in usable:
        named = ", ".join(sorted(usable - {""})) or "none"
        raise NotAllowed(
            f"group: {origin.who} is not a member of {request.group}",
            cure=f"Omit the group, use one of yours ({named}), or ask an administrator for"
            f" member:{request.group}",
        )


def _check_owns(previous: Request | None, origin: Origin) -> None:
    """Raise NotAllowed unless the sender owns the request that is replaced."""
    if previous is not None and origin.who not in owners_of(previous):
        raise NotAllowed(
            f"{previous} belongs to {previous.requestor}; you can replace only your own requests",
            cure="Omit previous_version_request, or ask an operator",
        )


def check_not_replaced(previous: Request | None) -> None:
    newer = Request.objects.filter(previous_version=previous).first() if previous else None
    if newer is not None:
        raise Conflict(f"{previous} was already replaced by {newer}", cure=f"Replace {newer} instead")


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, default=str).encode()).hexdigest()


def _scoped(origin: Origin) -> str | None:
    """Return the key scoped to its caller, so that callers may use the same key."""
    if not origin.idempotency_key:
        return None
    return hashlib.sha256(f"{origin.actor}\n{origin.idempotency_key}".encode()).hexdigest()


def _first(origin: Origin, digest: str) -> Request | None:
    """Return the request created with this key. Raise Conflict if the document differs."""
    key = _scoped(origin)
    first = Request.objects.filter(idempotency_key=key).first() if key else None
    if first is not None and first.idempotency_digest != digest:
        raise Conflict(
            "this Idempotency-Key was used with another document",
            cure="Use a new key for a different document",
        )
    return first


def request_of(spec: RequestSpec, document: Mapping[str, Any]) -> Request:
    """Build the request of a spec, unsaved."""
    previous = None
    if spec.previous_version_request:
        previous = Request.objects.filter(request_name=spec.previous_version_request).first()
        if previous is None:
            message = f"there is no request {spec.previous_version_request}"
            fields = {"previous_version_request": message}
            raise InvalidInput(f"previous_version_request: {message}", fields=fields)
    columns = columns_of(spec, "request") | {"previous_version": previous}
    return Request(**columns, request_data=dict(document), rank=initial_rank(spec.priority))


def workflow_of(spec: RequestSpec) -> Workflow:
    """Return the workflow that executes the request, not stored yet."""
    columns = columns_of(spec, "workflow") | {
        "gpus": spec.gpus,
        "further_input_datasets": list(spec.further_input_datasets),
        "output_datasets": [output.dataset for output in spec.output_datasets],
        "splitting_params": spec.splitting_params.to_json(),
        "payload_config": dict(spec.payload_config),
        "size_per_event_kb": spec.output_kb_per_event,
        "category_throttles": settings.CATEGORY_THROTTLES | dict(spec.category_throttles),
    }
    return name_pull_outputs(Workflow(**columns, input_from=_producer(spec)))


def _producer(spec: RequestSpec) -> Workflow | None:
    """Return the workflow whose outputs are the input, if the document names one."""
    if not spec.input_from:
        return None
    found = Workflow.objects.filter(request_name=spec.input_from).first()
    if found is None:
        message = f"there is no request {spec.input_from}"
        raise InvalidInput(f"input_from: {message}", fields={"input_from": message})
    return found
