"""The status of a request in a sentence, and the one action to take next. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dags_app.failures.clusters import Remedy, Suggestion
from requests_app.states import STATUSES, TERMINAL, RequestStatus

S = RequestStatus
REMEDIES = {
    Remedy.BAN_SITE: "Release with a site ban",
    Remedy.EXCLUDE_FILES: "Release without the bad files",
    Remedy.RAISE_MEMORY: "Release with more memory",
    Remedy.RAISE_TIME: "Release with more time",
    Remedy.FAIL: "Fail the request",
    Remedy.RETRY: "Release",
}


@dataclass(frozen=True, slots=True)
class NextAction:
    """The suggested operation with its values; empty if there is none."""

    text: str
    operation: str = ""
    label: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)


def only_waits(remedy: str) -> bool:
    """Return whether a gate opens automatically, so that no action is needed."""
    return remedy == "Wait" or remedy.startswith("Wait:")


def operation_of(remedy: Remedy) -> str:
    """Return the operation that carries out the remedy."""
    return "fail" if remedy is Remedy.FAIL else "release"


def decide_next_action(
    status: RequestStatus,
    *,
    suggestions: Sequence[Suggestion] = (),
    remedy: str = "",
    allowed: Collection[str] = (),
) -> NextAction:
    """Return the next action.

    `suggestions` are those of the failure clusters, the largest first, `remedy` that of the first blocking
    gate, `allowed` the operations that the status and the role allow.
    """
    if status is S.HELD:
        return _release(suggestions, remedy, allowed)
    if status is S.NEW:
        return _offer("Submit the draft to start processing.", "submit", "Submit", allowed)
    if status in (S.FAILED, S.ABORTED):
        return _offer("Restart it to process the input again.", "restart", "Restart", allowed)
    if status is S.COMPLETED:
        return NextAction("Nothing to do. The outputs are announced.")
    if remedy and not only_waits(remedy):
        return NextAction(remedy)
    return NextAction("Nothing to do. WMS2 continues by itself.")


def _release(suggestions: Sequence[Suggestion], remedy: str, allowed: Collection[str]) -> NextAction:
    if not suggestions:
        text = remedy or "An operator decides: release the request, or fail it."
        return _offer(text, "release", "Release", allowed)
    first = suggestions[0]
    made = _offer(first.why, operation_of(first.action), REMEDIES[first.action], allowed)
    return NextAction(made.text, made.operation, made.label, first.modifications if made.operation else {})


def _offer(text: str, operation: str, label: str, allowed: Collection[str]) -> NextAction:
    return NextAction(text, operation, label) if operation in allowed else NextAction(text)


def status_sentence(status: RequestStatus, *, reason: str) -> str:
    """Return what the status means for this request."""
    if status in TERMINAL or status is S.NEW or not reason:
        return STATUSES[status].why
    return reason
