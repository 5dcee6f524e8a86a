"""Drafts: requests that are not processed until they are submitted, and whose document may be edited."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from dags_app.models import Workflow
from requests_app.documents import RequestSpec
from requests_app.documents.table import columns_of
from requests_app.models import Request
from requests_app.services import owning
from requests_app.services.importing import Origin, check_import, check_not_replaced, request_of, workflow_of
from requests_app.services.reading import read_request
from requests_app.states import RequestStatus as S
from requests_app.transitions import check_action, transition
from wms2_project.access import audit
from wms2_project.errors import Conflict, InvalidInput, StaleVersion

DOCUMENT = "document"  # the name under which an edit has fields of the document that have none of their own
_OWNED = frozenset({"request_name", "requestor", "submitted_by"})  # of the request; an edit leaves them
_KEPT = frozenset({"id", "request_name", "version", "created_at", "updated_at"})  # of the workflow


def submit_draft(
    *, request: Request, actor: str, reason: str, expected_version: int | None = None
) -> Request:
    """Submit a draft unchanged, with the claims on its output datasets."""
    check_action(request, reason=reason, expected_version=expected_version)
    if request.status != S.NEW:
        raise Conflict(f"{request.request_name} is {request.status}, not a draft", cure="Nothing to submit")
    found = owning.ask_dbs(request.workflow.written_datasets)
    with transaction.atomic():
        transition(request=request, to=S.SUBMITTED, reason=reason, actor=actor)
        owning.claim_outputs(request=request, found=found, now=request.status_since)
    return request


def read_draft(
    request: Request,
    changes: Mapping[str, Any],
    *,
    actor: str,
    on_behalf: bool,
    groups: frozenset[str] = frozenset(),
) -> tuple[RequestSpec, Request]:
    """Return what the draft would be after these changes, not stored; raise as an import would.

    `on_behalf`: the caller is an operator; otherwise `groups` are those the actor may use.
    """
    document = changes.get(DOCUMENT) or {}
    given = {name: value for name, value in changes.items() if name != DOCUMENT and value is not None}
    if not given and not document:
        raise InvalidInput("nothing was changed", fields={"changes": "name at least one field"})
    own = {"request_name": request.request_name, "submitted_by": request.submitted_by}
    _check_own(document, {"RequestName": request.request_name} | own)
    spec = read_request(
        request.request_data,
        overrides={**document, **given, **own},
        defaults={"requestor": request.requestor},
        stored=True,
    )
    _check_own({"requestor": spec.requestor}, {"requestor": request.requestor})
    edited = request_of(spec, spec.to_document())
    check_import(spec, edited, Origin(actor, request.source, "", on_behalf, groups=groups), draft=request)
    return spec, edited


def _check_own(given: Mapping[str, Any], own: Mapping[str, str]) -> None:
    """Name and owner of a request do not change."""
    wrong = {name: f"stays {value}" for name, value in own.items() if given.get(name, value) != value}
    if wrong:
        raise InvalidInput("nothing was changed", fields=wrong)


def edit_draft(
    *,
    request: Request,
    actor: str,
    reason: str,
    changes: Mapping[str, Any],
    on_behalf: bool,
    groups: frozenset[str] = frozenset(),
    expected_version: int | None = None,
) -> Request:
    """Change any field of a draft's document, by the rules of an import. `on_behalf`: as an operator."""
    check_action(request, reason=reason, expected_version=expected_version)
    spec, edited = read_draft(request, changes, actor=actor, on_behalf=on_behalf, groups=groups)
    names = {*columns_of(spec, "request"), "request_data", "rank"} - _OWNED
    columns = {name: getattr(edited, name) for name in names}
    planned = workflow_of(spec)
    fields = [field.name for field in Workflow._meta.concrete_fields if field.name not in _KEPT]
    now = timezone.now()
    try:
        with transaction.atomic():
            unchanged = Request.objects.filter(pk=request.pk, version=request.version, status=S.NEW)
            if not unchanged.update(**columns, version=F("version") + 1, updated_at=now):
                raise StaleVersion(f"{request.request_name} changed meanwhile", cure="Read it and repeat")
            flow = Workflow.objects.filter(pk=request.workflow_id)
            flow.update(**{name: getattr(planned, name) for name in fields}, version=F("version") + 1)
            name = request.request_name
            audit.record(actor=actor, action="change", target=name, reason=reason, changes=dict(changes))
    except IntegrityError as error:
        check_not_replaced(edited.previous_version)
        raise Conflict(f"{request.request_name} cannot be changed in this way: {error}") from error
    request.refresh_from_db()
    request.workflow.refresh_from_db()
    return request
