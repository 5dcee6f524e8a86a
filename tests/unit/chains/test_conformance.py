"""`template try --wiring-only` on the cases of conformance.yaml, with tools that return their input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from chains_app.cwl.documents import load_document
from chains_app.cwl.reading import read_workflow
from chains_app.cwl.trying import try_workflow

CASES: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("conformance.yaml").read_text())
HEAD = {"cwlVersion": "v1.2", "class": "Workflow"}


def run_to_its_end(workflow: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
    """Try the workflow until no further call appears; each call returns its input `v` as `o`."""
    reading = read_workflow(load_document(yaml.safe_dump(HEAD | workflow)), wiring_only=True)
    assert reading.problems == []
    assert reading.workflow is not None
    results: dict[str, Any] = {}
    while True:
        found = try_workflow(reading.workflow, inputs=inputs, results=results, wiring_only=True)
        known = len(str(results))
        for call in found["calls"]:
            _put(results, call["step"], call["index"], {"o": call["inputs"]["v"]})
        if len(str(results)) == known:
            return found


def _put(results: dict[str, Any], step: str, index: list[int], value: Any) -> None:
    if not index:
        results[step] = value
        return
    place = results.setdefault(step, [])
    for number, last in zip(index, [False] * (len(index) - 1) + [True], strict=True):
        place += [None if last else [] for _ in range(number + 1 - len(place))]
        if last:
            place[number] = value
        place = place[number]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"].replace(" ", "_"))
def test_wiring_follows_cwl(case: dict[str, Any]) -> None:
    found = run_to_its_end(case["workflow"], case["inputs"])

    if "problem" in case:
        assert [case["problem"] in one["message"] for one in found["problems"]] == [True]
        assert found["outputs"] == {}
        return
    assert found["problems"] == []
    assert found["outputs"] == case["outputs"]
    assert [[one["step"], one["index"]] for one in found["skipped"]] == case.get("skipped", [])
