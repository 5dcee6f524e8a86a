"""Request statuses, each with one entry in one table: meaning, transitions, deadline, queue and names.

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
    """Treatment of the outputs of the previous version when this version completes."""

    KEEP_UNTIL_REPLACED = "keep_until_replaced"  # set to DEPRECATED in DBS; an operator may invalidate them
    IMMEDIATE_CLEANUP = "immediate_cleanup"


class StoragePolicy(StrEnum):
    """Treatment of requests while the output storage of a site is above the critical fraction."""

    CLOSE = "close"  # no further request is admitted there
    HOLD = "hold"  # and at each check the lowest-ranked active request that writes there is held


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


S = RequestStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Declaration of one status."""

    why: str
    leads_to: tuple[RequestStatus, ...] = ()  # empty: the request has ended
    queue: str = ""  # queue of its handler; empty: only a person moves the request
    deadline: Deadline | None = None  # of statuses with a handler
    takes_capacity: bool = False
    public: str  # the status in the public view
    reqmgr2: str = ""  # the status reported to ReqMgr2; empty: none
    colour: str = ""  # in the console


STATUSES: dict[RequestStatus, Facts] = {
    S.NEW: Facts(
        why="Draft. Processing starts when the requestor submits it.",
        leads_to=(S.SUBMITTED, S.ABORTED),
        public="accepted",
    ),
    S.SUBMITTED: Facts(
        why="The document is stored. Its input is being resolved and its workflow built.",
        leads_to=(S.QUEUED, S.HELD, S.ABORTED),
        queue="planning",  # resolving a large dataset takes as long as planning
        deadline=Deadline(timedelta(hours=1), Overdue.HOLD),
        public="accepted",
        colour="info",
    ),
    S.QUEUED: Facts(
        why="Ready to run. Waiting for admission, which shares the pool by priority.",
        leads_to=(S.PILOT_RUNNING, S.PLANNING, S.STOPPING, S.HELD, S.ABORTED),
        queue="lifecycle",
        deadline=Deadline(timedelta(days=7), Overdue.ALERT),
        public="accepted",
        reqmgr2="acquired",
        colour="info",
    ),
    S.PILOT_RUNNING: Facts(
        why="A small job measures time, memory and output size before production is planned.",
        leads_to=(S.PLANNING, S.HELD, S.STOPPING, S.ABORTED),
        queue="condor",
        deadline=Deadline(timedelta(hours=24), Overdue.CHECK_PILOT),
        takes_capacity=True,
        public="running",
        reqmgr2="acquired",
        colour="primary",
    ),
    S.PLANNING: Facts(
        why="The work is being split into jobs and merge groups; then the DAG is written and submitted.",
        leads_to=(S.ACTIVE, S.QUEUED, S.STOPPING, S.HELD, S.ABORTED),
        queue="planning",
        deadline=Deadline(timedelta(hours=1), Overdue.HOLD),
        takes_capacity=True,
        public="running",
        reqmgr2="acquired",
        colour="primary",
    ),
    S.ACTIVE: Facts(
        why="DAGMan runs the merge groups. Outputs of finished groups are registered and protected.",
        leads_to=(S.COMPLETED, S.PARTIAL, S.QUEUED, S.STOPPING, S.HELD, S.ABORTED, S.FAILED),
        queue="condor",
        deadline=Deadline(timedelta(days=30), Overdue.PING_SCHEDD),
        takes_capacity=True,
        public="running",
        reqmgr2="running-open",
        colour="primary",
    ),
    S.PARTIAL: Facts(
        why="The DAG ended with failures. WMS2 is deciding whether to rescue it or to hold the request.",
        leads_to=(S.RESUBMITTING, S.QUEUED, S.HELD, S.ABORTED),
        queue="lifecycle",
        deadline=Deadline(timedelta(hours=1), Overdue.HOLD),
        public="running",
        colour="warning",
    ),
    S.STOPPING: Facts(
        why="A clean stop was requested. Jobs are being removed from the queue.",
        leads_to=(S.RESUBMITTING, S.PARTIAL, S.PILOT_RUNNING, S.HELD, S.ABORTED, S.FAILED),
        queue="condor",
        deadline=Deadline(timedelta(hours=1), Overdue.REMOVE_AGAIN),
        takes_capacity=True,
        public="running",
        colour="warning",
    ),
    S.RESUBMITTING: Facts(
        why="A rescue or resume DAG is being prepared. Finished work is kept.",
        leads_to=(S.QUEUED, S.HELD, S.ABORTED),
        queue="lifecycle",
        deadline=Deadline(timedelta(minutes=10), Overdue.HOLD),
        public="running",
        colour="warning",
    ),
    S.HELD: Facts(
        why="An operator must decide; see the evidence of the hold. A held request uses no capacity.",
        leads_to=(S.QUEUED, S.STOPPING, S.FAILED, S.ABORTED),
        public="running",
        colour="danger",
    ),
    S.COMPLETED: Facts(
        why="All work is done. The outputs are registered, protected and announced.",
        public="completed",
        reqmgr2="announced",
        colour="success",
    ),
    S.FAILED: Facts(
        why="An operator failed this request. Its outputs are invalidated. Never set automatically.",
        public="failed",
        reqmgr2="aborted",
        colour="danger",
    ),
    S.ABORTED: Facts(
        why="The request was cancelled by its requestor or an operator.",
        public="cancelled",
        reqmgr2="aborted",
    ),
}
check_complete("STATUSES", STATUSES, S)

WHY = {status: one.why for status, one in STATUSES.items()}
TRANSITIONS = {status: frozenset(one.leads_to) for status, one in STATUSES.items()}
QUEUES = {status: one.queue for status, one in STATUSES.items() if one.queue}
DEADLINES = {status: one.deadline for status, one in STATUSES.items() if one.deadline is not None}
TERMINAL = frozenset(status for status, after in TRANSITIONS.items() if not after)
SWEPT = frozenset(QUEUES)
DORMANT = frozenset(S) - TERMINAL - SWEPT  # only a person moves these, never the sweep
TAKES_CAPACITY = frozenset(status for status, one in STATUSES.items() if one.takes_capacity)
check_complete("deadlines", DEADLINES, SWEPT)


def may_move(current: RequestStatus, to: RequestStatus) -> bool:
    """Return whether the transition is allowed."""
    return to in TRANSITIONS[current]
