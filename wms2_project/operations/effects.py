"""Effect of an operation on a row, shown before the confirmation.

With a dry run these are its results; else what the operation declares as affected. A refusal says why, and
which operations the row's state allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any

from wms2_project.errors import InvalidInput, StaleVersion, Wms2Error
from wms2_project.operations import Caller, Operation, make_call

MAX_NAMED = 8


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect on one target, or why the operation would be refused."""

    target: str
    lines: list[tuple[str, str]] = field(default_factory=list)
    refusal: str = ""
    possible: list[str] = field(default_factory=list)  # labels of the operations that are allowed instead


def effect_of(
    operation: Operation, row: Any, caller: Caller, body: Mapping[str, Any], *, others: Iterable[Operation]
) -> Effect:
    """Return the effect of the operation on the row with this validated input. Nothing is changed."""
    call, _ = make_call(row, caller, body)
    try:
        operation.authorize(call)
        if not operation.allows(row):
            return _refused(operation, row, others)
        if operation.preview is not None:
            return Effect(str(row), list(lines_of(operation.preview(call))))
    except InvalidInput as error:
        wrong = "; ".join(f"{name}: {text}" for name, text in error.fields.items())
        return Effect(str(row), refusal=wrong or str(error))
    except Wms2Error as error:
        return Effect(str(row), refusal=str(error))
    affected = operation.affects(row) if operation.affects is not None else {}
    return Effect(str(row), [(label, str(value)) for label, value in affected.items()])


def _refused(operation: Operation, row: Any, others: Iterable[Operation]) -> Effect:
    status = getattr(row, "status", "")
    now = f"It is {str(status).replace('_', ' ')} now. " if status else ""
    allowed = [one.label for one in others if one.in_console and one.allows(row)]
    return Effect(
        str(row), refusal=f"{now}{operation.label} is possible: {operation.allowed_in}.", possible=allowed
    )


def lines_of(preview: Any) -> Iterable[tuple[str, str]]:
    """Yield the members of a preview that are not empty, as label and text."""
    members = asdict(preview) if is_dataclass(preview) and not isinstance(preview, type) else dict(preview)
    for name, value in members.items():
        if value not in (None, [], {}, "") or isinstance(value, bool):
            yield name.replace("_", " ").capitalize(), _text(value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {_text(one)}" for key, one in value.items())
    if isinstance(value, list | tuple):
        more = f" and {len(value) - MAX_NAMED} more" if len(value) > MAX_NAMED else ""
        return ", ".join(_text(one) for one in value[:MAX_NAMED]) + more
    return str(value)


def stale_message(error: StaleVersion, row: Any) -> str:
    """Return the message for a form that shows an old version: nothing is lost, and what to do."""
    status = str(getattr(row, "status", "")).replace("_", " ")
    now = f" It is {status} now." if status else ""
    return f"{error.message}.{now} Nothing was changed. Check the effect below, then confirm again."
