"""The graph of a workflow without its values: which steps read which ports, and which ports are final.

A leaf is a step that runs a tool; its path names the steps from the outermost workflow, joined by /. A port
is (path of the leaf, id), or ("", id) for an input of the outermost workflow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from chains_app.cwl.types import Step, Workflow

PortKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf.

    `scattered`: it or a workflow around it is scattered, so that its calls are not known in advance.
    """

    path: str
    step: Step
    scattered: bool
    conditional: bool

    @property
    def dataset_ports(self) -> tuple[str, ...]:
        """Outputs that are datasets, not facts."""
        if self.step.tool is None:
            return ()
        return tuple(one.id for one in self.step.tool.outputs if not one.fact)


@dataclass(frozen=True, slots=True)
class Graph:
    """Leaves in order of dependence, what each reads, and the ports that are outputs of the whole."""

    leaves: tuple[Leaf, ...]
    reads: dict[str, frozenset[PortKey]]
    finals: frozenset[PortKey]

    def consumers(self, port: PortKey) -> frozenset[str]:
        """Return the paths of the leaves that read a port."""
        return frozenset(path for path, ports in self.reads.items() if port in ports)


@dataclass(frozen=True, slots=True)
class _Scope:
    workflow: Workflow
    path: str = ""
    parent: _Scope | None = None
    step: Step | None = None  # the parent's step that runs this workflow
    scattered: bool = False
    conditional: bool = False


def build_graph(workflow: Workflow) -> Graph:
    """Return the graph of a workflow and the workflows within it."""
    root = _Scope(workflow)
    leaves, reads = [], {}
    for scope, step in _leaves(root):
        path = _join(scope.path, step.id)
        leaves.append(
            Leaf(
                path, step, scope.scattered or bool(step.scatter), scope.conditional or step.when is not None
            )
        )
        sources = {source for link in step.inputs for source in link.sources}
        reads[path] = frozenset(port for source in sources for port in _trace(scope, source))
    final = {source for link in workflow.outputs for source in link.sources}
    return Graph(tuple(leaves), reads, frozenset(port for source in final for port in _trace(root, source)))


def _leaves(scope: _Scope) -> Iterator[tuple[_Scope, Step]]:
    for step in scope.workflow.steps:
        if step.workflow is None:
            yield scope, step
        else:
            yield from _leaves(_inner(scope, step, step.workflow))


def _inner(scope: _Scope, step: Step, workflow: Workflow) -> _Scope:
    return _Scope(
        workflow,
        _join(scope.path, step.id),
        scope,
        step,
        scope.scattered or bool(step.scatter),
        scope.conditional or step.when is not None,
    )


def _trace(scope: _Scope, source: str) -> set[PortKey]:
    """Return the ports of leaves, or the outermost inputs, that a source leads back to."""
    name, _, port = source.partition("/")
    if not port:
        if scope.parent is None or scope.step is None:
            return {("", name)}
        link = next((one for one in scope.step.inputs if one.id == name), None)
        above = link.sources if link else ()
        return {key for one in above for key in _trace(scope.parent, one)}
    step = next((one for one in scope.workflow.steps if one.id == name), None)
    if step is None or step.workflow is None:
        return {(_join(scope.path, name), port)}
    inner = _inner(scope, step, step.workflow)
    out = next((one for one in step.workflow.outputs if one.id == port), None)
    return {key for one in (out.sources if out else ()) for key in _trace(inner, one)}


def _join(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name
