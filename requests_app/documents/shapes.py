"""Recognises the format of a document: plain, ReqMgr2 template, dump, task chain or step chain."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from requests_app.documents.limits import inspect
from requests_app.documents.parsers import Refused, named, whole
from requests_app.documents.problems import Problems, key_shown, refusal, refuse, shown
from requests_app.documents.table import DOCUMENT_NAMES
from wms2_project.grammar import Name

# Names in documents that are not fields of a request:
SET_BY_WMS2 = frozenset((
    "id", "status", "status_since", "status_transitions", "superseded_by_request", "created_at", "updated_at",
))  # fmt: skip
# ReqMgr2's own records about a request. Not passed to the payload; partly personal data.
BOOKKEEPING = frozenset((
    "Comments", "CouchURL", "CouchWorkloadDBName", "Dashboard", "DashboardHost", "DashboardPort",
    "InitialPriority", "OutputModulesLFNBases", "PriorityTransition", "RequestDate", "RequestStatus",
    "RequestTransition", "RequestWorkflow", "Team", "TotalEstimatedJobs", "TotalInputEvents",
    "TotalInputFiles", "TotalInputLumis", "VoGroup", "VoRole",
))  # fmt: skip
# Names of ReqMgr2 that resemble a field but are not misspelt.
LOOKALIKES = frozenset({"ConfigCacheUrl", "MinMergeSize"})
# Fields of resubmissions, which refer to collections kept by WMCore's agents.
RESUBMISSION_FIELDS = ("ACDCServer", "ACDCDatabase", "CollectionName", "InitialTaskPath")

STEP_KEY = re.compile(r"(Task|Step)([1-9][0-9]{0,3})", re.ASCII)
PLACEHOLDER_END = "-OVERRIDE-ME"

MAX_STEPS = 50
_TEMPLATE = ("createRequest", "assignRequest")
_VERBATIM = ("payload_config", "PayloadConfig")


@dataclass(frozen=True, slots=True)
class Scope:
    """Some fields of a document, and the prefix of their paths."""

    prefix: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """A task or step of a chain; `parent` is the index of the one whose output it reads."""

    label: str
    name: str
    scope: Scope
    parent: int | None


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed document; its scopes are ordered, strongest first, the one of the creation last."""

    scopes: tuple[Scope, ...]
    steps: tuple[Step, ...]
    name: str | None
    camel: bool

    @property
    def created(self) -> Scope:
        return self.scopes[-1]


def open_document(raw: object, problems: Problems) -> Document:
    """Recognise the format, drop placeholders and find the steps of a chain."""
    inspect(raw, problems)
    inner = _unwrap_result(raw)
    name = None
    if _is_dump(inner):
        if len(inner) > 1:
            raise refuse("document", f"has {len(inner)} requests; submit them as a batch, one document each")
        name, inner = next(iter(inner.items()))
    scopes = _scopes(inner)
    _refuse_resubmission(scopes)
    steps = _steps(scopes[-1], problems)
    keys = {key for scope in scopes for key in scope.values}
    return Document(scopes=scopes, steps=steps, name=name, camel=any(key[:1].isupper() for key in keys))


def plain(value: Any, *, keep_placeholders: bool = False) -> Any:
    """Return a copy of plain lists and dicts without placeholders, which count as absent."""
    if isinstance(value, Mapping):
        copied = {
            key: plain(child, keep_placeholders=keep_placeholders or key in _VERBATIM)
            for key, child in value.items()
        }
        return copied if keep_placeholders else {k: v for k, v in copied.items() if not _is_placeholder(v)}
    if isinstance(value, list | tuple):
        children = [plain(child, keep_placeholders=keep_placeholders) for child in value]
        return children if keep_placeholders else [c for c in children if not _is_placeholder(c)]
    return value


def _is_placeholder(value: object) -> bool:
    return isinstance(value, str) and value.endswith(PLACEHOLDER_END)


def _unwrap_result(raw: object) -> Mapping[str, Any]:
    if isinstance(raw, Mapping) and set(raw) == {"result"} and isinstance(raw["result"], list | tuple):
        answers = raw["result"]
        if len(answers) != 1:
            raise refuse("result", f"has {len(answers)} entries; exactly one is expected")
        raw = answers[0]
    if not isinstance(raw, Mapping):
        raise refuse("document", f"{shown(raw)} is not a request; send one JSON object")
    if not raw:
        raise refuse("document", "is empty; send the fields of a request")
    return raw


def _is_dump(raw: Mapping[str, Any]) -> bool:
    known = any(key in DOCUMENT_NAMES or key in _TEMPLATE or STEP_KEY.fullmatch(key) for key in raw)
    return not known and all(isinstance(value, Mapping) for value in raw.values())


def _scopes(raw: Mapping[str, Any]) -> tuple[Scope, ...]:
    if not any(part in raw for part in _TEMPLATE):
        return (Scope("", plain(raw)),)
    problems = Problems()
    for key in raw:
        if key not in _TEMPLATE:
            problems.add(key_shown(key), "does not belong beside createRequest; move it inside")
    for part in _TEMPLATE:
        if not isinstance(raw.get(part, {}), Mapping):
            problems.add(part, f"{shown(raw[part])} is not an object; write the request's fields inside")
    if "createRequest" not in raw:
        problems.add("createRequest", "is missing; a template needs the request's fields there")
    problems.raise_if_any()
    assigned = Scope("assignRequest.", plain(raw.get("assignRequest", {})))
    return (assigned, Scope("createRequest.", plain(raw["createRequest"])))


def _refuse_resubmission(scopes: tuple[Scope, ...]) -> None:
    found: dict[str, str] = {}
    cure = "resubmissions are not supported; restart the original request instead"
    for scope in scopes:
        if scope.values.get("RequestType") == "Resubmission":
            path = scope.prefix + "RequestType"
            found[path] = f"{path}: a Resubmission has no input of its own: {cure}"
        for key in RESUBMISSION_FIELDS:
            if scope.values.get(key):
                path = scope.prefix + key
                found[path] = f"{path}: refers to failed jobs of another system: {cure}"
    for scope in scopes if found else ():
        if scope.values.get("OriginalRequestName"):
            path = scope.prefix + "OriginalRequestName"
            found[path] = (
                f"{path}: {shown(scope.values['OriginalRequestName'])} is the request to restart: {cure}"
            )
    if found:
        raise refusal(found)


def _steps(scope: Scope, problems: Problems) -> tuple[Step, ...]:
    labels = [key for key in scope.values if STEP_KEY.fullmatch(key)]
    kinds = {key[:4] for key in labels} | {k for k in ("Task", "Step") if scope.values.get(k + "Chain")}
    if len(kinds) > 1:
        problems.add(f"{scope.prefix}StepChain", "tasks and steps are mixed; use TaskN or StepN, not both")
    if len(kinds) != 1:
        return ()
    kind = kinds.pop()
    steps: list[Step] = []
    for label in [f"{kind}{number + 1}" for number in range(_chain_length(scope, kind, labels, problems))]:
        values = scope.values.get(label)
        if not isinstance(values, Mapping):
            problems.add(
                scope.prefix + label, "is missing or not an object; describe it or shorten the chain"
            )
            continue
        steps.append(_step(kind, label, Scope(f"{scope.prefix}{label}.", values), steps, problems))
    return tuple(steps)


def _chain_length(scope: Scope, kind: str, labels: list[str], problems: Problems) -> int:
    key = f"{kind}Chain"
    path = scope.prefix + key
    counted = min(len(labels), MAX_STEPS)
    if len(labels) > MAX_STEPS:
        problems.add(path, f"{len(labels)} are too many; a chain has at most {MAX_STEPS}")
    stated = scope.values.get(key)
    if stated is None:
        return counted
    try:
        length = whole(1, MAX_STEPS)(stated)
    except Refused as refused:
        problems.add(path, str(refused))
        return counted
    for label in labels:
        if int(label[4:]) > length:
            problems.add(scope.prefix + label, f"is beyond the {length} that {key} announces; raise {key}")
    return length


def _step(kind: str, label: str, scope: Scope, before: list[Step], problems: Problems) -> Step:
    name = scope.values.get(f"{kind}Name") or label
    path = f"{scope.prefix}{kind}Name"
    try:
        name = named(Name.WORD)(name)
    except Refused as refused:
        problems.add(path, str(refused))
        name = label
    if name in [step.name for step in before]:
        problems.add(path, f"{shown(name)} is already taken; name each {kind.lower()} differently")
    parent = len(before) - 1 if before else None
    source = scope.values.get(f"Input{kind}")
    if source:
        known = [step.name for step in before]
        if source in known:
            parent = known.index(source)
        else:
            problems.add(
                f"{scope.prefix}Input{kind}",
                f"{shown(source)} is not an earlier {kind.lower()}; name one before it",
            )
    return Step(label=label, name=name, scope=scope, parent=parent)
