"""The life of a request as a document: a diagram of its statuses and a table of what they mean. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from requests_app.states import STATUSES, TERMINAL, RequestStatus

S = RequestStatus
# The path of a request without errors; other transitions are drawn dashed.
USUAL = (
    (S.NEW, S.SUBMITTED), (S.SUBMITTED, S.QUEUED), (S.QUEUED, S.PILOT_RUNNING), (S.PILOT_RUNNING, S.PLANNING),
    (S.QUEUED, S.PLANNING), (S.PLANNING, S.ACTIVE), (S.ACTIVE, S.QUEUED), (S.ACTIVE, S.COMPLETED),
)  # fmt: skip
LEFT_OUT = (S.HELD, S.ABORTED)  # nearly every status leads there
FILLS = {
    "success": "#dcfce7", "danger": "#fee2e2", "warning": "#ffedd5", "info": "#dbeafe", "primary": "#f3e8ff",
    "": "#f3f4f6",
}  # fmt: skip
HEADER = """# Life of a request

Written by `./wms2 manage reference life-of-a-request` from the table of statuses (`requests_app/states.py`).
Thick arrows are the path without errors; dashed arrows are caused by operators and failures. Two kinds of
arrows
are left out, see the table: to `held`, where an operator decides, and to `aborted`, by requestors and
operators.
"""


def render_life() -> str:
    """Return the document."""
    return "\n".join([HEADER, "```mermaid", *_diagram(), "```", "", *_table(), ""])


def _diagram() -> Iterator[str]:
    yield "flowchart LR"
    for status in S:
        left, right = ("([", "])") if status in TERMINAL else ("(", ")")
        yield f"  {status}{left}{_words(status)}{right}"
    for status, facts in STATUSES.items():
        for after in facts.leads_to:
            if after not in LEFT_OUT:
                yield f"  {status} {'==>' if (status, after) in USUAL else '-.->'} {after}"
    for colour, fill in FILLS.items():
        if members := [status.value for status, facts in STATUSES.items() if facts.colour == colour]:
            name = colour or "plain"
            yield f"  classDef {name} fill:{fill},stroke:#6b7280,color:#111827"
            yield f"  class {','.join(members)} {name}"


def _table() -> Iterator[str]:
    yield "| status | meaning | leads to | deadline |"
    yield "|---|---|---|---|"
    for status, facts in STATUSES.items():
        after = ", ".join(_words(one) for one in facts.leads_to) or "–"
        limit = f"{facts.deadline.after}, then {_words(facts.deadline.then)}" if facts.deadline else "–"
        yield f"| {_words(status)} | {facts.why} | {after} | {limit} |"


def _words(value: str) -> str:
    return value.replace("_", " ")
