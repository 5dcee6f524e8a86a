"""`python -m benchmarks`: arguments, table, record and exit code."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.__main__ import RUNNERS, exit_code, in_order, parse
from benchmarks.bars import BARS
from benchmarks.harness import Measured, Result, Verdict, judge
from benchmarks.report import Conditions, print_table, write_record

ROOT = Path(__file__).resolve().parents[3]
MET = judge(BARS["B1"], Measured(3.0, {"candidate": [3.0] * 5, "reference": [1.0] * 5}, note="100 jobs"))
MISSED = judge(BARS["B6"], Measured(40.0, {"candidate": [1.0], "reference": [0.4]}))
NOT_RUN = Result(BARS["B2"], Verdict.NOT_RUN, reason="the peer is optional")
FAILED = Result(BARS["B3"], Verdict.FAILED, reason="OSError: disk full")


def conditions(*, quick: bool = False, load: float = 0.0) -> Conditions:
    return Conditions(
        quick=quick,
        started_at=datetime(2031, 1, 1, tzinfo=UTC),
        load_before=(load, 0.0, 0.0),
        versions={"PostgreSQL": "18"},
    )


def printed(*results: Result, quick: bool = False, load: float = 0.0) -> list[str]:
    out = io.StringIO()
    print_table(results, conditions(quick=quick, load=load), out=out)
    return out.getvalue().splitlines()


def test_an_unknown_benchmark_is_refused_with_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        parse(["B1", "B99"])

    assert stopped.value.code == 2
    assert "there is no B99: choose from B1, B2" in capsys.readouterr().err


def test_benchmarks_may_be_named_in_small_letters_and_run_once_each() -> None:
    assert in_order(parse(["b4", "B3", "b4", "B14"]).ids) == ["B14", "B3", "B4"]


@pytest.mark.parametrize(
    ("results", "code"),
    [([MET, NOT_RUN], 0), ([MET, MISSED], 1), ([MET, FAILED], 1), ([], 0)],
)
def test_only_a_missed_bar_or_a_broken_benchmark_fails(results: list[Result], code: int) -> None:
    assert exit_code(results) == code


def test_a_piped_table_is_plain_text_with_one_line_per_bar() -> None:
    head, first, second, third = printed(MET, MISSED, NOT_RUN)

    assert head.split()[:3] == ["ID", "what", "measured"]
    assert "\x1b" not in first + second + third
    assert first.split("  ")[0] == "B1"
    for part in ("3×", "≤ 15×", "met", "reached (4×)", "100 jobs"):
        assert part in first
    for part in ("40 %", "≥ 50 %", "missed", "no (90 %)", "1 repetition"):
        assert part in second
    for part in ("not run", "the peer is optional"):
        assert part in third


@pytest.mark.parametrize(("percent", "doubted"), [(193.0, True), (104.0, False), (40.0, False)])
def test_a_rate_far_beyond_its_limit_is_doubted_not_praised(percent: float, doubted: bool) -> None:
    samples = {"candidate": [1.0] * 5, "reference": [1.0] * 5}

    line = printed(judge(BARS["B6"], Measured(percent, samples, spread=(80.0, 250.0))))[1]

    assert ("DOUBTFUL" in line) is doubted
    assert "80–250" in line


def test_a_smoke_test_and_a_busy_machine_are_named_as_such() -> None:
    assert printed(MET, quick=True)[-1] == "quick: not a measurement"
    assert "the machine was busy" in printed(MET, load=1000.0)[-1]


def test_the_record_holds_every_sample_the_load_and_the_versions(tmp_path: Path) -> None:
    path = tmp_path / "benchmarks.json"

    write_record(path, [MET, NOT_RUN], conditions(load=1.5))

    record = json.loads(path.read_text())
    first, second = record["results"]
    assert first["samples"] == {"candidate": [3.0] * 5, "reference": [1.0] * 5}
    assert (first["id"], first["value"], first["verdict"], first["moonshot_reached"]) == (
        "B1",
        3,
        "met",
        True,
    )
    assert (second["verdict"], second["reason"]) == ("not run", "the peer is optional")
    assert record["load_average"]["before"][0] == 1.5
    assert record["versions"]["PostgreSQL"] == "18"
    assert "Django" in record["versions"]
    assert list(tmp_path.iterdir()) == [path]


def test_every_runner_names_an_existing_function() -> None:
    for id_, runner in RUNNERS.items():
        module, _, function = runner.partition(":")
        assert id_ in BARS
        assert f"def {function}(run: Run) -> Measured:" in (ROOT / "benchmarks" / f"{module}.py").read_text()


def test_a_smoke_test_runs_without_services(tmp_path: Path) -> None:
    nowhere = "127.0.0.1:1"
    services = {"DATABASE_URL": f"postgres://absent@{nowhere}/none", "REDIS_URL": f"redis://{nowhere}/0"}
    gone = ("CONDOR_CONFIG", "WMS2_HOME", "WMS2_STATE", "WMS2_WMCORE_PYTHON", "WMS2_MIGRATE_DATABASE_URL")
    environment = {name: value for name, value in os.environ.items() if name not in gone} | services
    environment["WMS2_SUBMIT_ROOT"] = str(tmp_path)
    wanted = ["B1", "B2", "B3", "B4", "B6", "B12", "B16"]

    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *wanted, "--quick", "--json", str(tmp_path / "record.json")],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "quick: not a measurement" in done.stdout
    verdicts = {one["id"]: one for one in json.loads((tmp_path / "record.json").read_text())["results"]}
    assert {id_ for id_, one in verdicts.items() if one["verdict"] == "quick"} == {"B1", "B3", "B4", "B16"}
    assert "WMS2_WMCORE_PYTHON" in verdicts["B2"]["reason"]
    assert "PostgreSQL does not answer" in verdicts["B6"]["reason"]
    assert "CONDOR_CONFIG is not set" in verdicts["B12"]["reason"]
    assert list(tmp_path.iterdir()) == [tmp_path / "record.json"]
