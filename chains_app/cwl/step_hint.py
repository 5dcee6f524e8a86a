"""The hint `wms2:Step` of a tool: how its request is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from chains_app.cwl.documents import Document, Path
from chains_app.cwl.types import Problem
from chains_app.states import Device, StepMode, StepStart

HINT = "wms2:Step"
MAX_RETRIES = 20
MAX_PRIORITY = 1_000_000
# Fields of a request document that the chain sets
GIVEN = frozenset({
    "request_name", "RequestName", "output_datasets", "OutputDatasets", "log_dataset", "LogDataset",
    "callback_url", "CallbackUrl", "correlation_id", "CorrelationId", "previous_version_request",
    "PreviousVersionRequest",
})  # fmt: skip


@dataclass(slots=True)
class StepHint:
    """Content of a hint. `document` holds fields of the request."""

    mode: str = StepMode.MAP
    tier: str = ""
    approval: bool = False
    deadline_hours: float | None = None
    start: str = StepStart.COMPLETE
    document: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HintField:
    """A field of the hint: the values it accepts, in words, and its meaning."""

    accepts: Callable[[Any], bool]
    expected: str
    meaning: str


def _whole(least: int, most: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and least <= value <= most


def _tier(value: Any) -> bool:
    return (
        isinstance(value, str)
        and 0 < len(value) <= 99
        and value.replace("-", "").isalnum()
        and value.isupper()
    )


FIELDS: dict[str, HintField] = {
    "mode": HintField(
        lambda value: value in list(StepMode), "map or merge",
        "`merge` passes events unchanged into fewer, larger files; `map` (default) runs the tool.",
    ),
    "device": HintField(lambda value: value in list(Device), "cpu or gpu", "Device that the jobs need."),
    "retries": HintField(
        _whole(1, MAX_RETRIES), f"a whole number from 1 to {MAX_RETRIES}", "Retries of a failed job.",
    ),
    "rank": HintField(
        _whole(1, MAX_PRIORITY), f"a whole number from 1 to {MAX_PRIORITY}",
        "Priority of the step's requests, unless the announcement gives one.",
    ),
    "splitting": HintField(
        lambda value: isinstance(value, dict), "an object",
        "`algo`, and the splitting parameters of a request document.",
    ),
    "tier": HintField(_tier, "a data tier such as AOD", "Tier of the outputs; that of the input if absent."),
    "approval": HintField(
        lambda value: type(value) is bool, "true or false", "Whether an operator must approve each call.",
    ),
    "deadline_hours": HintField(
        lambda value: type(value) in (int, float) and 0 < value <= 24 * 365, "a number of hours",
        "An alert is raised if a call takes longer.",
    ),
    "start": HintField(
        lambda value: value in list(StepStart), "complete or first_file",
        "`first_file` starts the step with its producer: each output of the producer is processed as soon as "
        "it is confirmed. Needs `request: {allocation: pull}`; `complete` (default) waits for the producer.",
    ),
    "request": HintField(
        lambda value: isinstance(value, dict), "an object", "Any fields of a request document.",
    ),
}  # fmt: skip


def read_hint(body: dict[str, Any], path: Path, document: Document, problems: list[Problem]) -> StepHint:
    """Return the hint; report unknown fields and illegal values."""
    valid = {}
    for name, value in body.items():
        known = FIELDS.get(name)
        if known is None:
            cure = f"Fields of {HINT} are {', '.join(FIELDS)}"
            problems.append(document.problem((*path, name), f"{HINT} has no field {name}", cure=cure))
        elif not known.accepts(value):
            message = f"{HINT}.{name}: {str(value)[:60]!r} is not {known.expected}"
            problems.append(document.problem((*path, name), message))
        else:
            valid[name] = value
    for name in GIVEN & set(valid.get("request", {})):
        problems.append(document.problem((*path, "request", name), f"{name} is given by the chain"))
    if valid.get("start") == StepStart.FIRST_FILE and not pulls(valid.get("request", {})):
        cure = "Add request: {allocation: pull}"
        problems.append(document.problem((*path, "start"), "first_file needs allocation pull", cure=cure))
    return StepHint(
        mode=valid.get("mode", StepMode.MAP),
        tier=valid.get("tier", ""),
        approval=valid.get("approval", False),
        deadline_hours=valid.get("deadline_hours"),
        start=valid.get("start", StepStart.COMPLETE),
        document=_document(valid),
    )


def pulls(document: dict[str, Any]) -> bool:
    """Return whether a request with these fields uses pull allocation."""
    return "pull" in (document.get("allocation"), document.get("Allocation"))


def _document(hint: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "retries" in hint:
        found["retry_count"] = hint["retries"]
    if "rank" in hint:
        found["priority"] = hint["rank"]
    if "splitting" in hint:
        splitting = dict(hint["splitting"])
        if algo := splitting.pop("algo", None):
            found["splitting_algo"] = algo
        found["splitting_params"] = splitting
    request = dict(hint.get("request", {}))
    payload = dict(request.pop("payload_config", {}))
    if hint.get("device") == Device.GPU:
        payload.setdefault("RequiresGPU", "required")
    if hint.get("mode") == StepMode.MERGE:
        payload.setdefault("kind", "merge")
        found.setdefault("splitting_algo", "FileBased")
    return found | request | ({"payload_config": payload} if payload else {})
