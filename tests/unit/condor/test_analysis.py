"""Reading HTCondor's match analysis; the answer of a real pool is tested in integration/condor."""

from __future__ import annotations

import pytest

from condor.analysis import MAX_CONDITIONS, parse_analysis

ANALYSIS = """
The Requirements expression for job 12.003 reduces to these conditions:

         Slots
Step    Matched  Condition
-----  --------  ---------
[0]           4  TARGET.Arch == "X86_64"
[6]           0  TARGET.Memory >= RequestMemory

012.003:  Run analysis summary ignoring user priority.  Of 4 machines,
      3 are rejected by your job's requirements
      1 reject your job because of their own requirements
      0 match and are already running your jobs
      0 match but are serving other users
      0 are able to run your job

WARNING:  Be advised:
   No machines matched the jobs's constraints
"""


def test_conditions_counts_and_advice_are_read() -> None:
    result = parse_analysis(ANALYSIS)
    assert result is not None
    assert result.job_id == "12.3"
    assert result.counts == {"slots": 4, "rejected_by_job": 3, "rejecting_job": 1, "busy": 0, "able": 0}
    assert [(one.text, one.slots) for one in result.conditions] == [
        ('TARGET.Arch == "X86_64"', 4),
        ("TARGET.Memory >= RequestMemory", 0),
    ]
    assert result.advice == "No machines matched the jobs's constraints"


@pytest.mark.parametrize(
    "text", ["", "-- Schedd: unknown", "[0] 4 x", "\x00\xff", "condor_q: cannot connect"]
)
def test_anything_else_is_no_analysis(text: str) -> None:
    assert parse_analysis(text) is None


def test_a_long_analysis_is_cut() -> None:
    result = parse_analysis("".join(f"[{n}]  1  {'x' * 5000}\n" for n in range(500)) + ANALYSIS)
    assert result is not None
    assert len(result.conditions) == MAX_CONDITIONS
    assert max(len(one.text) for one in result.conditions) <= 400
