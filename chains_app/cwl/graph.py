"""The graph of a workflow without its values: which steps read which ports, and which ports are final.

A leaf is a step that runs a tool; its path names the steps from the outermost workflow, joined by /. A port
is (path of the leaf, id), or ("", id) for an input of the outermost workflow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from chains_app.cwl.types import Step, Workflow

PortKey = tuple[str, str]
_Ports = frozenset[PortKey]


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
    reads: dict[str, _Ports]
    finals: _Ports

    def consumers(self, port: PortKey) -> frozenset[str]:
        """Return the paths of the leaves that read a port."""
        return frozenset(path for path, ports in self.reads.items() if port in ports)


def build_graph(workflow: Workflow) -> Graph:
    """Return the graph of a workflow and the workflows within it. The time is linear in their steps."""
    leaves, reads = list[Leaf](), dict[str, _Ports]()
    given = {port.id: frozenset({("", port.id)}) for port in workflow.inputs}
    outputs = _add_leaves(workflow, "", given, leaves, reads, scattered=False, conditional=False)
    return Graph(tuple(leaves), reads, _union(outputs, outputs))


def _add_leaves(
    workflow: Workflow, path: str, given: Mapping[str, _Ports], leaves: list[Leaf], reads: dict[str, _Ports],
    *, scattered: bool, conditional: bool,
) -> dict[str, _Ports]:  # fmt: skip
    """Add the leaves of a workflow whose inputs lead back to these ports; return the same of its outputs."""
    state = dict(given)
    for step in workflow.steps:
        name = f"{path}/{step.id}" if path else step.id
        is_scattered = scattered or bool(step.scatter)
        is_conditional = conditional or step.when is not None
        inputs = {link.id: _union(state, link.sources) for link in step.inputs}
        if step.workflow is None:
            leaves.append(Leaf(name, step, is_scattered, is_conditional))
            reads[name] = _union(inputs, inputs)
            found = {port: frozenset({(name, port)}) for port in step.outputs}
        else:
            found = _add_leaves(
                step.workflow, name, inputs, leaves, reads, scattered=is_scattered, conditional=is_conditional
            )
        state |= {f"{step.id}/{port}": ports for port, ports in found.items()}
    return {link.id: _union(state, link.sources) for link in workflow.outputs}


def _union(ports: Mapping[str, _Ports], names: Iterable[str]) -> _Ports:
    return frozenset[PortKey]().union(*(ports.get(name, frozenset()) for name in names))
