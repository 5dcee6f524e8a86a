"""A workflow in normal form: the form that a template stores and that running a chain needs.

Types of ports are lists of names as CWL spells them: `int`, `string`, `Directory`, `null` for optional ones,
`Directory[]` for arrays, `(null|Directory)[]` for arrays of several types, `enum:a,b` for enumerations, and
`record` for records, whose fields are not described. A source is `input` or `step/port`.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any

from chains_app.states import StepStart

DIRECTORY = "Directory"
NULL = "null"
ANY = "Any"


def is_dataset_type(kind: str) -> bool:
    """Return whether values of a type are datasets or lists of them."""
    return not kind.startswith("enum:") and DIRECTORY in re.findall(r"\w+", kind)


def array_of(types: tuple[str, ...]) -> str:
    """Return the name of the type of lists whose elements have these types."""
    unique = tuple(dict.fromkeys(types))
    return f"{unique[0]}[]" if len(unique) == 1 else f"({'|'.join(unique)})[]"


def item_types(kind: str) -> tuple[str, ...]:
    """Return the types of the elements of a list type, or the type itself if it is none."""
    if not kind.endswith("[]"):
        return (kind,)
    inner = kind[:-2]
    if not (inner.startswith("(") and inner.endswith(")")):
        return (inner,)
    parts, depth, start = [], 0, 1
    for place, letter in enumerate(inner):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 or (depth == 1 and letter == "|"):
            parts.append(inner[start:place])
            start = place + 1
    return tuple(parts)


@dataclass(frozen=True, slots=True)
class Problem:
    """An error in a document or in the values given to it."""

    message: str
    line: int = 0
    column: int = 0
    step: str = ""
    input: str = ""
    cure: str = ""

    def __str__(self) -> str:
        place = f"line {self.line}, column {self.column}: " if self.line else ""
        return f"{place}{self.message}" + (f". {self.cure}" if self.cure else "")


@dataclass(frozen=True, slots=True)
class Port:
    """An input of a workflow or tool."""

    id: str
    types: tuple[str, ...] = (ANY,)
    default: Any = None
    label: str = ""

    @property
    def optional(self) -> bool:
        """Whether null is a legal value."""
        return NULL in self.types or ANY in self.types

    @property
    def required(self) -> bool:
        """Whether a value must be given."""
        return not self.optional and self.default is None

    @property
    def is_dataset(self) -> bool:
        """Whether its values are datasets."""
        return any(map(is_dataset_type, self.types))


@dataclass(frozen=True, slots=True)
class Link:
    """An input of a step or an output of a workflow, with its sources."""

    id: str
    sources: tuple[str, ...] = ()
    link_merge: str = ""
    pick_value: str = ""
    aggregate: str = ""
    value_from: str | None = None
    default: Any = None
    has_default: bool = False


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """An output of a tool: a dataset, or a fact of one (`of` names the port of that dataset)."""

    id: str
    types: tuple[str, ...] = (ANY,)
    fact: str = ""
    of: str = ""


@dataclass(frozen=True, slots=True)
class Argument:
    """A part of a command line: an input or a text, and how it is written. Sorted by position and input."""

    position: int = 0
    input: str = ""  # empty: `value_from` alone
    value_from: str | None = None
    prefix: str = ""
    separate: bool = True
    item_separator: str | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """The tool that a step runs.

    `document` holds fields of its request; their expressions are not evaluated yet.
    """

    inputs: tuple[Port, ...] = ()
    outputs: tuple[ToolOutput, ...] = ()
    document: dict[str, Any] = field(default_factory=dict)
    command: tuple[Argument, ...] = ()
    mode: str = "map"
    tier: str = ""
    approval: bool = False
    deadline_hours: float | None = None
    start: str = StepStart.COMPLETE

    @property
    def streams(self) -> bool:
        """Whether it starts with its producer and takes the files of the producer one by one."""
        return self.start == StepStart.FIRST_FILE


@dataclass(frozen=True, slots=True)
class Step:
    """A step: its inputs, outputs and conditions, and the tool or workflow it runs (neither: unknown)."""

    id: str
    inputs: tuple[Link, ...] = ()
    outputs: tuple[str, ...] = ()
    scatter: tuple[str, ...] = ()
    scatter_method: str = ""
    when: str | None = None
    tool: Tool | None = None
    workflow: Workflow | None = None


@dataclass(frozen=True, slots=True)
class Workflow:
    """A workflow. A step comes after all steps it depends on."""

    inputs: tuple[Port, ...] = ()
    steps: tuple[Step, ...] = ()
    outputs: tuple[Link, ...] = ()

    @property
    def dataset_input(self) -> Port | None:
        """The input that an announced dataset is given to: the first one of type Directory."""
        return next((one for one in self.inputs if one.is_dataset), None)


def to_json(workflow: Workflow) -> dict[str, Any]:
    """Return the workflow as plain JSON."""
    return asdict(workflow)


def workflow_from_json(raw: dict[str, Any]) -> Workflow:
    """Return the workflow that `to_json` stored."""
    return Workflow(
        inputs=tuple(_port(one) for one in raw["inputs"]),
        steps=tuple(_step(one) for one in raw["steps"]),
        outputs=tuple(_link(one) for one in raw["outputs"]),
    )


def _port(raw: dict[str, Any]) -> Port:
    return Port(**(raw | {"types": tuple(raw["types"])}))


def _link(raw: dict[str, Any]) -> Link:
    return Link(**(raw | {"sources": tuple(raw["sources"])}))


def _step(raw: dict[str, Any]) -> Step:
    tool, workflow = raw["tool"], raw["workflow"]
    return Step(
        **raw
        | {
            "inputs": tuple(_link(one) for one in raw["inputs"]),
            "outputs": tuple(raw["outputs"]),
            "scatter": tuple(raw["scatter"]),
            "tool": None if tool is None else _tool(tool),
            "workflow": None if workflow is None else workflow_from_json(workflow),
        }
    )


def _tool(raw: dict[str, Any]) -> Tool:
    outputs = tuple(ToolOutput(**(one | {"types": tuple(one["types"])})) for one in raw["outputs"])
    return Tool(
        **raw
        | {
            "inputs": tuple(_port(one) for one in raw["inputs"]),
            "outputs": outputs,
            "command": tuple(Argument(**one) for one in raw["command"]),
        }
    )
