"""Wiring: derives the calls of the steps and the outputs of a workflow from its inputs and the results so
far.

The same code serves running chains and `template try`. It follows CWL v1.2: sources are merged (linkMerge),
picked (pickValue) and replaced by the default if null; then the step is scattered; then valueFrom is
evaluated for each call, with the values before it as `inputs`; then `when` decides whether the call is made.
A skipped call gives null for every output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, count, product
from math import prod
from typing import Any

from chains_app.cwl.expressions import ExpressionError, evaluate
from chains_app.cwl.types import Link, Problem, Step, Workflow
from chains_app.cwl.values import check_value

Index = tuple[int, ...]
Ports = Mapping[str, Any]
Lookup = Callable[[str, Index], Ports | None]
DEFAULT_MAX_CALLS = 1000
_MAX_LOOKS = 20  # per call that may be made: skipped calls, and workflows around calls or without any
MAX_VALUES = 100_000  # of a merged or aggregated list: nested workflows multiply them


class _Unknown:
    """A value that no call has produced yet."""

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = _Unknown()


@dataclass(frozen=True, slots=True)
class _Early:
    """A dataset that is still being written. Only steps that take its files one by one may read it."""

    name: str


def _nothing_early(_step: str, _index: Index) -> None:
    return None


class _WiringError(Exception):
    def __init__(self, message: str, *, step: str = "", name: str = "", cure: str = "") -> None:
        super().__init__(message)
        self.problem = Problem(message, step=step, input=name, cure=cure)


class _TooManyCalls(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a step: its inputs after valueFrom. `position` counts the elements of its scatter."""

    step: str
    index: Index
    inputs: dict[str, Any]
    position: int | None = None


@dataclass(slots=True)
class Wiring:
    """All known calls, the skipped calls, the outputs known so far, and the problems."""

    calls: list[Call] = field(default_factory=list)
    skipped: list[tuple[str, Index]] = field(default_factory=list)
    outputs: dict[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    complete: bool = False


def wire(
    workflow: Workflow,
    inputs: Ports,
    lookup: Lookup,
    *,
    max_calls: int = DEFAULT_MAX_CALLS,
    check_types: bool = True,
    early: Lookup = _nothing_early,
) -> Wiring:
    """Return the wiring. `lookup(step, index)` returns the results of a call, or None until it has ended.

    `early(step, index)` returns the datasets that a call is writing, by port, or None until it has started.
    With `check_types`, a call whose inputs its tool does not accept is a problem instead of a call.
    """
    run = _Run(lookup, max_calls, check_types, early)
    try:
        outputs = run.workflow(workflow, inputs, "", (), None)
    except _TooManyCalls:
        cure = "Scatter over fewer elements, or raise WMS2_CHAIN_MAX_STEPS"
        problem = Problem(f"the workflow makes more than {max_calls} calls", cure=cure)
        return Wiring(problems=[problem])
    run.found.outputs = {name: value for name, value in outputs.items() if value is not UNKNOWN}
    run.found.complete = len(run.found.outputs) == len(outputs) and not run.pending
    return run.found


class _Run:
    def __init__(self, lookup: Lookup, max_calls: int, check_types: bool, early: Lookup) -> None:
        self.lookup, self.max_calls, self.check_types = lookup, max_calls, check_types
        self.early = early
        self.found = Wiring()
        self.looks = 0
        self.pending = False  # a call has no result yet, or could not be made

    def workflow(
        self, workflow: Workflow, inputs: Ports, path: str, index: Index, position: int | None
    ) -> dict[str, Any]:
        state: dict[str, Any] = {}
        for port in workflow.inputs:
            value = inputs.get(port.id)
            state[port.id] = port.default if value is None else value
        for step in workflow.steps:
            outputs = self._guarded_step(step, state, path, index, position)
            state |= {f"{step.id}/{port}": outputs.get(port) for port in step.outputs}
        return {link.id: self._guarded_output(link, state, path) for link in workflow.outputs}

    def _guarded_step(
        self, step: Step, state: Ports, path: str, index: Index, position: int | None
    ) -> dict[str, Any]:
        name = f"{path}/{step.id}" if path else step.id
        try:
            streams = step.tool is not None and step.tool.streams
            bound = {link.id: _known(_linked(link, state), streams=streams) for link in step.inputs}
            if any(value is UNKNOWN for value in bound.values()):
                self.pending = True
                return dict.fromkeys(step.outputs, UNKNOWN)
            if not step.scatter:
                return self._call(step, bound, name, index, position)
            return self._scattered(step, bound, name, index)
        except _WiringError as error:
            problem = error.problem
            message = f"{name}: {problem.message}"
            self.found.problems.append(Problem(message, step=name, input=problem.input, cure=problem.cure))
            self.pending = True
            return dict.fromkeys(step.outputs, UNKNOWN)

    def _guarded_output(self, link: Link, state: Ports, path: str) -> Any:
        try:
            return _known(_linked(link, state), streams=False)
        except _WiringError as error:
            self.found.problems.append(Problem(f"output {link.id}: {error}", step=path, input=link.id))
            self.pending = True
            return UNKNOWN

    def _scattered(self, step: Step, bound: dict[str, Any], name: str, index: Index) -> dict[str, Any]:
        lists = [_scatter_list(bound[one], one) for one in step.scatter]
        if step.scatter_method and prod(len(one) or 1 for one in lists) > self.max_calls * _MAX_LOOKS:
            raise _TooManyCalls  # before lists of lists are made
        shape: Iterator[tuple[Index, tuple[Any, ...]]]
        if step.scatter_method == "nested_crossproduct":
            places = product(*(range(len(one)) for one in lists))
            shape = zip(places, product(*lists), strict=True)
        elif step.scatter_method == "flat_crossproduct":
            shape = (((number,), values) for number, values in enumerate(product(*lists)))
        else:
            if len({len(one) for one in lists}) > 1:
                lengths = ", ".join(
                    f"{one} has {len(values)}" for one, values in zip(step.scatter, lists, strict=True)
                )
                raise _WiringError(
                    f"the scattered lists have different lengths: {lengths}", name=step.scatter[0]
                )
            shape = (((number,), values) for number, values in enumerate(zip(*lists, strict=True)))
        results: dict[Index, dict[str, Any]] = {}
        for position, (place, values) in zip(count(), shape, strict=False):
            element = bound | dict(zip(step.scatter, values, strict=True))
            results[place] = self._call(step, element, name, (*index, *place), position)
        sizes = (
            [len(one) for one in lists] if step.scatter_method == "nested_crossproduct" else [len(results)]
        )
        return {port: _gathered(results, port, sizes) for port in step.outputs}

    def _call(
        self, step: Step, bound: dict[str, Any], name: str, index: Index, position: int | None
    ) -> dict[str, Any]:
        self.looks += 1
        if self.looks > self.max_calls * _MAX_LOOKS:
            raise _TooManyCalls
        runtime = {"index": position}
        values = dict(bound)
        for link in step.inputs:
            if link.value_from is not None:
                context = {"inputs": bound, "self": bound[link.id], "runtime": runtime}
                values[link.id] = _evaluated(link.value_from, context, link.id)
        if step.when is not None and not _condition(step.when, {"inputs": values, "runtime": runtime}):
            self.found.skipped.append((name, index))
            return dict.fromkeys(step.outputs)
        given = self.lookup(name, index)
        if step.workflow is not None and (given is None or not set(given) <= set(step.outputs)):
            inner = self.workflow(step.workflow, values, name, index, position)
            return {port: inner.get(port) for port in step.outputs}
        self._make(step, values, Call(name, index, values, position), ended=given is not None)
        if given is None:
            self.pending = True
            written = self.early(name, index) or {}
            return {port: _Early(written[port]) if port in written else UNKNOWN for port in step.outputs}
        return {port: given.get(port) for port in step.outputs}

    def _make(self, step: Step, values: dict[str, Any], call: Call, *, ended: bool) -> None:
        """Record the call, unless its tool does not accept its inputs. An ended call is not checked."""
        if len(self.found.calls) >= self.max_calls:
            raise _TooManyCalls
        if step.tool is not None and self.check_types:
            inputs = step.tool.inputs
            values |= {port.id: port.default for port in inputs if values.get(port.id) is None}
            shown = call.step + "".join(f"[{one}]" for one in call.index)
            wrong = [one for port in inputs for one in check_value(port, values[port.id], step=shown)]
            if wrong and not ended:
                self.found.problems += wrong
                return
        self.found.calls.append(call)


def _linked(link: Link, state: Ports) -> Any:
    """Return the value that the sources of a link deliver, merged and picked, or its default."""
    values = [state[source] for source in link.sources]
    if any(one is UNKNOWN for one in values):
        return UNKNOWN
    if any(isinstance(one, _Early) for one in values):
        alone = len(values) == 1 and not (link.link_merge or link.pick_value or link.aggregate)
        return values[0] if alone else UNKNOWN
    if link.link_merge == "merge_flattened":
        value: Any = _flattened(values, link)
    elif link.link_merge or len(values) > 1:
        value = values
    else:
        value = values[0] if values else None
    if link.pick_value and isinstance(value, list):
        value = _picked(value, link)
    if link.aggregate:
        value = _aggregated(value, link)
    if isinstance(value, list) and _has_more_values(value, MAX_VALUES):
        raise _too_long(link)
    return link.default if value is None and link.has_default else value


def _flattened(values: list[Any], link: Link) -> list[Any]:
    if sum(len(one) if isinstance(one, list) else 1 for one in values) > MAX_VALUES:
        raise _too_long(link)
    return [*chain.from_iterable(one if isinstance(one, list) else [one] for one in values)]


def _too_long(link: Link) -> _WiringError:
    return _WiringError(f"the list for {link.id} has more than {MAX_VALUES} values", name=link.id)


def _has_more_values(value: list[Any], most: int) -> bool:
    """Return whether a list with the lists in it has more values. One list may be in it many times."""
    todo, values = [value], 0
    while todo and values <= most:
        inner = todo.pop()
        values += len(inner)
        if values <= most:
            todo += [one for one in inner if isinstance(one, list)]
    return values > most


def _known(value: Any, *, streams: bool) -> Any:
    """Return the value. A dataset that is still being written has a value only for a reader that streams."""
    if not isinstance(value, _Early):
        return value
    return value.name if streams else UNKNOWN


def _picked(values: list[Any], link: Link) -> Any:
    found = [one for one in values if one is not None]
    if link.pick_value == "all_non_null":
        return found
    if not found:
        raise _WiringError(f"all sources of {link.id} are null", name=link.id)
    if link.pick_value == "the_only_non_null" and len(found) > 1:
        raise _WiringError(f"{len(found)} sources of {link.id} are not null, one is expected", name=link.id)
    return found[0]


def _aggregated(value: Any, link: Link) -> Any:
    values = value if isinstance(value, list) else [value]
    if link.aggregate == "collect":
        return values
    if link.aggregate == "concat":
        return _flattened(values, link)
    if link.aggregate in ("first", "last"):
        return (values[0] if link.aggregate == "first" else values[-1]) if values else None
    numbers = [one for one in values if one is not None]
    if any(isinstance(one, bool) or not isinstance(one, int | float) for one in numbers):
        raise _WiringError(f"the sum of {link.id} needs numbers", name=link.id)
    return sum(numbers)


def _scatter_list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        shown = "null" if value is None else f"a {type(value).__name__}"
        raise _WiringError(f"input {name} is scattered and must be a list, not {shown}", name=name)
    return value


def _gathered(results: Mapping[Index, Ports], port: str, sizes: list[int], place: Index = ()) -> Any:
    """Return the results of a scatter as lists, nested by its dimensions; unknown if one of them is."""
    if not sizes:
        return results[place].get(port)
    found = [_gathered(results, port, sizes[1:], (*place, number)) for number in range(sizes[0])]
    return UNKNOWN if any(one is UNKNOWN or isinstance(one, _Early) for one in found) else found


def _evaluated(text: str, context: Ports, name: str) -> Any:
    try:
        return evaluate(text, context)
    except ExpressionError as error:
        raise _WiringError(f"{text}: {error.message}", name=name) from error


def _condition(text: str, context: Ports) -> bool:
    value = _evaluated(text, context, "when")
    if not isinstance(value, bool):
        raise _WiringError(f"when: {text} is {value!r}, not true or false", name="when")
    return value
