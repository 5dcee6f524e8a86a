"""Turns a request document from outside into a RequestSpec, or refuses it with one message per field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from requests_app.documents.fields import (
    WORD,
    read_identity,
    read_input,
    read_places,
    read_resources,
    read_service,
    read_software,
)
from requests_app.documents.limits import check_payload_size, inspect
from requests_app.documents.lookup import Found, Reader, check_names
from requests_app.documents.names import BOOKKEEPING, DOCUMENT_NAMES, SHARED_WITH_PAYLOAD
from requests_app.documents.naming import fresh_name
from requests_app.documents.outputs import read_outputs
from requests_app.documents.parsers import named
from requests_app.documents.problems import Problems, key_shown, shown
from requests_app.documents.shapes import Document, open_document, plain
from requests_app.documents.spec import RequestSpec
from requests_app.documents.splitting import read_splitting
from wms2_project.grammar import Name, check


def read_document(
    raw: Mapping[str, Any],
    *,
    overrides: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
    new_name: Callable[[str, str], str] = fresh_name,
) -> RequestSpec:
    """The request a document asks for; `overrides` beat the document, `defaults` fill what it leaves out.

    Both take field names of either spelling. `new_name(requestor, request_string)` is asked only when
    nobody named the request. Raises InvalidInput naming every field that cannot be accepted.
    """
    problems = Problems()
    stronger, weaker = overrides or {}, defaults or {}
    inspect(stronger, problems)
    inspect(weaker, problems)
    document = open_document(raw, problems)
    check_names(document, {*stronger, *weaker}, problems)
    reader = Reader(document, problems, overrides=plain(stronger), defaults=plain(weaker))
    spec = read_identity(reader)
    for part in (
        read_service,
        read_input,
        read_resources,
        read_software,
        read_places,
        read_outputs,
        read_splitting,
        _read_payload,
    ):
        spec = part(reader, spec)
    name = _given_name(reader)
    request_string = reader.get("request_string", WORD, "") or spec.prep_id or "request"
    problems.raise_if_any()
    return replace(spec, request_name=name or _made_name(new_name, spec.requestor, request_string))


def _read_payload(reader: Reader, spec: RequestSpec) -> RequestSpec:
    campaign = reader.get("campaign", WORD, "") or reader.get("campaign", WORD, "", reader.first)
    own = reader.find("payload_config")
    if own and not isinstance(own.value, Mapping):
        reader.problems.add(own.path, f"{shown(own.value)} is not an object; write {{name: value}}")
        own = None
    payload = _passed_on(reader.document) | (dict(own.value) if own else {})
    check_payload_size(payload, reader.problems)
    return replace(spec, campaign=campaign or spec.acquisition_era, payload_config=payload)


def _passed_on(document: Document) -> dict[str, Any]:
    """What a ReqMgr2 document tells the payload; WMS2 itself does not look at it."""
    passed: dict[str, Any] = {}
    for scope in reversed(document.scopes):
        for key, value in scope.values.items():
            typed = key in DOCUMENT_NAMES and key not in SHARED_WITH_PAYLOAD
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
                "RequestName", f"{shown(inner)} is filed under {shown(outer)}; make them agree"
            )
        found = found or Found(key_shown(outer), outer)
    return reader.parsed(found, named(Name.REQUEST), "")


def _made_name(new_name: Callable[[str, str], str], requestor: str, request_string: str) -> str:
    return check(Name.REQUEST, new_name(requestor, request_string), field="request_name")
