"""CWL workflows in normal form: shorthand is expanded, steps are sorted, and every problem has its place.

`wiring_only` reads any workflow: tools stay unknown, and so do files that the document only points to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from chains_app.cwl.compatibility import Types, element_types, fits, link_types, output_types
from chains_app.cwl.documents import Document, Path
from chains_app.cwl.expressions import ExpressionError, is_expression, parse_text
from chains_app.cwl.kinds import TooDeep, UnknownType, read_types
from chains_app.cwl.tools import read_tool
from chains_app.cwl.types import ANY, Link, Port, Problem, Step, Tool, Workflow

MERGES = ("merge_nested", "merge_flattened")
PICKS = ("first_non_null", "the_only_non_null", "all_non_null")
SCATTERS = ("dotproduct", "nested_crossproduct", "flat_crossproduct")
AGGREGATES = ("collect", "concat", "first", "last", "sum")
AGGREGATE = "wms2:aggregate"
_ELSEWHERE = ("$import", "$include", "$mixin", "$schemas")
_MAX_NESTING = 10
_MAX_ENTRIES = 1000  # of one list: the time cwltool takes grows with their square
_MAX_STEPS = 1000  # with those of the workflows that are run, once for each step that runs them
_FEATURES = frozenset({
    "ScatterFeatureRequirement", "StepInputExpressionRequirement", "MultipleInputFeatureRequirement",
    "SubworkflowFeatureRequirement", "InlineJavascriptRequirement", "SchemaDefRequirement",
})  # fmt: skip


@dataclass(slots=True)
class Reading:
    """A workflow that was read, what is wrong with it, and the places of its leaves."""

    workflow: Workflow | None = None
    problems: list[Problem] = field(default_factory=list)
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    points_elsewhere: bool = False  # a part of it would have to be fetched


def read_workflow(document: Document, *, wiring_only: bool = False) -> Reading:
    """Return the outermost workflow of a document in normal form, with all problems.

    Raises Unreadable for a document that would take too long to check.
    """
    reader = _Reader(document, wiring_only)
    main = reader.main()
    if main is not None:
        reader.found.workflow = reader.workflow(*main, prefix="", nesting=0)
    unique = dict.fromkeys(reader.found.problems)  # a tool that several steps run is read for each
    reader.found.problems = sorted(unique, key=lambda one: (one.line, one.column))
    return reader.found


class _Reader:
    def __init__(self, document: Document, wiring_only: bool) -> None:
        self.document, self.wiring_only = document, wiring_only
        self.found = Reading()
        self.processes: dict[str, tuple[dict[str, Any], Path]] = {}
        self.paths: dict[int, Path] = {}  # of links and steps, by identity
        self.steps = 0

    def add(self, path: Path, message: str, *, cure: str = "", offset: int = 0) -> None:
        self.found.problems.append(self.document.problem(path, message, cure=cure, offset=offset))

    def main(self) -> tuple[dict[str, Any], Path] | None:
        """Return the workflow to run: the document itself, or `main` of a packed one."""
        root = self.document.value
        if not isinstance(root, dict):
            self.add((), "a CWL document is an object")
            return None
        if not self.wiring_only:
            self._refuse_pointers(root, ())
        version = root.get("cwlVersion")
        if version not in ("v1.0", "v1.1", "v1.2") or (version != "v1.2" and not self.wiring_only):
            self.add(("cwlVersion",), f"cwlVersion is {version!r}", cure="Use cwlVersion: v1.2")
        if isinstance(graph := root.get("$graph"), list):
            for number, one in enumerate(graph):
                if isinstance(one, dict) and isinstance(one.get("id"), str):
                    self.processes[one["id"].lstrip("#")] = (one, ("$graph", number))
            workflows = [one for one in self.processes.values() if one[0].get("class") == "Workflow"]
            only = workflows[0] if self.wiring_only and len(workflows) == 1 else None
            chosen = self.processes.get("main", only)
            if chosen is None:
                self.add(("$graph",), "the graph has no process named main")
                return None
            root, path = chosen
        else:
            path = ()
        if root.get("class") != "Workflow":
            self.add((*path, "class"), f"class is {root.get('class')!r}", cure="A template is a Workflow")
            return None
        return root, path

    def _refuse_pointers(self, value: Any, path: Path) -> None:
        """Report everything that would have to be fetched."""
        if isinstance(value, dict):
            for key, one in value.items():
                if key in _ELSEWHERE:
                    self._add_pointer(key, (*path, key))
                self._refuse_pointers(one, (*path, key))
        elif isinstance(value, list):
            for number, one in enumerate(value):
                self._refuse_pointers(one, (*path, number))

    def _refuse_import(self, key: str, path: Path) -> None:
        """Report a part of the wiring that would have to be fetched."""
        if self.wiring_only:  # otherwise it was reported with all others
            self._add_pointer(key, path)

    def _add_pointer(self, key: str, path: Path) -> None:
        self.add(path, f"{key} is never fetched", cure="Write the content here")
        self.found.points_elsewhere = True

    def workflow(self, raw: dict[str, Any], path: Path, *, prefix: str, nesting: int) -> Workflow:
        own = str(raw.get("id", "")).lstrip("#")
        if not self.wiring_only:
            self._check_requirements(raw, path)
        inputs = tuple(
            self._port(_short(name, own), body, at)
            for name, body, at in self._entries(raw, "inputs", path, "type")
        )
        steps = [
            self._step(_short(name, own), body, at, own, prefix, nesting)
            for name, body, at in self._entries(raw, "steps", path, "")
        ]
        outputs, sinks = [], []
        for name, body, at in self._entries(raw, "outputs", path, "type"):
            outputs.append(self._link(_short(name, own), body, at, own, "outputSource"))
            sinks.append(Port(_short(name, own), self._types(body, at)))
            if "outputSource" not in body:
                self.add(at, f"output {name} has no outputSource")
        self._check_sources(inputs, steps, outputs)
        if not self.wiring_only:
            self._check_types(inputs, steps, outputs, sinks)
        return Workflow(inputs, tuple(self._sorted(steps, path, prefix)), tuple(outputs))

    def _check_requirements(self, raw: dict[str, Any], path: Path) -> None:
        for name, body, at in self._entries(raw, "requirements", path, "", key="class"):
            if name == "InlineJavascriptRequirement" and body.get("expressionLib"):
                self.add(at, "expressionLib is JavaScript, which is not supported")
            if name not in _FEATURES:
                self.add(at, f"{name} is not supported for a workflow", cure="Give it to the tool of a step")

    def _entries(
        self, raw: dict[str, Any], field_name: str, path: Path, predicate: str, *, key: str = "id"
    ) -> Iterator[tuple[str, dict[str, Any], Path]]:
        """Yield name, body and path of the entries of a list or map. `predicate` is the shorthand's field."""
        value = raw.get(field_name)
        at: Path = (*path, field_name)
        if isinstance(value, dict | list) and len(value) > _MAX_ENTRIES:
            raise self.document.unreadable(at, f"{field_name} has more than {_MAX_ENTRIES} entries")
        if isinstance(value, dict):
            for name, body in value.items():
                if name in _ELSEWHERE:
                    self._refuse_import(name, (*at, name))
                elif isinstance(body, dict) and not (predicate == "type" and "type" not in body):
                    yield name, body, (*at, name)
                elif isinstance(body, dict | list | str) or body is None:
                    yield name, {predicate: body} if predicate and body is not None else {}, (*at, name)
                else:
                    self.add((*at, name), f"{name} is neither an object nor a text")
        elif isinstance(value, list):
            for number, body in enumerate(value):
                if isinstance(body, dict) and isinstance(body.get(key), str):
                    yield body[key], body, (*at, number)
                elif isinstance(body, dict) and "$import" in body:
                    self._refuse_import("$import", (*at, number))
                elif isinstance(body, str) and key == "id":
                    yield body, {}, (*at, number)
                else:
                    self.add((*at, number), f"an entry of {field_name} needs {key}")
        elif value is not None:
            self.add(at, f"{field_name} is neither a list nor an object")

    def _port(self, name: str, body: dict[str, Any], path: Path) -> Port:
        label = body.get("label") or body.get("doc") or ""
        if self.wiring_only:
            self._refuse_pointers(body.get("default"), (*path, "default"))
        return Port(name, self._types(body, path), body.get("default"), str(label))

    def _types(self, body: dict[str, Any], path: Path) -> tuple[str, ...]:
        try:
            types = read_types(body.get("type", ANY))
        except TooDeep as error:
            raise self.document.unreadable((*path, "type"), str(error)) from error
        except UnknownType as error:
            if not self.wiring_only:
                self.add((*path, "type"), str(error))
            return (ANY,)
        if not self.wiring_only and any("File" in one or one == "record" for one in types):
            self.add((*path, "type"), "files and records are not supported", cure="A dataset is a Directory")
        return types

    def _step(self, name: str, body: dict[str, Any], path: Path, own: str, prefix: str, nesting: int) -> Step:
        self.steps += 1
        if self.steps > _MAX_STEPS:
            more = f"the workflows have more than {_MAX_STEPS} steps together"
            raise self.document.unreadable(path, f"{more}; steps of a workflow count whenever it is run")
        links = [
            self._link(_short(one, f"{own}/{name}", name), link, at, own, "source")
            for one, link, at in self._entries(body, "in", path, "source")
        ]
        outs = tuple(_short(one, f"{own}/{name}", name) for one, _, _ in self._entries(body, "out", path, ""))
        leaf = f"{prefix}/{name}" if prefix else name
        scatter = body.get("scatter") or ()
        scattered = tuple(
            _short(str(one), f"{own}/{name}", name)
            for one in ([scatter] if isinstance(scatter, str) else scatter)
        )
        method = str(body.get("scatterMethod") or "")
        self._check_scatter(scattered, method, links, path)
        tool, workflow = self._run(body.get("run"), (*path, "run"), leaf, nesting)
        when = self._text(body.get("when"), (*path, "when"))
        if tool is not None:
            line, column = self.document.places.get(path, (1, 1))
            self.found.places[leaf] = (line, column)
            self._check_ports(tool, links, outs, path)
        made = Step(name, tuple(links), outs, scattered, method, when, tool, workflow)
        self.paths[id(made)] = path
        return made

    def _check_scatter(self, scattered: tuple[str, ...], method: str, links: list[Link], path: Path) -> None:
        known = {one.id for one in links}
        for one in scattered:
            if one not in known:
                self.add((*path, "scatter"), f"scatter names {one}, which is not an input of the step")
        if len(scattered) > 1 and not method:
            self.add((*path, "scatter"), "several scattered inputs need a scatterMethod")
        if method and method not in SCATTERS:
            self.add((*path, "scatterMethod"), f"{method} is not one of {', '.join(SCATTERS)}")

    def _check_ports(self, tool: Tool, links: list[Link], outs: tuple[str, ...], path: Path) -> None:
        given, there = {one.id for one in links}, {one.id for one in tool.outputs}
        for port in tool.inputs:
            if port.required and port.id not in given:
                self.add((*path, "in"), f"input {port.id} of the tool is not given a value")
        for out in outs:
            if out not in there:
                self.add((*path, "out"), f"the tool has no output {out}")

    def _run(self, run: Any, path: Path, leaf: str, nesting: int) -> tuple[Tool | None, Workflow | None]:
        if isinstance(run, str):
            named = self.processes.get(run.lstrip("#")) if run.startswith("#") else None
            if named is None:
                self.found.points_elsewhere = True
                if not self.wiring_only:
                    self.add(path, f"run: {run} is never fetched", cure="Write the tool here, or in $graph")
                return None, None
            run, path = named
        if self.wiring_only and isinstance(run, dict) and "$import" in run:
            return None, None
        if not isinstance(run, dict):
            self.add(path, "a step needs a tool or workflow to run")
            return None, None
        if run.get("class") == "Workflow":
            if nesting >= _MAX_NESTING:
                self.add(path, "workflows are nested too deeply, or run themselves")
                return None, None
            return None, self.workflow(run, path, prefix=leaf, nesting=nesting + 1)
        if self.wiring_only:
            return None, None
        return read_tool(run, path, self.document, self._entries, self.found.problems), None

    def _link(self, name: str, body: dict[str, Any], path: Path, own: str, field_name: str) -> Link:
        if self.wiring_only:
            self._refuse_pointers(body.get("default"), (*path, "default"))
        sources = body.get(field_name)
        listed = [sources] if isinstance(sources, str) else (sources or [])
        aggregate = str(body.get(AGGREGATE) or "")
        merge, pick = str(body.get("linkMerge") or ""), str(body.get("pickValue") or "")
        if pick == "all_non_null" and isinstance(sources, list):
            merge = merge or "merge_nested"  # a list of one source is picked from like a longer one
        for value, known, key in ((merge, MERGES, "linkMerge"), (pick, PICKS, "pickValue"),
                                  (aggregate, AGGREGATES, AGGREGATE)):  # fmt: skip
            if value and value not in known:
                self.add((*path, key), f"{value} is not one of {', '.join(known)}")
        made = Link(
            id=name,
            sources=tuple(_short(str(one), own) for one in listed),
            link_merge=merge,
            pick_value=pick,
            aggregate=aggregate,
            value_from=self._text(body.get("valueFrom"), (*path, "valueFrom")),
            default=body.get("default"),
            has_default="default" in body,
        )
        self.paths[id(made)] = path
        return made

    def _text(self, value: Any, path: Path) -> str | None:
        """Return a text after checking the expressions in it."""
        if value is None:
            return None
        if not isinstance(value, str):
            self.add(path, "a text with an expression is needed")
            return None
        self.check_expression(value, path)
        return value

    def check_expression(self, value: str, path: Path) -> None:
        if not is_expression(value):
            return
        try:
            parse_text(value)
        except ExpressionError as error:
            self.add(path, f"{value[:80]}: {error.message}", cure=error.cure, offset=error.offset)

    def _check_sources(self, inputs: tuple[Port, ...], steps: list[Step], outputs: list[Link]) -> None:
        known = {one.id for one in inputs} | {f"{step.id}/{out}" for step in steps for out in step.outputs}
        for link in [*(link for step in steps for link in step.inputs), *outputs]:
            for source in link.sources:
                if source not in known:
                    message = f"source {source} is neither an input nor an output of a step"
                    self.add(self.paths[id(link)], message)

    def _check_types(
        self, inputs: tuple[Port, ...], steps: list[Step], outputs: list[Link], sinks: list[Port]
    ) -> None:
        """Report links that give nothing their port accepts: cwltool stops at the first other problem."""
        known = {one.id: one.types for one in inputs}
        known |= {source: types for step in steps for source, types in output_types(step).items()}
        for step in steps:
            inner = step.workflow.inputs if step.workflow is not None else ()
            ports = step.tool.inputs if step.tool is not None else inner
            self._check_links(step.inputs, ports, known, scattered=step.scatter)
        self._check_links(outputs, sinks, known)

    def _check_links(
        self, links: Iterable[Link], ports: Iterable[Port], known: dict[str, Types],
        *, scattered: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        sinks = {one.id: one.types for one in ports}
        for link in links:
            given = link_types(link, known)
            elements = element_types(given) if link.id in scattered else given
            sink = sinks.get(link.id, (ANY,))
            if elements and fits(elements, sink):
                continue
            wanted = " or ".join(sink) if elements else "a list to scatter"
            self.add(self.paths[id(link)], f"{link.id} gets {' or '.join(given)}, but needs {wanted}")

    def _sorted(self, steps: list[Step], path: Path, prefix: str) -> list[Step]:
        """Return the steps so that each comes after those it depends on; report a cycle."""
        waiting = {step.id: step for step in steps}
        if len(waiting) < len(steps):
            self.add((*path, "steps"), "two steps have the same name")
        done: list[Step] = []
        while waiting:
            ready = [step for step in waiting.values() if not self._depends(step, waiting)]
            if not ready:
                names = ", ".join(sorted(waiting))
                first = next(iter(waiting.values()))
                self.add(self.paths[id(first)], f"the steps {names} depend on each other")
                return [*done, *waiting.values()]
            for step in ready:
                done.append(waiting.pop(step.id))
        return done

    @staticmethod
    def _depends(step: Step, waiting: dict[str, Step]) -> bool:
        return any(
            source.partition("/")[0] in waiting
            for link in step.inputs
            for source in link.sources
            if "/" in source
        )


def _short(name: str, *owners: str) -> str:
    """Return a name without the # and the names of its owners, which packed documents put before it."""
    name = name.lstrip("#")
    for owner in owners:
        if owner and name.startswith(f"{owner}/"):
            return name.removeprefix(f"{owner}/")
    return name
