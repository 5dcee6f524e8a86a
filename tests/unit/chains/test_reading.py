"""Reading of CWL documents: normal form, and every problem with its place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from chains_app.cwl import check_child
from chains_app.cwl.check_child import check_text, parse_message
from chains_app.cwl.documents import Unreadable, load_document
from chains_app.cwl.reading import read_workflow
from chains_app.cwl.step_hint import FIELDS
from chains_app.cwl.trying import try_workflow
from chains_app.cwl.types import to_json, workflow_from_json
from chains_app.request_documents import CallContext, build_document
from tests.integration.chains.documents import LINEAR, SCATTER

DOCS = Path(__file__).parents[3] / "docs" / "chains.md"


def problems(text: str, *, wiring_only: bool = False) -> list[Any]:
    return read_workflow(load_document(text), wiring_only=wiring_only).problems


@pytest.mark.parametrize("text", [LINEAR, SCATTER])
def test_normal_form_survives_storage(text: str) -> None:
    workflow = read_workflow(load_document(text)).workflow
    assert workflow is not None
    assert workflow_from_json(to_json(workflow)) == workflow


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("skim/out", "skin/out", "source skin/out is neither"),
        ("cwlVersion: v1.2", "cwlVersion: v9", "cwlVersion"),
        ("in: {data: data}", "in: {data: join/out}", "depend on each other"),
        ("mode: merge", "mode: mix", "not map or merge"),
        ("tier: AOD", "retries: 0", "retries"),
        ("tier: AOD", "speed: 9", "no field speed"),
        ("tier: AOD", "start: first_file", "first_file needs allocation pull"),
        ("out: Directory}", "out: int}", "neither a dataset nor a fact"),
        ("class: Operation", "class: ExpressionTool", "not supported for a step"),
        ("in: {data: data}", "in: {data: {source: data, valueFrom: '${return 1}'}}", "JavaScript"),
        ("in: {data: data}", "in: {data: {source: data, valueFrom: $(1 + 2)}}", "not supported"),
        ("in: {data: data}", "in: {data: {source: data, linkMerge: zip}}", "not one of merge_nested"),
        ("in: {data: data}", "in: {}", "is not given a value"),
        ("out: [out]", "out: [gone]", "no output gone"),
        ("{kind: toy}", "{kind: toy}, request_name: x", "given by the chain"),
        ("inputs: {data: Directory}\nsteps", "inputs: {data: File}\nsteps", "files and records"),
        ("inputs: {data: Directory}\nsteps", "inputs: {data: int}\nsteps", "gets int, but needs Directory"),
        ("in: {data: data}", "scatter: data\n    in: {data: data}", "needs a list to scatter"),
        ("result: {type: Directory", "result: {type: long", "gets Directory, but needs long"),
    ],
)
def test_problem_names_its_line(old: str, new: str, words: str) -> None:
    assert old in LINEAR
    found = problems(LINEAR.replace(old, new, 1))

    assert any(words in one.message and one.line > 1 for one in found), found


def test_all_problems_are_reported_at_once_in_order() -> None:
    text = (
        LINEAR.replace("skim/out", "skin/out")
        .replace("mode: merge", "mode: mix")
        .replace("tier: AOD", "x: 1", 1)
    )

    lines = [one.line for one in problems(text)]

    assert len(lines) >= 3
    assert lines == sorted(lines)


MANY = """
cwlVersion: v1.2
class: Workflow
inputs: [{id: data, type: Directory}]
steps:
  - id: one
    in: [{id: data, source: nowhere/out}, {id: number, source: data}]
    out: [out]
    run: &tool
      class: Operation
      inputs: {data: Directory, number: int}
      outputs: {out: Directory}
      hints: {wms2:Step: {tier: USER, retries: none, request: {payload_config: {kind: toy}}}}
  - id: two
    in: [{id: data, source: three/out}, {id: number, default: 1}]
    out: [out]
    run: *tool
  - {id: three, in: [{id: data, source: two/out}, {id: number, default: 1}], out: [out], run: *tool}
outputs: []
"""


def test_problems_of_every_kind_are_found_together_each_at_its_place() -> None:
    found = check_text(MANY, wiring_only=False).problems

    for line, column, words in (
        (7, 10, "nowhere/out is neither"),
        (7, 43, "number gets Directory, but needs int"),
        (13, 48, "retries"),
        (14, 5, "three, two depend on each other"),
    ):
        places = [(one.line, one.column) for one in found if words in one.message]
        assert places == [(line, column)], (words, found)


@pytest.mark.parametrize(
    "pointer",
    ["$import: http://10.0.0.1/x", "$include: /etc/passwd", "$schemas: [http://10.0.0.1/x]"],
)
def test_external_references_of_a_document_are_refused_unfetched(pointer: str) -> None:
    found = check_text(LINEAR + pointer + "\n", wiring_only=False)

    assert found.workflow is None or found.problems
    assert any("never fetched" in one.message for one in found.problems)


def test_wrong_type_is_one_problem_although_cwltool_finds_it_too() -> None:
    found = check_text(
        LINEAR.replace("inputs: {data: Directory}\nsteps", "inputs: {data: int}\nsteps"), wiring_only=False
    )

    (wrong,) = found.problems
    assert wrong.message == "data gets int, but needs Directory"


def test_packed_documents_and_external_tools_can_be_tried() -> None:
    packed = """
cwlVersion: v1.2
$graph:
- class: Workflow
  id: '#main'
  inputs: [{id: '#main/x', type: int}]
  outputs: [{id: '#main/o', type: int, outputSource: '#main/s/o'}]
  steps:
  - id: '#main/s'
    run: '#tool'
    in: [{id: '#main/s/v', source: '#main/x'}]
    out: ['#main/s/o']
- class: CommandLineTool
  id: '#tool'
  inputs: []
  outputs: []
"""
    reading = read_workflow(load_document(packed), wiring_only=True)
    assert reading.workflow is not None
    found = try_workflow(reading.workflow, inputs={"x": 1}, results={"s": {"o": 2}}, wiring_only=True)

    assert found["calls"] == [{"step": "s", "index": [], "inputs": {"v": 1}}]
    assert found["outputs"] == {"o": 2}
    assert problems(LINEAR.replace("class: Operation", "class: ExpressionTool"), wiring_only=True) == []


def test_wiring_of_a_document_with_external_tools_is_tried_unless_the_wiring_is_external() -> None:
    text = """
cwlVersion: v1.2
$schemas: [http://10.0.0.1/edam.owl]
$graph:
- class: Workflow
  id: counting
  requirements:
    - class: SchemaDefRequirement
      types: [{$import: types.yml}]
    - {class: InlineJavascriptRequirement, expressionLib: [{$include: lib.js}]}
  inputs: {x: "types.yml#kind", y: {type: {$import: other.yml}}}
  outputs: {o: {type: int, outputSource: s/o}}
  steps: {s: {run: {$import: tool.cwl}, in: {v: x}, out: [o]}}
"""
    reading = check_text(text, wiring_only=True)
    assert reading.problems == []
    assert reading.workflow is not None
    found = try_workflow(reading.workflow, inputs={"x": 1}, results={"s": {"o": 2}}, wiring_only=True)
    assert found["outputs"] == {"o": 2}

    for old, new in (
        ("steps: {s: {run", "steps: {$import: s.yml, s: {run"),
        ("in: {v: x}", "in: {v: {default: {$include: x.txt}}}"),
    ):
        assert old in text
        (problem,) = check_text(text.replace(old, new), wiring_only=True).problems
        assert "never fetched" in problem.message


def _bomb() -> str:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    return "\n".join(rows)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (_bomb(), "more than"),
        ("a: &a 1\nb: [" + "*a, " * 1000 + "]", "aliases"),
        ("a: " + "[" * 500 + "]" * 500, "nested too deeply"),
        ("a: &a [*a]", "contains itself"),
        ("a: !!python/object:os.system 1", "tag"),
        ("a: 1\na: 2", "given twice"),
        ("a: [1", "not legal YAML"),
        ("", "empty"),
        ("x" * 300_000, "kB"),
    ],
)
def test_hostile_yaml_is_refused_with_its_place(text: str, words: str) -> None:
    with pytest.raises(Unreadable) as refused:
        load_document(text)

    assert words in refused.value.problem.message
    assert refused.value.problem.line >= 1


def _nested(kind: str) -> str:
    return LINEAR.replace("inputs: {data: Directory}\nsteps", f"inputs: {{data: {kind}}}\nsteps")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (_nested("{type: " + "{type: array, items: " * 25 + "Directory" + "}" * 26), "nested more than 10"),
        (_nested("'int" + "[]" * 500 + "'"), "nested more than 10"),
        (_nested("Directory, " + ", ".join(f"i{n}: int?" for n in range(2000))), "more than 1000 entries"),
    ],
)
def test_document_that_would_keep_cwltool_busy_is_refused_before(
    text: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_child, "_cwltool_problems", None)

    (problem,) = check_text(text, wiring_only=False).problems

    assert words in problem.message
    assert problem.line == 10


def _multiplied(width: int, depth: int) -> str:
    """Workflows of which each runs the next one in every step."""
    rows = ["cwlVersion: v1.2", "$graph:"]
    for level in range(depth):
        steps = ", ".join(f"s{n}: {{run: '#w{level + 1}', in: {{}}, out: []}}" for n in range(width))
        name = f"w{level}" if level else "main"
        rows.append(f"- {{class: Workflow, id: {name}, inputs: {{}}, steps: {{{steps}}}, outputs: {{}}}}")
    rows.append(f"- {{class: Operation, id: w{depth}, inputs: {{}}, outputs: {{}}}}")
    return "\n".join(rows)


@pytest.mark.parametrize("wiring_only", [True, False])
def test_workflows_that_multiply_are_refused_before_cwltool_reads_them(
    wiring_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_child, "_cwltool_problems", None)

    (problem,) = check_text(_multiplied(width=10, depth=9), wiring_only=wiring_only).problems

    assert "more than 1000 steps" in problem.message
    assert problem.line > 2


def test_command_line_is_bound_by_the_rules_of_cwl() -> None:
    text = """
cwlVersion: v1.2
class: Workflow
inputs: {data: Directory}
steps:
  s:
    in: {data: data, n: {default: 3}, names: {default: [a, b]}, flag: {default: true}, off: {default: false}}
    out: [out]
    run:
      class: CommandLineTool
      baseCommand: [./run.sh, go]
      arguments: [{valueFrom: $(inputs.n)x, position: 1}, --end]
      inputs:
        data: Directory
        n: {type: int, inputBinding: {prefix: -n, position: 2}}
        names:
          type: string[]
          inputBinding: {prefix: --names=, separate: false, itemSeparator: ",", position: 3}
        flag: {type: boolean, inputBinding: {prefix: --flag, position: 4}}
        off: {type: boolean, inputBinding: {prefix: --off, position: 4}}
      outputs: {out: Directory}
      requirements:
        EnvVarRequirement: {envDef: {LEVEL: "$(inputs.n)"}}
        ToolTimeLimit: {timelimit: 600}
        ResourceRequirement: {coresMin: 2, ramMin: 1500}
outputs: []
"""
    workflow = read_workflow(load_document(text)).workflow
    assert workflow is not None
    tool = workflow.steps[0].tool
    assert tool is not None
    context = CallContext("name", ["/A/B-v1/USER"], "ana")
    inputs = {"data": "/A/B-v1/RAW", "n": 3, "names": ["a", "b"], "flag": True, "off": False}

    document = build_document(tool, inputs=inputs, position=None, context=context)

    assert document["payload_config"] == {
        "kind": "command",
        "command": ["./run.sh", "go", "--end", "3x", "-n", "3", "--names=a,b", "--flag"],
        "environment": {"LEVEL": 3},
        "max_wall_time_sec": 600,
    }
    assert (document["cores"], document["memory_mb"], document["input_dataset"]) == (2, 1500, "/A/B-v1/RAW")


def test_message_of_cwltool_becomes_problems() -> None:
    text = (
        "../template.cwl:28:1:  checking field 'outputs'\n"
        "../template.cwl:29:3:    checking object '../template.cwl#o'\n"
        "../template.cwl:29:24:     Field 'outputSource' references unknown identifier 'c/out', tried\n"
        "                            file:///template.cwl#o/c/out"
    )

    (found,) = parse_message(text)

    assert (found.line, found.column) == (29, 24)
    assert found.message.startswith("Field 'outputSource' references unknown identifier")


def test_documentation_is_complete_and_its_example_is_accepted() -> None:
    text = DOCS.read_text()
    example = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert example is not None

    reading = check_text(example[1], wiring_only=False)

    assert reading.problems == []
    assert [name for name in FIELDS if f"| `{name}` |" not in text] == []
