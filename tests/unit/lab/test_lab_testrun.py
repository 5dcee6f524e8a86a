"""Which tests run, and with what."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.lanes import DISTURBING, Lane, lanes
from lab.paths import Layout
from lab.processes import members
from lab.testrun import Command, plan_tests, run_alone, run_command, run_commands

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for tier in ("unit", "e2e", "integration", "browser", "empty"):
        (tmp_path / "tests" / tier).mkdir(parents=True)
        if tier != "empty":
            (tmp_path / "tests" / tier / "test_x.py").write_text("")
    return tmp_path


def test_everything_runs_unit_tests_first_and_what_has_no_tests_not_at_all(root: Path) -> None:
    plan = plan_tests(["-x"], root=root)

    assert plan.paths == ("tests/unit", "tests/integration", "tests/e2e", "tests/browser")
    assert plan.arguments == ("-x",)
    assert plan.services
    assert plan.whole


@pytest.mark.parametrize("arguments", [["--tier", "unit", "-k", "ports"], ["--tier=unit", "-k", "ports"]])
def test_the_unit_tier_needs_no_services(root: Path, arguments: list[str]) -> None:
    plan = plan_tests(arguments, root=root)

    assert plan.paths == ("tests/unit",)
    assert plan.arguments == ("-k", "ports")
    assert not plan.services


def test_other_tiers_need_services(root: Path) -> None:
    assert plan_tests(["--tier", "e2e"], root=root).services


def test_paths_given_replace_the_tier_s_own(root: Path) -> None:
    plan = plan_tests(["--tier", "unit", "tests/unit/test_x.py::test_one"], root=root)

    assert plan.paths == ()
    assert plan.arguments == ("tests/unit/test_x.py::test_one",)


def test_an_unknown_tier_is_refused_with_the_choice(root: Path) -> None:
    with pytest.raises(LabError, match="unit, integration, e2e, browser") as refused:
        plan_tests(["--tier", "unti"], root=root)

    assert refused.value.exit_code == 2


def test_every_test_that_needs_services_is_in_one_lane_or_disturbs_them_all() -> None:
    def runs(paths: tuple[str, ...], file: str) -> bool:
        return any(file == path or file.startswith(f"{path}/") for path in paths)

    def has(lane: Lane, file: str) -> bool:
        return runs(lane.paths, file) and not runs(lane.left_out, file)

    files = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")]
    for file in files:
        found = [lane.name for lane in lanes(ROOT) if has(lane, file)] + ["last"] * (file in DISTURBING)
        assert len(found) == (0 if file.startswith("tests/unit/") else 1), (file, found)
    assert set(DISTURBING) <= set(files)


def test_commands_run_side_by_side_and_the_silent_ones_are_shown_in_the_end(
    layout: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = Command(["bash", "-c", f"cat {fifo}; exit 3"], os.environ, log=tmp_path / "log")
    writer = Command(["bash", "-c", f"echo met > {fifo}"], os.environ)
    assert run_commands(layout, [reader, writer]) == [3, 0]
    assert "met" in capsys.readouterr().out


def test_the_exit_code_is_the_command_s(layout: Layout) -> None:
    assert run_command(layout, ["bash", "-c", "exit 7"], os.environ) == 7
    assert run_command(layout, ["bash", "-c", "kill -9 $$"], os.environ) == 128 + signal.SIGKILL


def test_nothing_a_command_started_survives_it(layout: Layout) -> None:
    run_command(layout, ["bash", "-c", "sleep 1000 & disown"], os.environ)

    assert members(layout) == []


def test_unit_tests_get_settings_that_lead_nowhere(layout: Layout) -> None:
    script = (
        "import os, sys; from urllib.parse import urlsplit;"
        "urls = [os.environ[name] for name in ('DATABASE_URL', 'REDIS_URL', 'WMS2_DBS_URL', 'WMS2_URL')];"
        "sys.exit(any(urlsplit(url).port != 1 for url in urls))"
    )

    assert run_alone(layout, [sys.executable, "-c", script]) == 0


def test_the_plugin_puts_cheap_tests_first_and_keeps_their_order(root: Path) -> None:
    for tier in ("e2e", "unit"):
        (root / "tests" / tier / "test_x.py").write_text("def test_b(): pass\ndef test_a(): pass\n")
    argv = [sys.executable, "-m", "pytest", "-p", "lab.tiers", "-p", "no:django", "--collect-only", "-q"]

    done = subprocess.run(
        [*argv, "--import-mode=importlib", "--rootdir", ".", "tests/e2e", "tests/unit"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )

    assert done.stdout.splitlines()[:4] == [
        "tests/unit/test_x.py::test_b",
        "tests/unit/test_x.py::test_a",
        "tests/e2e/test_x.py::test_b",
        "tests/e2e/test_x.py::test_a",
    ]
