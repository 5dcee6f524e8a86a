"""Outcomes of runners, and the failures of a round at which lending stops. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from dags_app.states import FAILED_RUNNER, RunnerOutcome

ENOUGH_RUNNERS = 20  # ended ones from which on the share of failures decides


def decide_outcome(*, lent: int, processed: int) -> RunnerOutcome:
    """Return the outcome of a runner that ended by itself without an error."""
    if processed:
        return RunnerOutcome.PROCESSED
    return RunnerOutcome.UNPROCESSED if lent else RunnerOutcome.LATE


def decide_stop(ended: Mapping[str, int], *, threshold: float) -> str:
    """Return why no more files are lent in a round with so many ended runners by outcome; empty: go on.

    Stopped runners are left out: they are not evidence about the work.
    """
    counted = sum(count for outcome, count in ended.items() if outcome != RunnerOutcome.STOPPED)
    failed = sum(ended.get(outcome, 0) for outcome in FAILED_RUNNER)
    if counted < ENOUGH_RUNNERS or failed < threshold * counted:
        return ""
    return f"{failed} of {counted} runners failed, which is at or above the threshold of {threshold:.0%}"
