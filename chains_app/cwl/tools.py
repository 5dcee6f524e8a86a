"""Tools of steps: a CommandLineTool or Operation becomes the fields of a request document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from chains_app.cwl.documents import Document, Path
from chains_app.cwl.expressions import ExpressionError, is_expression, parse_text
from chains_app.cwl.kinds import TooDeep, UnknownType, read_types
from chains_app.cwl.step_hint import HINT, read_hint
from chains_app.cwl.types import ANY, Argument, Port, Problem, Tool, ToolOutput, is_dataset_type
from chains_app.states import StepMode

Entries = Callable[..., Iterator[tuple[str, dict[str, Any], Path]]]
FACT = "wms2:fact"
NUMBERS = ("int", "long", "float", "double")
# Facts of an output dataset, and the types that a port of the fact may have. A number is the length of a
# list.
FACTS: dict[str, tuple[str, ...]] = {
    "events": NUMBERS,
    "files": NUMBERS,
    "size_bytes": ("long", "float", "double"),
    "runs": ("int[]", "long[]", *NUMBERS),
    "blocks": ("string[]", *NUMBERS),
    "dataset": ("string",),
}
_REFUSED_FIELDS = {
    "stdin": "the program finds its input in $WMS2_JOB",
    "stdout": "outputs are the files named in $WMS2_JOB",
    "stderr": "standard error is kept in the job's log",
}


def read_tool(
    run: dict[str, Any], path: Path, document: Document, entries: Entries, problems: list[Problem]
) -> Tool | None:
    """Return the tool of a step; report features that a request does not support."""
    return _ToolReader(run, path, document, entries, problems).tool()


class _ToolReader:
    def __init__(
        self, run: dict[str, Any], path: Path, document: Document, entries: Entries, problems: list[Problem]
    ) -> None:
        self.run, self.path, self.document = run, path, document
        self.entries, self.problems = entries, problems

    def add(self, path: Path, message: str, *, cure: str = "") -> None:
        self.problems.append(self.document.problem(path, message, cure=cure))

    def tool(self) -> Tool | None:
        kind = self.run.get("class")
        if kind not in ("CommandLineTool", "Operation"):
            cure = "Use a CommandLineTool, an Operation or a Workflow"
            self.add((*self.path, "class"), f"class {kind!r} is not supported for a step", cure=cure)
            return None
        for name, why in _REFUSED_FIELDS.items():
            if name in self.run:
                self.add((*self.path, name), f"{name} is not supported: {why}")
        inputs = tuple(self._inputs())
        document: dict[str, Any] = {}
        self._requirements(document)
        hint_body, at = self._hint()
        hint = read_hint(hint_body, at, self.document, self.problems)
        document = _merged(document, hint.document)
        self._check_expressions(hint_body.get("request"), (*at, "request"))
        if hint.mode == StepMode.MERGE and self.run.get("baseCommand"):
            self.add((*self.path, "baseCommand"), "a merge runs no program", cure="Use an Operation")
        return Tool(
            inputs=inputs,
            outputs=tuple(self._outputs()),
            document=document,
            command=tuple(self._command()) if kind == "CommandLineTool" else (),
            mode=hint.mode,
            tier=hint.tier,
            approval=hint.approval,
            deadline_hours=hint.deadline_hours,
            start=hint.start,
        )

    def _hint(self) -> tuple[dict[str, Any], Path]:
        for name, body, at in self.entries(self.run, "hints", self.path, "", key="class"):
            if name == HINT:
                return {key: value for key, value in body.items() if key != "class"}, at
        return {}, self.path

    def _inputs(self) -> Iterator[Port]:
        for name, body, at in self.entries(self.run, "inputs", self.path, "type"):
            types = self._types(body, at)
            label = body.get("label") or body.get("doc") or ""
            yield Port(name.lstrip("#").rpartition("/")[2], types, body.get("default"), str(label))

    def _types(self, body: dict[str, Any], at: Path) -> tuple[str, ...]:
        try:
            types = read_types(body.get("type", ANY))
        except TooDeep as error:
            raise self.document.unreadable((*at, "type"), str(error)) from error
        except UnknownType as error:
            self.add((*at, "type"), str(error))
            return (ANY,)
        if any("File" in one for one in types):
            self.add((*at, "type"), "files are not supported", cure="A dataset is a Directory")
        return types

    def _outputs(self) -> Iterator[ToolOutput]:
        found = []
        for raw_name, body, at in self.entries(self.run, "outputs", self.path, "type"):
            name, types = raw_name.lstrip("#").rpartition("/")[2], self._types(body, at)
            if any(map(is_dataset_type, types)):
                if any("[]" in one for one in types):
                    self.add((*at, "type"), f"output {name} is a list; a step writes single datasets")
                found.append(ToolOutput(name, types))
                continue
            of, _, fact = str(body.get(FACT) or name).rpartition(".")
            if fact not in FACTS:
                cure = f"Name it, or set {FACT} to, one of {', '.join(FACTS)}; a dataset is a Directory"
                self.add(at, f"output {name} is neither a dataset nor a fact", cure=cure)
                continue
            if not set(types) - {"null"} <= {*FACTS[fact], ANY}:
                self.add((*at, "type"), f"{fact} has one of the types {', '.join(FACTS[fact])}")
            found.append(ToolOutput(name, types, fact, of))
        datasets = [one.id for one in found if not one.fact]
        if not datasets:
            self.add(
                (*self.path, "outputs"), "a step writes a dataset", cure="Add an output of type Directory"
            )
        for one in found:
            if one.of and one.of not in datasets:
                self.add((*self.path, "outputs", one.id), f"{one.of} is not a dataset of this step")
            yield (
                one
                if one.of or not one.fact or not datasets
                else ToolOutput(one.id, one.types, one.fact, datasets[0])
            )

    def _requirements(self, document: dict[str, Any]) -> None:
        for field_name in ("hints", "requirements"):
            for name, body, at in self.entries(self.run, field_name, self.path, "", key="class"):
                setter = _REQUIREMENTS.get(name)
                if setter is not None:
                    try:
                        setter(document, body)
                    except (TypeError, KeyError, AttributeError):
                        self.add(at, f"{name} is not complete")
                elif field_name == "requirements" and name != "InlineJavascriptRequirement":
                    self.add(at, f"{name} is not supported", cure="Remove it, or make it a hint")

    def _command(self) -> Iterator[Argument]:
        base = self.run.get("baseCommand") or []
        for one in [base] if isinstance(base, str) else base:
            self._check_expressions(one, (*self.path, "baseCommand"))
            yield Argument(position=-(2**31), value_from=str(one))
        found: list[Argument] = []
        for number, body in enumerate(self.run.get("arguments") or []):
            at = (*self.path, "arguments", number)
            if not isinstance(body, str | dict):
                body = str(body)
            binding = body if isinstance(body, dict) else {"valueFrom": body}
            found.append(self._argument(binding, "", at))
        for name, body, at in self.entries(self.run, "inputs", self.path, "type"):
            bound = body.get("inputBinding")
            if isinstance(bound, dict):
                argument = self._argument(bound, name.lstrip("#").rpartition("/")[2], (*at, "inputBinding"))
                found.append(argument)
        yield from sorted(found, key=lambda one: (one.position, one.input))

    def _argument(self, binding: Mapping[str, Any], name: str, at: Path) -> Argument:
        position = binding.get("position", 0)
        if not isinstance(position, int):
            self.add((*at, "position"), "position must be a whole number")
            position = 0
        if binding.get("shellQuote") is False:
            self.add((*at, "shellQuote"), "there is no shell, so shellQuote: false is not supported")
        value_from = binding.get("valueFrom")
        self._check_expressions(value_from, (*at, "valueFrom"))
        return Argument(
            position=position,
            input=name,
            value_from=None if value_from is None else str(value_from),
            prefix=str(binding.get("prefix") or ""),
            separate=binding.get("separate", True) is not False,
            item_separator=binding.get("itemSeparator"),
        )

    def _check_expressions(self, value: Any, path: Path) -> None:
        if isinstance(value, dict):
            for key, one in value.items():
                self._check_expressions(one, (*path, key))
        elif isinstance(value, list):
            for number, one in enumerate(value):
                self._check_expressions(one, (*path, number))
        elif is_expression(value):
            try:
                parse_text(value)
            except ExpressionError as error:
                self.problems.append(
                    self.document.problem(
                        path, f"{value[:80]}: {error.message}", cure=error.cure, offset=error.offset
                    )
                )


def _resources(document: dict[str, Any], body: Mapping[str, Any]) -> None:
    cores, ram = body.get("coresMin", body.get("coresMax")), body.get("ramMin", body.get("ramMax"))
    document.update({"cores": cores} if cores is not None else {})
    document.update({"memory_mb": ram} if ram is not None else {})


def _time_limit(document: dict[str, Any], body: Mapping[str, Any]) -> None:
    document.setdefault("payload_config", {})["max_wall_time_sec"] = body["timelimit"]


def _environment(document: dict[str, Any], body: Mapping[str, Any]) -> None:
    defined = body["envDef"]
    if isinstance(defined, list):
        defined = {one["envName"]: one["envValue"] for one in defined}
    plain = {name: one["envValue"] if isinstance(one, dict) else one for name, one in defined.items()}
    document.setdefault("payload_config", {}).setdefault("environment", {}).update(plain)


_REQUIREMENTS: dict[str, Callable[[dict[str, Any], Mapping[str, Any]], None]] = {
    "ResourceRequirement": _resources,
    "ToolTimeLimit": _time_limit,
    "EnvVarRequirement": _environment,
}


def _merged(weaker: Mapping[str, Any], stronger: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the objects recursively. Where both have a value that is not an object, `stronger` prevails."""
    found = dict(weaker)
    for key, value in stronger.items():
        both = isinstance(value, Mapping) and isinstance(found.get(key), Mapping)
        found[key] = _merged(found[key], value) if both else value
    return found
