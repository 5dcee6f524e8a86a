"""Decisions about a chain, by the statuses of its steps and requests."""

from __future__ import annotations

import pytest

from chains_app.cwl.types import Problem
from chains_app.cwl.wiring import Call, Wiring
from chains_app.deciding import InputState, Key, StepFacts, decide, settle
from chains_app.states import ChainStatus, StepStatus

A: Key = ("a", ())
B: Key = ("b", ())
READY = InputState(ready=True)


@pytest.mark.parametrize(
    ("step", "request_status", "to"),
    [
        ("running", "active", None),
        ("running", "queued", None),
        ("running", "completed", "finished"),
        ("running", "held", "held"),
        ("running", "failed", "held"),
        ("running", "aborted", "held"),
        ("held", "held", None),
        ("held", "failed", None),
        ("held", "queued", "running"),
        ("held", "completed", "finished"),
        ("held", "", None),
        ("defined", "", None),
        ("finished", "completed", None),
        ("skipped", "aborted", None),
        ("cancelled", "completed", None),
    ],
)
def test_step_follows_its_request(step: str, request_status: str, to: str | None) -> None:
    assert settle(StepFacts(StepStatus(step), "r", request_status)) == to


def decided(
    wiring: Wiring, steps: dict[Key, StepFacts], *, state: InputState = READY, approvals: str = ""
) -> object:
    found = decide(wiring, steps, needs={A: ["x"]}, inputs={"x": state}, approvals=frozenset(approvals))
    return [(one.step, one.index) for one in found.start], found.skip, found.status


CALL_A, CALL_B = Call("a", (), {}), Call("b", (), {})
DEFINED, RUNNING = StepFacts(StepStatus.DEFINED), StepFacts(StepStatus.RUNNING, "r", "active")
DONE, HELD = StepFacts(StepStatus.FINISHED, outputs={}), StepFacts(StepStatus.HELD, "r", "held")


def test_ready_calls_start_and_others_wait() -> None:
    assert decided(Wiring([CALL_A]), {A: DEFINED, B: DEFINED}) == ([A], [], ChainStatus.RUNNING)
    waiting = InputState(ready=False, reason="not VALID")
    assert decided(Wiring([CALL_A]), {A: DEFINED}, state=waiting) == ([], [], ChainStatus.DEFINED)
    assert decided(Wiring([CALL_A]), {A: DEFINED}, approvals="a") == ([], [], ChainStatus.DEFINED)
    approved = StepFacts(StepStatus.DEFINED, approved=True)
    assert decided(Wiring([CALL_A]), {A: approved}, approvals="a") == ([A], [], ChainStatus.RUNNING)


def test_lost_input_holds_the_chain_and_starts_nothing() -> None:
    lost = InputState(ready=False, reason="vanished", lost=True)
    assert decided(Wiring([CALL_A]), {A: DEFINED}, state=lost) == ([], [], ChainStatus.HELD)


def test_held_step_holds_the_chain_while_other_branches_start() -> None:
    assert decided(Wiring([CALL_A, CALL_B]), {A: HELD, B: DEFINED}) == ([B], [], ChainStatus.HELD)


def test_problem_of_the_wiring_holds_the_chain_with_its_cure() -> None:
    wiring = Wiring(problems=[Problem("b: input x is null", step="b", input="x", cure="Give it a default")])

    found = decide(wiring, {A: DONE, B: DEFINED}, needs={}, inputs={}, approvals=frozenset())
    without_row = decide(wiring, {A: DONE}, needs={}, inputs={}, approvals=frozenset())

    assert found.status is ChainStatus.HELD
    (evidence,) = found.holds
    cure = "In a new version of the template: Give it a default"
    assert evidence.pop("remedy") == f"Skip the step, or cancel the chain. {cure}"
    assert evidence == {"step": "b", "input": "x", "reason": "b: input x is null"}
    assert without_row.holds[0]["remedy"] == f"Cancel the chain. {cure}"


def test_chain_ends_when_the_wiring_is_complete_and_never_before() -> None:
    complete = Wiring([CALL_A], complete=True)
    assert decided(complete, {A: DONE}) == ([], [], ChainStatus.FINISHED)
    assert decided(Wiring([CALL_A]), {A: RUNNING}) == ([], [], ChainStatus.RUNNING)
    skipped = Wiring([CALL_A], skipped=[B], complete=True)
    assert decided(skipped, {A: DONE, B: DEFINED}) == ([], [B], ChainStatus.RUNNING)


def test_skipped_inner_workflow_skips_its_leaves() -> None:
    inner: Key = ("outer/one", (1,))
    other: Key = ("outer/one", (2,))

    found = decide(
        Wiring(skipped=[("outer", (1,))]), {inner: DEFINED, other: DEFINED}, needs={}, inputs={},
        approvals=frozenset(),
    )  # fmt: skip

    assert found.skip == [inner]
