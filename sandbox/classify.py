"""What a failure means: one table of CMS exit codes, and the rules the table's advice stands for.

transient and infrastructure failures are tried again, data and permanent ones are not, except where the
advice says that one more try, or more memory, may help.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

TABLE = Path(__file__).with_name("exit_codes.csv")
# A job this long that still fails will fail again, at the same price.
LONGEST_RETRIED_SEC = 120_000
REPORT_LOST = 99303
REMOVED = 99400
NOT_SUBMITTED = 50666
MEMORY, DISK, WALL_TIME = 50660, 50662, 50664
# Broken for every node of the group alike: the plan, or the payload's configuration.
AFFECTS_EVERY_NODE = frozenset({7000, 7001, 7002, 71104, 71105})
# Retries ask for more memory each time (see the submit file), so these are worth one.
MORE_MEMORY = frozenset({"yes-more-memory", "no-raise-memory"})
MEMORY_LIMITS = frozenset({8030, 8031})
# $RETURN of DAGMan where there is no exit status.
RETURN_NOT_SUBMITTED, RETURN_REMOVED = -1001, -1002


@dataclass(frozen=True)
class Classification:
    """category: transient, permanent, data or infrastructure; advice: the table's word on trying again."""

    exit_code: int
    category: str
    retryable: bool
    reason: str
    advice: str
    bad_input_files: tuple[str, ...] = ()

    @property
    def aborts_dag(self) -> bool:
        return self.exit_code in AFFECTS_EVERY_NODE

    @property
    def wants_memory(self) -> bool:
        return self.retryable and (self.advice in MORE_MEMORY or self.exit_code in MEMORY_LIMITS)


@dataclass(frozen=True)
class Row:
    category: str
    advice: str
    reason: str


@lru_cache(maxsize=1)
def exit_codes() -> dict[int, Row]:
    with open(TABLE, encoding="utf-8", newline="") as handle:
        return {
            int(row["code"]): Row(category=row["class"], advice=row["retry"], reason=row["reason"])
            for row in csv.DictReader(handle)
        }


def classify(
    exit_code: int, *, attempt: int = 0, wall_time_sec: float = 0.0, bad_inputs: Sequence[str] = ()
) -> Classification:
    """Classify a failed attempt (numbered from 0) by the CMS exit code of its report."""
    row = exit_codes().get(exit_code) or _unlisted(exit_code)
    found = Classification(
        exit_code=exit_code,
        category=row.category,
        retryable=_worth_retrying(row, exit_code, attempt),
        reason=row.reason,
        advice=row.advice,
        bad_input_files=tuple(bad_inputs) if row.category == "data" else (),
    )
    if found.retryable and wall_time_sec > LONGEST_RETRIED_SEC:
        told = f"{row.reason}; ran {wall_time_sec:.0f} s, too long to try again"
        return replace(found, retryable=False, reason=told)
    return found


def code_without_report(return_value: int, hold_reason: str = "") -> int:
    """The CMS exit code of an attempt that left no report, from DAGMan's $RETURN and the hold reason.

    An exit status is no help here: it has lost all but 8 bits of the code.
    """
    if hold_reason:
        return _code_of_hold(hold_reason.lower())
    if return_value == RETURN_REMOVED:
        return REMOVED
    if return_value == RETURN_NOT_SUBMITTED:
        return NOT_SUBMITTED
    if -64 <= return_value < 0:
        return 128 - return_value
    return REPORT_LOST


def _code_of_hold(reason: str) -> int:
    if "memory" in reason:
        return MEMORY
    if "disk" in reason:
        return DISK
    if any(word in reason for word in ("wall", "duration", "run time", "runtime", "execute time")):
        return WALL_TIME
    return REMOVED


def _worth_retrying(row: Row, exit_code: int, attempt: int) -> bool:
    if row.category == "data":
        return False  # the group stays at its site: a retry would read the same replica
    if row.advice in MORE_MEMORY or exit_code in MEMORY_LIMITS:
        return True
    if row.advice.startswith("no"):
        return False
    return attempt == 0 if row.advice.startswith("1x") else True


def _unlisted(exit_code: int) -> Row:
    if 128 < exit_code <= 192:
        return Row("infrastructure", "yes", f"killed by signal {exit_code - 128}")
    return Row("transient", "yes", f"exit code {exit_code} is not in the table")
