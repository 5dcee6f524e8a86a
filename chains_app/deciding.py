"""Decide the next actions of a chain from its wiring, the rows of its steps and the state of its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chains_app.cwl.wiring import Call, Index, Wiring
from chains_app.states import STEP_DONE, ChainStatus, StepStatus
from requests_app.states import RequestStatus

Key = tuple[str, Index]
LOST = (RequestStatus.FAILED, RequestStatus.ABORTED)


@dataclass(frozen=True, slots=True)
class StepFacts:
    """Facts about one call: its status, the status of its request, and whether it was approved."""

    status: StepStatus
    request_name: str = ""
    request_status: str = ""
    approved: bool = False
    outputs: Mapping[str, Any] | None = None
    held_for: str = ""  # why it is held
    writes: Mapping[str, str] | None = None  # datasets of its request, by port, for steps that stream


@dataclass(frozen=True, slots=True)
class InputState:
    """State of a dataset that no step of the chain writes."""

    ready: bool
    reason: str = ""
    lost: bool = False  # it was ready before and is not any more, or can never be ready


@dataclass(slots=True)
class Decision:
    """A decision: calls to start, steps to skip, and the status of the chain with its reason."""

    start: list[Call] = field(default_factory=list)
    skip: list[Key] = field(default_factory=list)
    wait: dict[Key, str] = field(default_factory=dict)  # calls that cannot start yet, and why
    holds: list[dict[str, Any]] = field(default_factory=list)  # evidence
    status: ChainStatus = ChainStatus.RUNNING
    reason: str = ""


def settle(facts: StepFacts) -> StepStatus | None:
    """Return the next status of a step, derived from its request; None if it does not change."""
    request = facts.request_status
    if not request or facts.status not in (StepStatus.RUNNING, StepStatus.HELD):
        return None
    if request == RequestStatus.COMPLETED:
        return StepStatus.FINISHED
    if request == RequestStatus.HELD or request in LOST:
        return StepStatus.HELD if facts.status == StepStatus.RUNNING else None
    return StepStatus.RUNNING if facts.status == StepStatus.HELD else None


def hold_reason(facts: StepFacts, key: Key) -> tuple[str, str]:
    """Return why a request holds its step, and the remedy."""
    shown = show(key)
    if facts.request_status in LOST:
        return (
            f"{shown}: request {facts.request_name} is {facts.request_status}",
            "Retry or skip the step, or cancel the chain",
        )
    return f"{shown}: request {facts.request_name} is held", "Release the request; the chain then continues"


def lookup_of(steps: Mapping[Key, StepFacts]) -> Any:
    """Return the results of finished and skipped steps for the wiring."""

    def lookup(step: str, index: Index) -> Mapping[str, Any] | None:
        facts = steps.get((step, index))
        if facts is None or facts.status not in STEP_DONE:
            return None
        return facts.outputs or {}

    return lookup


def early_of(steps: Mapping[Key, StepFacts]) -> Any:
    """Return the datasets that running calls write, for the wiring."""

    def early(step: str, index: Index) -> Mapping[str, str] | None:
        facts = steps.get((step, index))
        return facts.writes if facts is not None and facts.status == StepStatus.RUNNING else None

    return early


def decide(
    wiring: Wiring,
    steps: Mapping[Key, StepFacts],
    *,
    needs: Mapping[Key, Sequence[str]],
    inputs: Mapping[str, InputState],
    approvals: frozenset[str],
) -> Decision:
    """Return the decision. `needs`: outside datasets that a call reads; `approvals`: steps that need one."""
    found = Decision()
    started = any(one.status != StepStatus.DEFINED for one in steps.values())
    for call in wiring.calls:
        key = (call.step, call.index)
        facts = steps.get(key)
        if facts is not None and facts.status != StepStatus.DEFINED:
            continue
        obstacle = _obstacle(facts, key, [inputs[name] for name in needs.get(key, ())], approvals, found)
        if obstacle:
            found.wait[key] = obstacle
        else:
            found.start.append(call)
    found.skip = [
        key for skipped in wiring.skipped for key in _below(skipped, steps)
        if key not in steps or steps[key].status == StepStatus.DEFINED
    ]  # fmt: skip
    _add_holds(found, wiring, steps)
    _conclude(found, wiring, steps, started)
    return found


def _obstacle(
    facts: StepFacts | None,
    key: Key,
    inputs: Sequence[InputState],
    approvals: frozenset[str],
    found: Decision,
) -> str:
    """Return why a call cannot start yet; empty if it can. A lost input also holds the chain."""
    for state in inputs:
        if state.lost:
            evidence = {
                "step": show(key),
                "reason": state.reason,
                "remedy": "Restore the dataset, or cancel the chain",
            }
            if not any(one["reason"] == state.reason for one in found.holds):
                found.holds.append(evidence)
        if not state.ready:
            return state.reason
    if key[0] in approvals and not (facts is not None and facts.approved):
        return "waits for the approval of an operator"
    return ""


def _below(skipped: Key, steps: Mapping[Key, StepFacts]) -> list[Key]:
    """Return the rows of a skipped step, or of the leaves of a skipped inner workflow."""
    path, index = skipped
    inner = [key for key in steps if key[0].startswith(f"{path}/") and key[1][: len(index)] == index]
    return inner or [skipped]


def _add_holds(found: Decision, wiring: Wiring, steps: Mapping[Key, StepFacts]) -> None:
    for key, facts in steps.items():
        if facts.status == StepStatus.HELD:
            reason, remedy = facts.held_for, "Retry or skip the step, or cancel the chain"
            if facts.request_status:
                reason, remedy = hold_reason(facts, key)
            found.holds.append(
                {"step": show(key), "request": facts.request_name, "reason": reason, "remedy": remedy}
            )
    rows = {show(key) for key in steps}
    for problem in wiring.problems:
        # the chain keeps its version of the template: a cure of the document is for the next ones
        remedy = "Skip the step, or cancel the chain" if problem.step in rows else "Cancel the chain"
        evidence = {
            "step": problem.step,
            "input": problem.input,
            "reason": problem.message,
            "remedy": f"{remedy}. In a new version of the template: {problem.cure}"
            if problem.cure
            else remedy,
        }
        found.holds.append({name: value for name, value in evidence.items() if value})


def _conclude(found: Decision, wiring: Wiring, steps: Mapping[Key, StepFacts], started: bool) -> None:
    if found.holds:
        found.status, found.reason = ChainStatus.HELD, "; ".join(one["reason"] for one in found.holds)
    elif wiring.complete and not found.start and not found.skip:
        found.status, found.reason = ChainStatus.FINISHED, "every step is finished or skipped"
    elif started or found.start or found.skip:
        running = sum(one.status == StepStatus.RUNNING for one in steps.values()) + len(found.start)
        found.status = ChainStatus.RUNNING
        known = {*steps, *((one.step, one.index) for one in wiring.calls), *wiring.skipped}
        found.reason = f"{running} of {len(known)} steps are running"
        if not running and found.wait:
            found.reason = next(iter(found.wait.values()))
    else:
        found.status = ChainStatus.DEFINED
        found.reason = next(iter(found.wait.values()), "waits for its input")


def show(key: Key) -> str:
    """Return the name of a call with its place in the scatters."""
    return key[0] + "".join(f"[{one}]" for one in key[1])
