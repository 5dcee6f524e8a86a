"""Reads a request document into a RequestSpec, or refuses it with one message per field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from dags_app.planning.payloads import PayloadRules
from requests_app.documents.fields import check_places, read_input, read_plain, read_resources
from requests_app.documents.limits import check_payload_size, inspect
from requests_app.documents.lookup import Found, Reader, check_names
from requests_app.documents.naming import fresh_name
from requests_app.documents.outputs import read_outputs
from requests_app.documents.payloads import resolve_payload
from requests_app.documents.problems import Problems, key_shown, shown
from requests_app.documents.shapes import BOOKKEEPING, Document, open_document, plain
from requests_app.documents.spec import RequestSpec
from requests_app.documents.splitting import read_splitting
from requests_app.documents.table import DOCUMENT, DOCUMENT_NAMES, FIELD
from wms2_project.grammar import Name, check

_FOR_PAYLOAD = frozenset(one.reqmgr2 for one in DOCUMENT if one.for_payload)


def read_document(
    raw: Mapping[str, Any],
    *,
    overrides: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
    new_name: Callable[[str, str], str] = fresh_name,
    stored: bool = False,
    payloads: PayloadRules | None = None,
) -> RequestSpec:
    """Return the request of a document; `overrides` outrank it, `defaults` fill what it leaves out.

    Both take field names of either spelling. `new_name(requestor, request_string)` is called only if the
    request has no name. `stored`: the document was accepted before, so names that look misspelt are accepted.
    `payloads` gives the payload its kind and validates it; without them it is not validated.
    Raises InvalidInput naming every field that cannot be accepted.
    """
    problems = Problems()
    stronger, weaker = overrides or {}, defaults or {}
    inspect(stronger, problems)
    inspect(weaker, problems)
    document = open_document(raw, problems)
    check_names(document, {*stronger, *weaker}, problems, stored=stored)
    reader = Reader(document, problems, overrides=plain(stronger), defaults=plain(weaker))
    spec = read_plain(reader)
    for part in (read_input, read_resources, check_places, read_outputs, read_splitting, _read_payload):
        spec = part(reader, spec)
    if payloads is not None:
        spec = resolve_payload(reader, spec, payloads)
    name = _given_name(reader)
    request_string = reader.read("request_string") or spec.prep_id or "request"
    problems.raise_if_any()
    return replace(spec, request_name=name or _made_name(new_name, spec.requestor, request_string))


def _read_payload(reader: Reader, spec: RequestSpec) -> RequestSpec:
    campaign = spec.campaign or reader.read("campaign", reader.first) or spec.acquisition_era
    payload = _passed_on(reader.document) | dict(spec.payload_config)
    check_payload_size(payload, reader.problems)
    return replace(spec, campaign=campaign, payload_config=payload)


def _passed_on(document: Document) -> dict[str, Any]:
    """Return the fields of a ReqMgr2 document that are passed to the payload unread."""
    passed: dict[str, Any] = {}
    for scope in reversed(document.scopes):
        for key, value in scope.values.items():
            typed = key in DOCUMENT_NAMES and key not in _FOR_PAYLOAD
            if not typed and key not in BOOKKEEPING and key[:1].isupper():
                passed[key] = value
    return passed


def _given_name(reader: Reader) -> str:
    found = reader.find("request_name")
    outer = reader.document.name
    if outer is not None:
        inner = reader.document.created.values.get("RequestName", outer)
        if inner != outer:
            reader.problems.add(
                "RequestName", f"{shown(inner)} differs from the document's key {shown(outer)}; use one name"
            )
        found = found or Found(key_shown(outer), outer)
    name: str = reader.parsed(found, FIELD["request_name"].kind, "")
    return name


def _made_name(new_name: Callable[[str, str], str], requestor: str, request_string: str) -> str:
    return check(Name.REQUEST, new_name(requestor, request_string), field="request_name")
