"""Wiring follows CWL v1.2: scatter, linkMerge, pickValue, valueFrom, default, when, and inner workflows."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chains_app.cwl.documents import load_document
from chains_app.cwl.reading import read_workflow
from chains_app.cwl.trying import try_workflow
from chains_app.cwl.types import Workflow

HEAD = "cwlVersion: v1.2\nclass: Workflow\n"


@cache
def workflow(text: str) -> Workflow:
    reading = read_workflow(load_document(HEAD + text), wiring_only=True)
    assert reading.problems == []
    assert reading.workflow is not None
    return reading.workflow


def tried(text: str, inputs: dict[str, Any], results: dict[str, Any] | None = None) -> dict[str, Any]:
    return try_workflow(workflow(text), inputs=inputs, results=results or {}, wiring_only=True)


def inputs_of(found: dict[str, Any], step: str = "s") -> list[dict[str, Any]]:
    return [call["inputs"] for call in found["calls"] if call["step"] == step]


def scatter(names: str, method: str = "") -> str:
    chosen = f"\n    scatterMethod: {method}" if method else ""
    return f"""
inputs: {{a: Any, b: Any}}
steps:
  s:
    run: tool.cwl
    in: {{a: a, b: b}}
    scatter: {names}{chosen}
    out: [o]
outputs: {{all: {{type: Any, outputSource: s/o}}}}
"""


@pytest.mark.parametrize(
    ("names", "method", "inputs", "pairs", "outputs"),
    [
        ("a", "", {"a": [1, 2], "b": 9}, [(1, 9), (2, 9)], ["r0", "r1"]),
        ("[a]", "dotproduct", {"a": [], "b": 9}, [], []),
        ("[a, b]", "dotproduct", {"a": [1, 2], "b": [3, 4]}, [(1, 3), (2, 4)], ["r0", "r1"]),
        ("[a, b]", "flat_crossproduct", {"a": [1, 2], "b": [3, 4]}, [(1, 3), (1, 4), (2, 3), (2, 4)],
         ["r0", "r1", "r2", "r3"]),
        ("[a, b]", "flat_crossproduct", {"a": [1, 2], "b": []}, [], []),
        ("[a, b]", "nested_crossproduct", {"a": [1, 2], "b": [3, 4]}, [(1, 3), (1, 4), (2, 3), (2, 4)],
         [["r0", "r1"], ["r2", "r3"]]),
        ("[a, b]", "nested_crossproduct", {"a": [1, 2], "b": []}, [], [[], []]),
        ("[a, b]", "nested_crossproduct", {"a": [], "b": [1]}, [], []),
    ],
)  # fmt: skip
def test_scatter(
    names: str, method: str, inputs: dict[str, Any], pairs: list[tuple[int, int]], outputs: list[Any]
) -> None:
    def as_results(shape: Any) -> Any:
        return [as_results(one) for one in shape] if isinstance(shape, list) else {"o": shape}

    found = tried(scatter(names, method), inputs, {"s": as_results(outputs)})

    assert [(one["a"], one["b"]) for one in inputs_of(found)] == pairs
    assert found["outputs"] == {"all": outputs}
    assert found["problems"] == []


def test_scatter_needs_lists_of_one_length() -> None:
    different = tried(scatter("[a, b]", "dotproduct"), {"a": [1], "b": [1, 2]})
    missing = tried(scatter("a"), {"a": None, "b": 1})

    assert "different lengths" in different["problems"][0]["message"]
    assert "must be a list" in missing["problems"][0]["message"]
    assert different["calls"] == missing["calls"] == []


LINKS = """
inputs: {{x: Any, y: Any}}
steps:
  s:
    run: tool.cwl
    in:
      v: {{{link}}}
    out: [o]
outputs: []
"""


@pytest.mark.parametrize(
    ("link", "inputs", "value"),
    [
        ("source: x", {"x": 1}, 1),
        ("source: [x]", {"x": 1}, 1),
        ("source: [x, y]", {"x": 1, "y": [2]}, [1, [2]]),
        ("source: [x, y], linkMerge: merge_nested", {"x": [1], "y": [2]}, [[1], [2]]),
        ("source: x, linkMerge: merge_nested", {"x": [1]}, [[1]]),
        ("source: [x], linkMerge: merge_nested", {"x": 1}, [1]),
        ("source: [x, y], linkMerge: merge_flattened", {"x": [1, 2], "y": 3}, [1, 2, 3]),
        ("source: [x], linkMerge: merge_flattened", {"x": [1]}, [1]),
        ("source: [x, y], pickValue: first_non_null", {"x": None, "y": 2}, 2),
        ("source: [x, y], pickValue: the_only_non_null", {"x": None, "y": 2}, 2),
        ("source: [x, y], pickValue: all_non_null", {"x": None, "y": 2}, [2]),
        ("source: [x, y], pickValue: all_non_null", {"x": None, "y": None}, []),
        ("source: x, pickValue: all_non_null", {"x": [None, 1, None, 2]}, [1, 2]),
        ("source: [x, y], linkMerge: merge_flattened, pickValue: all_non_null",
         {"x": [None, 1], "y": [2, None]}, [1, 2]),
        ("source: x, default: 7", {"x": None}, 7),
        ("source: x, default: 7", {"x": 1}, 1),
        ("source: x, default: 7", {"x": False}, False),
        ("default: 7", {}, 7),
        ("valueFrom: text", {}, "text"),
        ("source: x, valueFrom: $(self.length)", {"x": [1, 2]}, 2),
        ("source: x, valueFrom: $(inputs.v)$(inputs.v)", {"x": 1}, "11"),
        ("source: x, default: 3, valueFrom: $(self)", {"x": None}, 3),
        ("source: [x, y], 'wms2:aggregate': sum", {"x": 1, "y": 2}, 3),
        ("source: x, 'wms2:aggregate': last", {"x": [1, 2]}, 2),
        ("source: x, 'wms2:aggregate': first", {"x": []}, None),
        ("source: x, 'wms2:aggregate': concat", {"x": [[1], [2, 3]]}, [1, 2, 3]),
        ("source: x, 'wms2:aggregate': collect", {"x": 1}, [1]),
        ("source: x, 'wms2:aggregate': sum", {"x": [1, None, 2]}, 3),
    ],
)  # fmt: skip
def test_link(link: str, inputs: dict[str, Any], value: Any) -> None:
    found = tried(LINKS.format(link=link), inputs)

    assert found["problems"] == []
    assert inputs_of(found) == [{"v": value}]


@pytest.mark.parametrize(
    ("link", "inputs", "words"),
    [
        ("source: [x, y], pickValue: first_non_null", {"x": None, "y": None}, "all sources of v are null"),
        ("source: [x, y], pickValue: the_only_non_null", {"x": 1, "y": 2}, "2 sources of v are not null"),
        ("source: x, 'wms2:aggregate': sum", {"x": ["a"]}, "needs numbers"),
        ("source: x, valueFrom: $(inputs.other)", {"x": 1}, "inputs.other does not exist"),
    ],
)
def test_link_without_a_value_is_a_problem_of_its_step(link: str, inputs: dict[str, Any], words: str) -> None:
    found = tried(LINKS.format(link=link), inputs)

    assert words in found["problems"][0]["message"]
    assert found["problems"][0]["step"] == "s"
    assert found["calls"] == []


def test_value_from_is_evaluated_after_the_scatter_on_values_before_it() -> None:
    text = """
inputs: {xs: Any}
steps:
  s:
    run: tool.cwl
    scatter: x
    in:
      x: {source: xs, valueFrom: "$(self)-$(runtime.index)"}
      y: {valueFrom: $(inputs.x)}
    out: []
outputs: []
"""
    assert inputs_of(tried(text, {"xs": ["a", "b"]})) == [
        {"x": "a-0", "y": "a"},
        {"x": "b-1", "y": "b"},
    ]


WHEN = """
inputs: {n: Any}
steps:
  s:
    run: tool.cwl
    in: {n: n}
    when: $(inputs.n > 1)
    out: [o]
  t:
    run: tool.cwl
    in: {v: s/o}
    out: [o]
outputs:
  o: {type: Any, outputSource: t/o}
  p: {type: Any, outputSource: [s/o, n], pickValue: first_non_null}
"""


def test_skipped_step_has_null_outputs_and_its_consumers_run() -> None:
    found = tried(WHEN, {"n": 1}, {"t": {"o": "done"}})

    assert found["skipped"] == [{"step": "s", "index": []}]
    assert inputs_of(found, "t") == [{"v": None}]
    assert found["outputs"] == {"o": "done", "p": 1}


def test_condition_sees_values_after_value_from_and_must_be_boolean() -> None:
    text = WHEN.replace("in: {n: n}", "in: {n: {source: n, valueFrom: '$(self.big)'}}", 1)

    assert tried(text, {"n": {"big": 5}})["skipped"] == []
    assert "not true or false" in tried(WHEN.replace("n > 1", "n"), {"n": 1})["problems"][0]["message"]


def test_scattered_condition_leaves_null_in_its_place() -> None:
    text = """
inputs: {ns: Any}
steps:
  s: {run: t.cwl, in: {n: ns}, scatter: n, when: $(inputs.n > 1), out: [o]}
outputs:
  every: {type: Any, outputSource: s/o}
  some: {type: Any, outputSource: s/o, pickValue: all_non_null}
"""
    found = tried(text, {"ns": [1, 2, 3]}, {"s": [None, {"o": "b"}, {"o": "c"}]})

    assert found["skipped"] == [{"step": "s", "index": [0]}]
    assert found["outputs"] == {"every": [None, "b", "c"], "some": ["b", "c"]}


INNER = """
inputs: {xs: Any}
steps:
  outer:
    scatter: x
    in: {x: xs}
    out: [o]
    run:
      class: Workflow
      inputs: {x: Any, y: {type: int, default: 5}}
      steps:
        one: {run: t.cwl, in: {v: x, w: y}, out: [o]}
        two: {run: t.cwl, in: {v: one/o}, out: [o]}
      outputs: {o: {type: Any, outputSource: two/o}}
outputs: {all: {type: Any, outputSource: outer/o}}
"""


def test_inner_workflow_is_wired_for_each_element() -> None:
    results = {"outer/one": [{"o": "a"}, {"o": "b"}], "outer/two": [{"o": "A"}, {"o": "B"}]}

    found = tried(INNER, {"xs": [1, 2]}, results)

    assert inputs_of(found, "outer/one") == [{"v": 1, "w": 5}, {"v": 2, "w": 5}]
    assert inputs_of(found, "outer/two") == [{"v": "a"}, {"v": "b"}]
    assert found["outputs"] == {"all": ["A", "B"]}


@pytest.mark.parametrize(
    "results",
    [
        {"outer": [{"one": {"o": "a"}, "two": {"o": "A"}}, {"one": {"o": "b"}, "two": {"o": "B"}}]},
        {"outer": [{"o": "A"}, {"o": "B"}]},
    ],
)
def test_results_of_an_inner_workflow_may_be_nested_or_its_outputs(results: dict[str, Any]) -> None:
    assert tried(INNER, {"xs": [1, 2]}, results)["outputs"] == {"all": ["A", "B"]}


def test_nothing_waits_for_a_branch_it_does_not_read() -> None:
    text = """
inputs: {x: Any}
steps:
  a: {run: t.cwl, in: {v: x}, out: [o]}
  b: {run: t.cwl, in: {v: a/o}, out: [o]}
  c: {run: t.cwl, in: {v: x}, out: [o]}
outputs: {o: {type: Any, outputSource: c/o}}
"""
    found = tried(text, {"x": 1}, {"c": {"o": 2}})

    assert [call["step"] for call in found["calls"]] == ["a", "c"]
    assert found["outputs"] == {"o": 2}


def test_number_of_calls_is_limited() -> None:
    found = try_workflow(
        workflow(scatter("a")),
        inputs={"a": list(range(11)), "b": 0},
        results={},
        wiring_only=True,
        max_calls=10,
    )

    assert "more than 10 calls" in found["problems"][0]["message"]
    assert found["calls"] == []


MULTIPLIED = ", ".join(["x"] * 10)
STEP = "{run: t.cwl, in: {v: x}, out: [o]}"


def nested(port: str, *, depth: int = 9) -> str:
    """Workflows in each other, each of which passes `x` on as this port of the next one."""
    inner = STEP
    for _ in range(depth):
        inner = (
            f"{{run: {{class: Workflow, inputs: {{x: Any}}, steps: {{s: {inner}}}, outputs: []}},"
            f" in: {{x: {port}}}, out: []}}"
        )
    return f"inputs: {{x: Any}}\nsteps: {{s: {inner}}}\noutputs: []\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (nested(f"{{source: [{MULTIPLIED}], linkMerge: merge_flattened}}"), "more than 100000 values"),
        (nested(f"{{source: [{MULTIPLIED}], linkMerge: merge_nested}}"), "more than 100000 values"),
        (nested("{source: x, valueFrom: " + "$(self)" * 10 + "}"), "longer than 100000 characters"),
        (scatter("[a, b]", "flat_crossproduct"), "more than 1000 calls"),
        (scatter("[a, b]", "nested_crossproduct"), "more than 1000 calls"),
        (
            scatter("[a, b]", "flat_crossproduct").replace("out:", "when: $(1 > 2)\n    out:"),
            "more than 1000",
        ),
    ],
)
def test_values_that_multiply_are_refused(text: str, words: str) -> None:
    values = {name: list(range(100_000)) for name in "ab"} if "inputs: {a" in text else {"x": ["/A/B-v1/RAW"]}

    problems = tried(text, values)["problems"]

    assert words in "".join(one["message"] for one in problems)


@given(st.lists(st.integers(0, 9), max_size=4), st.lists(st.integers(0, 9), max_size=4))
def test_crossproducts_call_every_pair_once_and_keep_their_shape(a: list[int], b: list[int]) -> None:
    pairs = [(x, y) for x in a for y in b]
    flat = tried(scatter("[a, b]", "flat_crossproduct"), {"a": a, "b": b}, {"s": [{"o": p} for p in pairs]})
    rows = [[{"o": (x, y)} for y in b] for x in a]
    nested = tried(scatter("[a, b]", "nested_crossproduct"), {"a": a, "b": b}, {"s": rows})

    for found in (flat, nested):
        assert [(one["a"], one["b"]) for one in inputs_of(found)] == pairs
    assert flat["outputs"]["all"] == pairs
    assert nested["outputs"]["all"] == [[(x, y) for y in b] for x in a]
