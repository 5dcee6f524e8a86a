"""Every status a request can have: why it exists, where it may go, how long it may last, who works on it.

Pure data. `transitions.transition()` is the only writer of a request's status and asks this table.
Jobs may run while their request is held, or queued again after that: such a request can be stopped too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from wms2_project.tables import check_complete


class RequestStatus(StrEnum):
    """Where a request is in its life."""

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
    """What happens to the outputs of the previous version once this one is complete."""

    KEEP_UNTIL_REPLACED = "keep_until_replaced"  # DEPRECATED in DBS; a person may invalidate them
    IMMEDIATE_CLEANUP = "immediate_cleanup"


class CallbackStatus(StrEnum):
    """Has the requestor's URL been told of an end?"""

    PENDING = "pending"
    DELIVERED = "delivered"
    GIVEN_UP = "given_up"  # the URL refused, or did not answer often enough


class QuotaScope(StrEnum):
    """Whose quota it is; the value is the request's column that holds the name."""

    REQUESTOR = "requestor"
    GROUP = "group"


class AlertState(StrEnum):
    """Does the alert still hold, and does somebody know of it?"""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"  # it still holds, and a person has taken it on
    CLOSED = "closed"  # it holds no longer; when it comes back it is a new alert


S = RequestStatus

WHY: dict[RequestStatus, str] = {
    S.NEW: "A draft of the requestor's; nobody works on it until it is submitted.",
    S.SUBMITTED: "The document is stored; its input is being resolved and its workflow built.",
    S.QUEUED: "Ready to run; waits for admission so that the pool is shared by priority.",
    S.PILOT_RUNNING: "A small real job measures time, memory and size before the whole is planned.",
    S.PLANNING: "Jobs are being split and grouped, and the DAG written and submitted.",
    S.ACTIVE: "DAGMan runs the groups; finished groups are registered and protected as they appear.",
    S.PARTIAL: "The DAG ended with failures; the choice between rescue and a person is being made.",
    S.STOPPING: "An operator asked for a clean stop; the jobs are leaving the queue.",
    S.RESUBMITTING: "A rescue or resume DAG is being prepared from what is already done.",
    S.HELD: "A person must decide; the evidence is on the request. Takes no capacity.",
    S.COMPLETED: "All work is done; what was produced is registered, protected and announced.",
    S.FAILED: "A person gave this request up; its outputs are invalidated. Never set by the machine.",
    S.ABORTED: "A person cancelled this request.",
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
DORMANT = frozenset({S.NEW, S.HELD})  # a person moves these, never the sweep
SWEPT = frozenset(S) - TERMINAL - DORMANT
TAKES_CAPACITY = frozenset({S.PILOT_RUNNING, S.PLANNING, S.ACTIVE, S.STOPPING})


class Overdue(StrEnum):
    """What happens to a request that stays in a status past its deadline."""

    HOLD = "hold"
    ALERT = "alert"
    CHECK_PILOT = "check_pilot"
    PING_SCHEDD = "ping_schedd"
    REMOVE_AGAIN = "remove_again"


@dataclass(frozen=True, slots=True)
class Deadline:
    """How long a status may last, counted from `status_since`, and what then."""

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
    S.SUBMITTED: "planning",  # reading a large dataset's files takes as long as planning does
    S.QUEUED: "lifecycle",
    S.PILOT_RUNNING: "condor",
    S.PLANNING: "planning",
    S.ACTIVE: "condor",
    S.PARTIAL: "lifecycle",
    S.STOPPING: "condor",
    S.RESUBMITTING: "lifecycle",
}


def may_move(current: RequestStatus, to: RequestStatus) -> bool:
    """Does the table contain this step?"""
    return to in TRANSITIONS[current]


for _name, _table, _keys in (
    ("WHY", WHY, S),
    ("TRANSITIONS", TRANSITIONS, S),
    ("DEADLINES", DEADLINES, SWEPT),
    ("QUEUES", QUEUES, SWEPT),
):
    check_complete(_name, _table, _keys)
