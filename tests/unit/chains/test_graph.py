"""The graph of a workflow: hostile documents cannot make it expensive."""

from __future__ import annotations

from chains_app.cwl.graph import build_graph
from chains_app.cwl.types import Link, Port, Step, Workflow


def test_graph_of_links_that_multiply_takes_linear_time() -> None:
    """Ten inputs, each made of all ten inputs of the workflow around, ten times: 10 billion ways."""
    names = [f"i{n}" for n in range(10)]
    links = tuple(Link(name, tuple(names)) for name in names)
    ports = tuple(Port(name) for name in names)
    workflow = Workflow(ports, (Step("s", links, ("out",)),), (Link("out", ("s/out",)),))
    for _ in range(9):
        step = Step("s", links, ("out",), workflow=workflow)
        workflow = Workflow(ports, (step,), (Link("out", ("s/out",)),))

    graph = build_graph(workflow)

    assert graph.reads == {"/".join("s" * 10): frozenset(("", name) for name in names)}
    assert graph.finals == {("/".join("s" * 10), "out")}


def test_graph_of_many_workflows_that_pass_their_input_on() -> None:
    inner = Workflow((Port("x"),), (), (Link("y", ("x",)),))
    steps = tuple(
        Step(f"s{n}", (Link("x", (f"s{n - 1}/y" if n else "x",)),), ("y",), workflow=inner)
        for n in range(1000)
    )

    graph = build_graph(Workflow((Port("x"),), steps, (Link("z", ("s999/y",)),)))

    assert graph.leaves == ()
    assert graph.finals == {("", "x")}
