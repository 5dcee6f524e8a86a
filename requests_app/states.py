"""Request statuses: meaning, allowed transitions, deadlines and queues.

Pure data. `transitions.transition()` is the only writer of a request's status and enforces this table.
Jobs may still run while their request is held or queued after a hold, so both statuses allow a stop.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from wms2_project.tables import check_complete


class RequestStatus(StrEnum):
    """Status of a request."""

    NEW = "new"
    SUBMITTED = "submitted"
    QUEUED = "queued"
    PILOT_RUNNING = "pilot_running"
    PLANNING = "planning"
    ACTIVE = "active"
    PARTIAL = "partial"
    STOPPING = "stopping"
    RESUBMITTING = "resubmitting"
    HELD = "held"
    COMPLETED = "completed"
    FAILED = "failed"
    ABORTED = "aborted"


class CleanupPolicy(StrEnum):
    """What happens to the outputs of the previous version when this version completes."""

    KEEP_UNTIL_REPLACED = "keep_until_replaced"  # set to DEPRECATED in DBS; an operator may invalidate them
    IMMEDIATE_CLEANUP = "immediate_cleanup"


class CallbackStatus(StrEnum):
    """Delivery status of a callback."""

    PENDING = "pending"
    DELIVERED = "delivered"
    GIVEN_UP = "given_up"  # refused by the receiver, or too many failed attempts


class QuotaScope(StrEnum):
    """Owner type of a quota. The value is the name of the request's column."""

    REQUESTOR = "requestor"
    GROUP = "group"


class AlertState(StrEnum):
    """State of an alert."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"  # still valid, and an operator is working on it
    CLOSED = "closed"  # no longer valid; a recurrence opens a new alert


S = RequestStatus

WHY: dict[RequestStatus, str] = {
    S.NEW: "Draft. Processing starts when the requestor submits it.",
    S.SUBMITTED: "The document is stored. Its input is being resolved and its workflow built.",
    S.QUEUED: "Ready to run. Waiting for admission, which shares the pool by priority.",
    S.PILOT_RUNNING: "A small job measures time, memory and output size before production is planned.",
    S.PLANNING: "The work is being split into jobs and merge groups; then the DAG is written and submitted.",
    S.ACTIVE: "DAGMan runs the merge groups. Outputs of finished groups are registered and protected.",
    S.PARTIAL: "The DAG ended with failures. WMS2 is deciding whether to rescue it or to hold the request.",
    S.STOPPING: "A clean stop was requested. Jobs are being removed from the queue.",
    S.RESUBMITTING: "A rescue or resume DAG is being prepared. Finished work is kept.",
    S.HELD: "An operator must decide; see the evidence of the hold. A held request uses no capacity.",
    S.COMPLETED: "All work is done. The outputs are registered, protected and announced.",
    S.FAILED: "An operator failed this request. Its outputs are invalidated. Never set automatically.",
    S.ABORTED: "The request was cancelled by its requestor or an operator.",
}

TRANSITIONS: dict[RequestStatus, frozenset[RequestStatus]] = {
    S.NEW: frozenset({S.SUBMITTED, S.ABORTED}),
    S.SUBMITTED: frozenset({S.QUEUED, S.HELD, S.ABORTED}),
    S.QUEUED: frozenset({S.PILOT_RUNNING, S.PLANNING, S.STOPPING, S.HELD, S.ABORTED}),
    S.PILOT_RUNNING: frozenset({S.PLANNING, S.HELD, S.STOPPING, S.ABORTED}),
    S.PLANNING: frozenset({S.ACTIVE, S.QUEUED, S.STOPPING, S.HELD, S.ABORTED}),
    S.ACTIVE: frozenset({S.COMPLETED, S.PARTIAL, S.QUEUED, S.STOPPING, S.HELD, S.ABORTED, S.FAILED}),
    S.PARTIAL: frozenset({S.RESUBMITTING, S.QUEUED, S.HELD, S.ABORTED}),
    S.STOPPING: frozenset({S.RESUBMITTING, S.PARTIAL, S.PILOT_RUNNING, S.HELD, S.ABORTED, S.FAILED}),
    S.RESUBMITTING: frozenset({S.QUEUED, S.HELD, S.ABORTED}),
    S.HELD: frozenset({S.QUEUED, S.STOPPING, S.FAILED, S.ABORTED}),
    S.COMPLETED: frozenset(),
    S.FAILED: frozenset(),
    S.ABORTED: frozenset(),
}

TERMINAL = frozenset({S.COMPLETED, S.FAILED, S.ABORTED})
DORMANT = frozenset({S.NEW, S.HELD})  # only a person moves these, never the sweep
SWEPT = frozenset(S) - TERMINAL - DORMANT
TAKES_CAPACITY = frozenset({S.PILOT_RUNNING, S.PLANNING, S.ACTIVE, S.STOPPING})


class Overdue(StrEnum):
    """Action when a request exceeds the deadline of its status."""

    HOLD = "hold"
    ALERT = "alert"
    CHECK_PILOT = "check_pilot"
    PING_SCHEDD = "ping_schedd"
    REMOVE_AGAIN = "remove_again"


@dataclass(frozen=True, slots=True)
class Deadline:
    """Maximum time in a status, counted from `status_since`, and the action after it."""

    after: timedelta
    then: Overdue


DEADLINES: dict[RequestStatus, Deadline] = {
    S.SUBMITTED: Deadline(timedelta(hours=1), Overdue.HOLD),
    S.QUEUED: Deadline(timedelta(days=7), Overdue.ALERT),
    S.PILOT_RUNNING: Deadline(timedelta(hours=24), Overdue.CHECK_PILOT),
    S.PLANNING: Deadline(timedelta(hours=1), Overdue.HOLD),
    S.ACTIVE: Deadline(timedelta(days=30), Overdue.PING_SCHEDD),
    S.PARTIAL: Deadline(timedelta(hours=1), Overdue.HOLD),
    S.STOPPING: Deadline(timedelta(hours=1), Overdue.REMOVE_AGAIN),
    S.RESUBMITTING: Deadline(timedelta(minutes=10), Overdue.HOLD),
}

QUEUES: dict[RequestStatus, str] = {
    S.SUBMITTED: "planning",  # resolving a large dataset takes as long as planning
    S.QUEUED: "lifecycle",
    S.PILOT_RUNNING: "condor",
    S.PLANNING: "planning",
    S.ACTIVE: "condor",
    S.PARTIAL: "lifecycle",
    S.STOPPING: "condor",
    S.RESUBMITTING: "lifecycle",
}


def may_move(current: RequestStatus, to: RequestStatus) -> bool:
    """Return whether the transition is allowed."""
    return to in TRANSITIONS[current]


for _name, _table, _keys in (
    ("WHY", WHY, S),
    ("TRANSITIONS", TRANSITIONS, S),
    ("DEADLINES", DEADLINES, SWEPT),
    ("QUEUES", QUEUES, SWEPT),
):
    check_complete(_name, _table, _keys)
