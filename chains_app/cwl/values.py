"""Values of ports: which ones a type accepts, and the inputs a workflow is started with."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from chains_app.cwl.types import ANY, DIRECTORY, NULL, Port, Problem, Workflow, item_types
from wms2_project.grammar import Name, matches

_INT = 2**31
_LONG = 2**63


def accepts(kind: str, value: Any) -> bool:
    """Return whether a value is one of the type. A dataset is given by its name."""
    if kind == ANY:
        return value is not None
    if kind.endswith("[]"):
        kinds = item_types(kind)
        return isinstance(value, list) and all(any(accepts(k, one) for k in kinds) for one in value)
    if kind.startswith("enum:"):
        return isinstance(value, str) and value in kind[5:].split(",")
    check = _CHECKS.get(kind)
    return check is None or check(value)


def _is_number(value: Any) -> bool:
    return type(value) is int or (type(value) is float and math.isfinite(value))


_CHECKS: dict[str, Callable[[Any], bool]] = {
    NULL: lambda value: value is None,
    "boolean": lambda value: type(value) is bool,
    "int": lambda value: type(value) is int and -_INT <= value < _INT,
    "long": lambda value: type(value) is int and -_LONG <= value < _LONG,
    "float": _is_number,
    "double": _is_number,
    "string": lambda value: isinstance(value, str),
    "record": lambda value: isinstance(value, dict),
    DIRECTORY: lambda value: matches(Name.DATASET, value),
}


def described(port: Port) -> str:
    """Return the types of a port in words."""
    return " or ".join(DIRECTORY_WORDS.get(one, one) for one in port.types if one != NULL)


DIRECTORY_WORDS = {DIRECTORY: "a dataset", f"{DIRECTORY}[]": "a list of datasets"}


def check_value(port: Port, value: Any, *, step: str = "") -> list[Problem]:
    """Return what is wrong with the value of a port: null although it is required, or another type."""
    where = f"{step}: " if step else ""
    if value is None and port.required:
        cure = f"Give {port.id} a value or a default, or make its type optional"
        return [Problem(f"{where}input {port.id} is null", step=step, input=port.id, cure=cure)]
    if value is None or any(accepts(kind, value) for kind in port.types):
        return []
    shown = repr(value)[:80]
    message = f"{where}input {port.id}: {shown} is not {described(port)}"
    return [Problem(message, step=step, input=port.id)]


def bind_inputs(
    workflow: Workflow, *, dataset: str, parameters: Mapping[str, Any]
) -> tuple[dict[str, Any], list[Problem]]:
    """Return the values of the workflow's inputs, and what is wrong with them.

    The announced dataset goes to the first Directory input; the others come from `parameters`, else from
    their defaults.
    """
    main = workflow.dataset_input
    given = dict(parameters)
    if dataset and main is not None and main.id not in given:
        given[main.id] = [dataset] if DIRECTORY not in main.types else dataset
    known = {port.id for port in workflow.inputs}
    problems = [
        Problem(
            f"there is no input {name}", input=name, cure=f"Inputs are {', '.join(sorted(known)) or 'none'}"
        )
        for name in sorted(set(given) - known)
    ]
    values = {}
    for port in workflow.inputs:
        value = given.get(port.id)
        values[port.id] = port.default if value is None else value
        problems += check_value(port, values[port.id])
    return values, problems


def as_names(value: Any) -> list[str]:
    """Return the dataset names in the value of a port."""
    if isinstance(value, list):
        return [name for one in value for name in as_names(one)]
    return [value] if isinstance(value, str) else []
