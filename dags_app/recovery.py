"""Level 2: a DAG ended with failures; rescue it, or leave it to a person. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Failures:
    """How a round stands: groups, not jobs; rescues after failures, not resumes after stops."""

    groups: int
    failed: int
    rescues: int
    names: tuple[str, ...] = ()

    @property
    def ratio(self) -> float:
        """Failed groups of all groups in the round."""
        return self.failed / self.groups if self.groups else 1.0


@dataclass(frozen=True, slots=True)
class Rescue:
    """Submit the same DAG again; DAGMan skips what is done."""

    reason: str


@dataclass(frozen=True, slots=True)
class Hold:
    """A person must decide, with this evidence."""

    reason: str
    evidence: dict[str, Any] = field(default_factory=dict)


def decide_recovery(*, failures: Failures, hold_threshold: float, max_rescues: int) -> Rescue | Hold:
    """Rescue while few groups fail and rescues are left; otherwise hold. Never fail a request."""
    told = f"{failures.failed} of {failures.groups} groups failed ({failures.ratio:.0%})"
    evidence = {
        "failure_ratio": round(failures.ratio, 4),
        "groups": failures.groups,
        "failed_groups": list(failures.names[:100]),
        "rescues": failures.rescues,
    }
    if failures.ratio >= hold_threshold:
        return Hold(f"{told}, the limit is {hold_threshold:.0%}", evidence)
    if failures.rescues >= max_rescues:
        return Hold(f"{told} after {failures.rescues} rescues", evidence)
    return Rescue(f"{told}; rescue {failures.rescues + 1} of {max_rescues}")
