"""Level 2 decides by groups, and never fails a request."""

from __future__ import annotations

import pytest

from dags_app.recovery import Failures, Hold, Rescue, decide_recovery


@pytest.mark.parametrize(
    ("failed", "rescues", "rescued"),
    [(1, 0, True), (19, 0, True), (19, 2, True), (19, 3, False), (20, 0, False), (100, 0, False)],
)
def test_few_failures_are_rescued_until_rescues_run_out(failed: int, rescues: int, rescued: bool) -> None:
    decision = decide_recovery(
        failures=Failures(groups=100, failed=failed, rescues=rescues), hold_threshold=0.20, max_rescues=3
    )
    assert isinstance(decision, Rescue if rescued else Hold)


def test_a_hold_carries_its_evidence() -> None:
    failures = Failures(groups=4, failed=2, rescues=1, names=("mg_000001", "mg_000003"))
    decision = decide_recovery(failures=failures, hold_threshold=0.20, max_rescues=3)
    assert isinstance(decision, Hold)
    assert decision.evidence["failure_ratio"] == 0.5
    assert decision.evidence["failed_groups"] == ["mg_000001", "mg_000003"]
    assert "2 of 4 groups failed" in decision.reason


def test_a_round_without_groups_is_held() -> None:
    assert isinstance(decide_recovery(failures=Failures(0, 0, 0), hold_threshold=0.2, max_rescues=3), Hold)
