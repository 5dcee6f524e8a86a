"""Choice of the input file that a failure is blamed on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.job_world import NODE, fail

if TYPE_CHECKING:
    from tests.job_world import World

OPENED = "Successfully opened file root://se//store/data/a.root\n"


@pytest.mark.parametrize(
    ("kept", "log", "blamed"),
    [
        ("report", "", ["b"]),
        ("message", "", ["b"]),
        ("framework", "", ["b"]),
        (
            "log",
            OPENED + "Failed to open /store/data/b.root",
            ["b"],
        ),
        ("log", OPENED + "another line", []),
        ("log", "Fatal Root Error: root://se//store/data/other.root is truncated", []),
    ],
)
def test_the_bad_file_is_named_by_the_best_witness(
    failed: World, kept: str, log: str, blamed: list[str]
) -> None:
    failed.add_job(NODE, [failed.add_file("a", 10), failed.add_file("b", 10)])
    failed.payload = {"toy": {"fail_exit_code": 8021, "fail_files": ["/store/data/b.root"]}}
    failed.plan()
    status = failed.run(NODE)
    path, framework = failed.reports / f"{NODE}.report.json", failed.reports / f"{NODE}.fjr.xml"
    if kept != "framework":
        framework.unlink()
    changes = {
        "report": {"error": "no file named"},
        "message": {"bad_inputs": []},
        "framework": None,
        "log": {"bad_inputs": [], "error": "no file named"},
    }[kept]
    path.unlink() if changes is None else path.write_text(json.dumps({**failed.report(NODE), **changes}))
    (failed.group / f"{NODE}.err").write_text(log)

    assert failed.post(NODE, status) == 42
    assert failed.record(NODE)["classification"]["bad_input_files"] == [
        f"/store/data/{n}.root" for n in blamed
    ]


def test_a_report_cannot_blame_files_that_were_not_planned(failed: World) -> None:
    failed.add_job(NODE, [failed.add_file("a", 10), failed.add_file("b", 10)])
    status = fail(failed, 8021)
    path = failed.reports / f"{NODE}.report.json"
    report = {"bad_inputs": ["/store/data/other.root", "/store/data/b.root"], "error": "FileReadError"}
    path.write_text(json.dumps({**failed.report(NODE), **report}))
    (failed.reports / f"{NODE}.fjr.xml").unlink()
    failed.post(NODE, status)

    assert failed.record(NODE)["classification"]["bad_input_files"] == ["/store/data/b.root"]
