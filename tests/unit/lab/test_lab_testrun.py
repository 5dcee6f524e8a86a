"""Selection of tests, and their settings."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest

from benchmarks.places import REDIS_NUMBER
from lab.errors import LabError
from lab.lanes import DISTURBING, Lane, lanes
from lab.paths import Layout
from lab.processes import clear_leftovers, members
from lab.running import Command, Commands, run_command
from lab.services.redis import DATABASES
from lab.testrun import plan_tests, run_alone
from lab.tiers import WITHOUT_SERVICES

ROOT = Path(__file__).resolve().parents[3]
SEED = "--random-order="


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for tier in ("unit", "e2e", "integration", "browser", "empty"):
        (tmp_path / "tests" / tier).mkdir(parents=True)
        if tier != "empty":
            (tmp_path / "tests" / tier / "test_x.py").write_text("")
    return tmp_path


def test_everything_runs_unit_tests_first_and_omits_lanes_without_tests(root: Path) -> None:
    plan = plan_tests(["-x"], root=root)

    assert plan.paths == ("tests/unit", "tests/integration", "tests/browser", "tests/e2e")
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
    with pytest.raises(LabError, match="unit, integration, browser, e2e") as refused:
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
        assert len(found) == (0 if file.split("/")[1] in WITHOUT_SERVICES else 1), (file, found)
    assert set(DISTURBING) <= set(files)


def test_no_two_lanes_share_a_redis_database_and_benchmarks_have_theirs() -> None:
    numbers = [lane.redis for lane in lanes(ROOT) if lane.redis is not None]
    assert len({0, REDIS_NUMBER, *numbers}) == len(numbers) + 2
    assert max(REDIS_NUMBER, *numbers) < DATABASES


def test_commands_run_side_by_side_and_are_shown_in_the_end(
    layout: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with Commands(layout) as commands:
        reader = commands.start(Command("reader", ["bash", "-c", f"cat {fifo}; exit 3"], os.environ))
        writer = commands.start(Command("writer", ["bash", "-c", f"echo met > {fifo}"], os.environ))
        commands.wait()
    assert (reader.code, writer.code) == (3, 0)
    assert "reader\nmet" in capsys.readouterr().out


def test_the_exit_code_is_the_command_s(layout: Layout) -> None:
    assert run_command(layout, ["bash", "-c", "exit 7"], os.environ) == 7
    assert run_command(layout, ["bash", "-c", "kill -9 $$"], os.environ) == 128 + signal.SIGKILL


def test_nothing_a_command_started_survives_it(layout: Layout) -> None:
    run_command(layout, ["bash", "-c", "sleep 1000 & disown"], os.environ)

    assert members(Commands(layout).place) == []


def test_a_stack_that_clears_its_leftovers_kills_no_test_process(layout: Layout) -> None:
    with Commands(layout) as commands:
        waiting = commands.start(Command("unit", ["sleep", "1000"], os.environ))
        clear_leftovers(layout, patience_sec=0)

        assert waiting.process.poll() is None


def test_unit_tests_get_settings_that_lead_nowhere(layout: Layout) -> None:
    script = (
        "import os, sys; from urllib.parse import urlsplit;"
        "urls = [os.environ[name] for name in ('DATABASE_URL', 'REDIS_URL', 'WMS2_DBS_URL', 'WMS2_URL')];"
        "sys.exit(any(urlsplit(url).port != 1 for url in urls))"
    )

    assert run_alone(layout, [sys.executable, "-c", script]) == 0


@pytest.fixture
def collect(root: Path) -> Callable[..., list[str]]:
    """Collect two tiers of three tests each, with the plugin, and return the test ids in their order."""
    for tier in ("e2e", "unit"):
        for name in ("test_x.py", "test_y.py"):
            (root / "tests" / tier / name).write_text(
                "def test_b(): pass\ndef test_a(): pass\ndef test_c(): pass\n"
            )
    argv = [sys.executable, "-m", "pytest", "-p", "lab.tiers", "--collect-only", "-q"]

    def ids(*arguments: str) -> list[str]:
        done = subprocess.run(
            [*argv, "--import-mode=importlib", "--rootdir", ".", *arguments, "tests/e2e", "tests/unit"],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
        )
        return [line for line in done.stdout.splitlines() if "::" in line]

    return ids


def test_the_plugin_puts_cheap_tests_first_and_keeps_their_order(collect: Callable[..., list[str]]) -> None:
    files = ["tests/unit/test_x.py", "tests/unit/test_y.py", "tests/e2e/test_x.py", "tests/e2e/test_y.py"]

    assert collect() == [f"{file}::test_{name}" for file in files for name in "bac"]


def test_a_seed_shuffles_within_tiers_and_modules_and_can_be_repeated(
    collect: Callable[..., list[str]],
) -> None:
    plain, one, again, other = (collect(*chosen) for chosen in ([], [SEED + "1"], [SEED + "1"], [SEED + "2"]))

    assert one == again
    assert len({tuple(plain), tuple(one), tuple(other)}) == 3
    assert sorted(one) == sorted(plain)
    modules = [test.partition("::")[0] for test in one]
    assert [name for name, _ in groupby(modules)] == list(dict.fromkeys(modules))
    assert all("unit" in module for module in modules[:6])


def test_a_random_order_without_a_seed_has_one_for_all_lanes(root: Path) -> None:
    plan = plan_tests(["--random-order", "-x"], root=root)

    assert re.fullmatch(SEED + r"\d+", plan.arguments[0])
    assert plan.arguments[1:] == ("-x",)
