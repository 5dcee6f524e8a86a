"""Taking a request in: read the document strictly, store it and its workflow, or refuse and store nothing."""

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
from requests_app.documents import Backend, RequestSpec, check_size, read_document
from requests_app.documents.table import columns_of
from requests_app.models import Request
from requests_app.quotas import check_submission
from requests_app.selectors import owners_of
from requests_app.services import owning
from requests_app.services.callbacks import check_url
from requests_app.states import RequestStatus as S
from requests_app.transitions import begin
from wms2_project.errors import Conflict, InvalidInput, NotAllowed, QuotaExceeded
from wms2_project.grammar import Name, check

BESIDE = ("correlation_id", "callback_url", "submitted_by")  # what ReqMgr2 does not know about a request
REQMGR2 = "reqmgr2"  # the source of a document that was fetched by its name
RESERVED = frozenset({"plan", "batch"})  # paths below /requests that are not request names


@dataclass(frozen=True, slots=True)
class Origin:
    """Who sends a document, through which door, and the key that makes sending it again harmless."""

    actor: str
    source: str
    idempotency_key: str
    on_behalf: bool
    draft: bool = False
    groups: frozenset[str] = frozenset()  # the groups the sender is a member of

    @property
    def who(self) -> str:
        """The sender's name."""
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
    """Store a request and its workflow, submitted or as a draft; True if it is new.

    The same key with the same document answers the first request again; with another one it is refused.
    `on_behalf`: an operator sends it, for any requestor and group, and the document may say who submits it.
    Otherwise submitter and requestor are the actor, and the group is one of `groups` or an open one.
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
    """Fetch the document from ReqMgr2 and import it. A known key is answered without asking again.

    The request belongs to the document's Requestor; only that account and operators may import it.
    `on_behalf`: an operator asks. `beside`: what the caller adds to the document, of the names in BESIDE.
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
    spec = read_document(
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
    found = {} if origin.draft else owning.ask_dbs(request.workflow.output_datasets)
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
        if twin is not None:  # two calls with one key at once: the other was faster
            return twin, False
        if isinstance(error, QuotaExceeded):
            raise
        check_not_replaced(request.previous_version)
        raise Conflict(
            f"a request named {spec.request_name} exists already",
            cure="Choose another name, or restart the existing request to run it again",
        ) from error
    return request, True


def check_import(
    spec: RequestSpec, request: Request, origin: Origin, *, draft: Request | None = None
) -> None:
    """Refuse what is well-formed, but not for us or not for the sender to ask for.

    `draft` is the request as it is before an edit: what an operator or ReqMgr2 gave it stands.
    """
    _check_taken_here(spec)
    if origin.on_behalf:
        return
    _check_priority(request, origin, draft)
    _check_group(request, origin, draft)
    if draft is None or request.previous_version != draft.previous_version:
        _check_owns(request.previous_version, origin)


def _check_requestor(spec: RequestSpec, origin: Origin) -> None:
    """Refuse to store a request in the name of another account; names are compared exactly."""
    if origin.on_behalf or spec.requestor == origin.who:
        return
    if origin.source == REQMGR2:
        raise NotAllowed(
            f"{spec.request_name} is {spec.requestor}'s in ReqMgr2, and you are {origin.who}",
            cure="Ask its requestor or an operator to import it",
        )
    raise NotAllowed(
        f"requestor: you are {origin.who} and cannot submit as {spec.requestor}",
        cure="Leave the requestor out, or ask an operator to submit it",
    )


def _check_taken_here(spec: RequestSpec) -> None:
    """Refuse what is well-formed but not for us."""
    if spec.request_name in RESERVED:
        told = f"{spec.request_name!r} is a word of the API itself"
        raise InvalidInput(f"request_name: {told}", fields={"request_name": told}, cure="Choose another name")
    if spec.wms_backend is not Backend.WMS2:
        told = f"{spec.wms_backend} runs this request; WMS2 leaves it alone"
        raise InvalidInput(f"wms_backend: {told}", fields={"wms_backend": told})
    if spec.callback_url:
        check_url(spec.callback_url)


def _check_priority(request: Request, origin: Origin, draft: Request | None) -> None:
    """Limit the priority a requestor writes as in a later change; what ReqMgr2 says was decided there."""
    if draft is None and origin.source == REQMGR2:
        return
    limit = max(settings.REQUESTOR_MAX_PRIORITY, draft.priority if draft is not None else 0)
    if request.priority > limit:
        raise NotAllowed(
            f"{request}: requestors go up to priority {limit}", cure="Ask for less, or ask an operator"
        )


def _check_group(request: Request, origin: Origin, draft: Request | None) -> None:
    """Limit the group a requestor writes to their own and the open ones: a group's quota is its members'."""
    if draft is None and origin.source == REQMGR2:
        return
    usable = {"", *settings.OPEN_GROUPS, *origin.groups, *([draft.group] if draft is not None else [])}
    if request.group not in usable:
        named = ", ".join(sorted(usable - {""})) or "none"
        raise NotAllowed(
            f"group: {origin.who} is no member of {request.group}",
            cure=f"Leave the group out or use one of yours ({named}), or ask an administrator for"
            f" member:{request.group}",
        )


def _check_owns(previous: Request | None, origin: Origin) -> None:
    """Whoever replaces a request ends its outputs: only its owners may, and operators."""
    if previous is not None and origin.who not in owners_of(previous):
        raise NotAllowed(
            f"{previous} is {previous.requestor}'s; you may replace only your own requests",
            cure="Leave previous_version_request out, or ask an operator",
        )


def check_not_replaced(previous: Request | None) -> None:
    newer = Request.objects.filter(previous_version=previous).first() if previous else None
    if newer is not None:
        raise Conflict(f"{previous} is replaced by {newer} already", cure=f"Replace {newer} instead")


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, default=str).encode()).hexdigest()


def _scoped(origin: Origin) -> str | None:
    """A key is its caller's own: two callers may think of the same one."""
    if not origin.idempotency_key:
        return None
    return hashlib.sha256(f"{origin.actor}\n{origin.idempotency_key}".encode()).hexdigest()


def _first(origin: Origin, digest: str) -> Request | None:
    """The request this key made before; refused if it was made of another document."""
    key = _scoped(origin)
    first = Request.objects.filter(idempotency_key=key).first() if key else None
    if first is not None and first.idempotency_digest != digest:
        raise Conflict(
            "this Idempotency-Key was used with another document", cure="Use a new key for a new request"
        )
    return first


def request_of(spec: RequestSpec, document: Mapping[str, Any]) -> Request:
    """The request a spec describes, not stored yet."""
    previous = None
    if spec.previous_version_request:
        previous = Request.objects.filter(request_name=spec.previous_version_request).first()
        if previous is None:
            told = f"there is no request {spec.previous_version_request}"
            raise InvalidInput(f"previous_version_request: {told}", fields={"previous_version_request": told})
    columns = columns_of(spec, "request") | {"previous_version": previous}
    return Request(**columns, request_data=dict(document), rank=float(spec.priority))


def workflow_of(spec: RequestSpec) -> Workflow:
    """The workflow that executes the request, not stored yet."""
    columns = columns_of(spec, "workflow") | {
        "gpus": spec.gpus,
        "output_datasets": [output.dataset for output in spec.output_datasets],
        "splitting_params": spec.splitting_params.to_json(),
        "payload_config": dict(spec.payload_config),
        "size_per_event_kb": spec.output_kb_per_event,
        "category_throttles": settings.CATEGORY_THROTTLES | dict(spec.category_throttles),
    }
    return Workflow(**columns)
