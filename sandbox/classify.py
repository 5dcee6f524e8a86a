"""Classification of failures by the table of CMS exit codes and its retry advice.

Transient and infrastructure failures are retried, data and permanent ones are not, unless the advice says
that one more attempt, or more of a resource, may help.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sandbox.exitcodes import DATA, Row, ran_out_of, row_of
from sandbox.failure import (
    DISK_LIMIT,
    HANGING,
    MEMORY_LIMIT,
    NOT_SUBMITTED,
    OUTPUT_TOO_LARGE,
    REMOVED,
    REPORT_LOST,
    WALL_TIME,
)
from sandbox.limits import UNKNOWN_LIMITS, Limit, Limits, Resource
from sandbox.userlog import JobEvents

# A job that failed after so long is not retried: it would fail again at the same cost.
LONGEST_RETRIED_SEC = 120_000
HANG_MARK = "hanging job"  # prefix of the reason with which WMS2 removes a hanging job
NO_EVENTS = JobEvents()
# HoldReasonCode: the job ran longer than allowed; a file could not be opened or transferred.
HELD_FOR_DURATION = frozenset({46, 47})
HELD_FOR_FILES = frozenset({7, 8, 12, 13, 14})
# The job returned more than max_transfer_output_mb.
HELD_FOR_OUTPUT_SIZE = 33
# The job could not be started or its input not transferred: no payload has run.
HELD_BEFORE_PAYLOAD = frozenset({6, 13})
# $RETURN of DAGMan without an exit status.
RETURN_NOT_SUBMITTED, RETURN_REMOVED = -1001, -1002


@dataclass(frozen=True)
class Classification:
    """category: transient, permanent, data or infrastructure; advice: the table's retry advice."""

    exit_code: int
    category: str
    retryable: bool
    reason: str
    advice: str
    bad_input_files: tuple[str, ...] = ()
    raised: Limit | None = None  # the next attempt requests its `next`
    limit: str = ""  # why a retry that the code allows is forbidden


def classify(
    exit_code: int,
    *,
    attempt: int = 0,
    wall_time_sec: float = 0.0,
    bad_inputs: Sequence[str] = (),
    used_mb: int = 0,
    limits: Limits = UNKNOWN_LIMITS,
    by_pool: bool = False,
) -> Classification:
    """Classify a failed attempt (numbered from 0) by its CMS exit code; `by_pool`: it has no report."""
    row = row_of(exit_code)
    short = _short_of(exit_code, used_mb, limits, by_pool)
    found = Classification(
        exit_code=exit_code,
        category=row.category,
        retryable=short is not None or _worth_retrying(row, attempt),
        reason=row.reason,
        advice=row.advice,
        bad_input_files=tuple(bad_inputs) if row.category == DATA else (),
    )
    if found.retryable and wall_time_sec > LONGEST_RETRIED_SEC:
        limit = f"ran {wall_time_sec:.0f} s, too long for a retry"
        return replace(found, retryable=False, reason=f"{row.reason}; {limit}", limit=limit)
    return _with_more(found, short) if short else found


def _short_of(exit_code: int, used_mb: int, limits: Limits, by_pool: bool) -> Limit | None:
    """Return the limit to raise for the next attempt: any that the pool enforced, and always memory."""
    resource = ran_out_of(exit_code, used_mb=used_mb, requested_mb=limits[Resource.MEMORY].requested)
    if resource is None:
        return None
    limit = limits[resource]
    return limit if resource is Resource.MEMORY or (by_pool and limit.known) else None


def _with_more(found: Classification, short: Limit) -> Classification:
    """Raise the limit; without room below the ceiling, forbid a retry."""
    if not short.known:
        return found
    if short.next is None:
        limit = f"needs more than the ceiling of {short.ceiling} {short.resource.value.unit}"
        return replace(found, retryable=False, reason=f"{found.reason}; {limit}", limit=limit)
    return replace(found, raised=short)


def code_without_report(return_value: int, events: JobEvents = NO_EVENTS) -> int:
    """Return the CMS exit code of an attempt without a report, from DAGMan's $RETURN and the event log.

    The exit status does not help: it has only 8 bits of the code.
    """
    if events.hold_reason:
        return _code_of_hold(events.hold_code, events.hold_reason)
    if return_value == RETURN_REMOVED:
        return _code_in_words(events.removal_reason)
    if return_value == RETURN_NOT_SUBMITTED:
        return NOT_SUBMITTED
    if -64 <= return_value < 0:
        return 128 - return_value
    return REPORT_LOST


def _code_of_hold(hold_code: int, reason: str) -> int:
    """Return the exit code of a hold. The text of the reason counts only if HTCondor wrote it."""
    if hold_code in HELD_FOR_DURATION:
        return WALL_TIME
    if hold_code == HELD_FOR_OUTPUT_SIZE:
        return OUTPUT_TOO_LARGE
    if hold_code in HELD_FOR_FILES:
        return REMOVED
    return _code_in_words(reason)


def _code_in_words(reason: str) -> int:
    text = reason.lower()
    if HANG_MARK in text:
        return HANGING
    if "memory" in text:
        return MEMORY_LIMIT
    if "disk" in text:
        return DISK_LIMIT
    if any(word in text for word in ("wall", "duration", "run time", "runtime", "execute time")):
        return WALL_TIME
    return REMOVED


def _worth_retrying(row: Row, attempt: int) -> bool:
    if row.category == DATA:
        return False  # the group stays at its site: a retry would read the same replica
    if row.advice.startswith("no"):
        return False
    return attempt == 0 if row.advice.startswith("1x") else True
