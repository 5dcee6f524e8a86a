"""cwltool runs the cases of conformance.yaml, with real jobs, and gives the same outputs.

Cases with comparisons are left out: cwltool needs a JavaScript engine for them.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from cwltool.context import RuntimeContext
from cwltool.errors import WorkflowException
from cwltool.factory import Factory, WorkflowStatus

from tests.unit.chains.test_conformance import CASES, HEAD

_COMPARES = re.compile(r"\$\([^)]*[=!<>&|]")
CASES_WITHOUT_JAVASCRIPT = [one for one in CASES if not _COMPARES.search(json.dumps(one["workflow"]))]
ANYTHING = ["null", "Any"]
COPY = """
import json
json.dump({"o": json.load(open("given.json")).get("v")}, open("cwl.output.json", "w"))
"""
ECHO = {
    "cwlVersion": "v1.2",
    "class": "CommandLineTool",
    "requirements": {
        "InitialWorkDirRequirement": {"listing": [{"entryname": "given.json", "entry": "$(inputs)"}]}
    },
    "baseCommand": [sys.executable, "-c", COPY],
    "inputs": {"v": ANYTHING},
    "outputs": {"o": ANYTHING},
}
FEATURES = (
    "ScatterFeatureRequirement",
    "StepInputExpressionRequirement",
    "MultipleInputFeatureRequirement",
    "SubworkflowFeatureRequirement",
)


def run_by_cwltool(workflow: dict[str, Any], inputs: dict[str, Any], place: Path) -> Any:
    (place / "echo.cwl").write_text(json.dumps(ECHO))
    document = HEAD | {"requirements": {name: {} for name in FEATURES}} | workflow
    (place / "workflow.cwl").write_text(json.dumps(document))
    (place / "out").mkdir()
    places = {"outdir": "out", "tmpdir_prefix": "tmp", "tmp_outdir_prefix": "job"}
    context = RuntimeContext({name: str(place / one) for name, one in places.items()})
    context.use_container = False
    return Factory(runtime_context=context).make(str(place / "workflow.cwl"))(**inputs)


@pytest.mark.parametrize("case", CASES_WITHOUT_JAVASCRIPT, ids=lambda case: case["case"].replace(" ", "_"))
def test_cwltool_gives_the_same_outputs(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cwltool", "salad"):
        monkeypatch.setattr(logging.getLogger(name), "handlers", [logging.NullHandler()])

    def found() -> Any:
        return run_by_cwltool(case["workflow"], case["inputs"], tmp_path)

    if "problem" in case:
        with pytest.raises((WorkflowException, WorkflowStatus)):
            found()
    else:
        assert found() == case["outputs"]


def test_most_cases_are_run() -> None:
    assert len(CASES_WITHOUT_JAVASCRIPT) > 2 * len(CASES) / 3
