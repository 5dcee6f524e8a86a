"""Tries a workflow with given inputs and results, without starting anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from chains_app.cwl.types import Problem, Workflow
from chains_app.cwl.values import check_value
from chains_app.cwl.wiring import DEFAULT_MAX_CALLS, Index, Lookup, wire


def try_workflow(
    workflow: Workflow,
    *,
    inputs: Mapping[str, Any],
    results: Mapping[str, Any],
    wiring_only: bool,
    max_calls: int = DEFAULT_MAX_CALLS,
) -> dict[str, Any]:
    """Return `calls`, `skipped`, `outputs` and `problems` as plain JSON.

    `results` are port values by step; a scattered step has a list of them, nested as its scatter is. A step
    of an inner workflow is named `outer/inner`, or is in an object below `outer`.
    """
    known = {port.id for port in workflow.inputs}
    problems = [Problem(f"there is no input {name}", input=name) for name in inputs if name not in known]
    if not wiring_only:
        for port in workflow.inputs:
            given = inputs.get(port.id)
            problems += check_value(port, port.default if given is None else given)
    found = wire(workflow, inputs, given_results(results), max_calls=max_calls, check_types=not wiring_only)
    return {
        "calls": [
            {"step": call.step, "index": list(call.index), "inputs": call.inputs} for call in found.calls
        ],
        "skipped": [{"step": step, "index": list(index)} for step, index in found.skipped],
        "outputs": found.outputs,
        "problems": [render_problem(one) for one in [*problems, *found.problems]],
    }


def render_problem(problem: Problem) -> dict[str, Any]:
    """Return a problem as plain JSON, without empty members."""
    return {name: value for name, value in asdict(problem).items() if value}


def given_results(results: Mapping[str, Any]) -> Lookup:
    """Return a lookup in results given by a user: by step, or nested as its workflows are."""

    def lookup(step: str, index: Index) -> Mapping[str, Any] | None:
        found = _element(results[step], index) if step in results else _nested(results, step, index)
        return found if isinstance(found, Mapping) else None

    return lookup


def _nested(results: Mapping[str, Any], step: str, index: Index) -> Any:
    found: Any = results
    for name in step.split("/"):
        found = found.get(name) if isinstance(found, Mapping) else None
        while isinstance(found, list) and index:
            found, index = _element(found, index[:1]), index[1:]
    return found


def _element(found: Any, index: Index) -> Any:
    for place in index:
        if isinstance(found, list):
            found = found[place] if place < len(found) else None
    return found
