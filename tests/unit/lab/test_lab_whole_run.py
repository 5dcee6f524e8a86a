"""The whole test run: every tier runs, one summary is printed, and the source tree is unchanged."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from lab import testrun
from lab.errors import LabError
from lab.lanes import Lane
from lab.paths import Layout
from lab.processes import wipe
from lab.results import FAILED, PASSED, Result, read_results, render_summary, unexplained
from lab.tree import changes, snapshot

UseStack = Callable[[Callable[..., object]], None]
ROOT = Path(__file__).resolve().parents[3]
UNIT = """
import pytest
def test_good(): pass
def test_bad(): assert 1 == 2
@pytest.fixture
def broken(): raise OSError("no such place")
def test_unlucky(broken): pass
@pytest.mark.skip(reason="not here")
def test_left_out(): pass
"""
KILLED = """
import os, signal
def test_before(): pass
def test_killed(): os.kill(os.getpid(), signal.SIGKILL)
def test_never_reached(): pass
"""
LITTERS = """
from pathlib import Path
def test_litters():
    Path("left.json").write_text("{}")
    Path("__pycache__").mkdir(exist_ok=True)
"""


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Layout]:
    """Yield a checkout with three tiers of small tests; the product is the real one."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # pytest without any starts in no time
    monkeypatch.setattr(testrun, "PARALLEL", ())
    app = tmp_path / "app"
    for tier, text in (("unit", UNIT), ("integration", KILLED), ("e2e", LITTERS)):
        (app / "tests" / tier).mkdir(parents=True)
        (app / "tests" / tier / f"test_{tier}.py").write_text(text)
    (app / ".gitignore").write_text("__pycache__/\n")
    (app / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
    for package in [path.parent for path in ROOT.glob("*/__init__.py") if path.parent.name != "tests"]:
        (app / package.name).symlink_to(package)
    made = Layout(home=tmp_path / "home", app=app, venv=Path(sys.prefix))
    made.make()
    yield made
    wipe(made)


@pytest.fixture
def little_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testrun, "lanes", lambda root: [Lane("database", ("tests/integration",))])
    monkeypatch.setattr(testrun, "DISTURBING", ("tests/e2e",))


def no_stack(layout: Layout, **_given: object) -> object:
    layout.make()

    @contextmanager
    def running() -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(environment=testrun.unit_environment(layout), relay=SimpleNamespace())

    return running()


@pytest.fixture
def use_stack(monkeypatch: pytest.MonkeyPatch) -> UseStack:
    """Return a function that replaces the start of a stack."""
    return lambda start: monkeypatch.setattr(testrun, "running_stack", start)


@pytest.mark.usefixtures("little_lanes")
def test_every_tier_runs_and_the_end_names_every_failure(
    layout: Layout, use_stack: UseStack, capfd: pytest.CaptureFixture[str]
) -> None:
    use_stack(no_stack)

    assert testrun.run_tests(layout, []) == 1

    summary = capfd.readouterr().out.partition("slowest tests")[2].splitlines()
    named = [line.strip() for line in summary[summary.index("failures") + 1 : summary.index("", -5)]]
    assert named == [
        "tests/unit/test_unit.py::test_bad: assert 1 == 2",
        "tests/unit/test_unit.py::test_unlucky: setup: OSError: no such place",
        "tests/integration/test_integration.py::test_killed: did not end: pytest was stopped or killed",
        f"left.json: {testrun.LEFT}",
    ]
    assert summary[-1] == "3 passed, 4 failed, 1 skipped"


@pytest.mark.usefixtures("little_lanes")
def test_without_a_stack_the_unit_tests_are_still_reported(
    layout: Layout, use_stack: UseStack, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(layout: Layout, **_given: object) -> object:
        raise LabError("no room for a stack")

    use_stack(refuse)

    with pytest.raises(LabError, match="no room"):
        testrun.run_tests(layout, [])

    assert capfd.readouterr().out.splitlines()[-1] == "1 passed, 2 failed, 1 skipped"


@pytest.mark.usefixtures("little_lanes")
def test_servers_from_outside_are_disturbed_last(
    layout: Layout, use_stack: UseStack, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    started: list[Path] = []

    def stack(layout: Layout, **given: object) -> object:
        started.append(layout.home)
        return no_stack(layout)

    use_stack(stack)
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.delenv("REDIS_URL", raising=False)
    monkeypatch.delenv("CONDOR_CONFIG", raising=False)
    testrun.run_tests(layout, [])
    assert started == [layout.home, layout.home / "second"]

    monkeypatch.setenv("CONDOR_CONFIG", "/other/config")
    testrun.run_tests(layout, [])
    assert started[2:] == [layout.home]
    assert capfd.readouterr().out.splitlines()[-1] == "3 passed, 4 failed, 1 skipped"


def test_a_tier_that_litters_fails(layout: Layout, capfd: pytest.CaptureFixture[str]) -> None:
    (layout.app / "tests" / "unit" / "test_unit.py").write_text(LITTERS)

    assert testrun.run_tests(layout, ["--tier", "unit"]) == 1
    assert f"error: left.json: {testrun.LEFT}" in capfd.readouterr().err


def test_a_pytest_that_failed_without_a_failed_test_is_named() -> None:
    passed = [Result("test_x", PASSED)]

    assert unexplained("pool", 0, passed) == []
    assert unexplained("pool", 5, []) == []
    assert [one.test for one in unexplained("pool", 4, passed)] == ["pool"]
    assert unexplained("pool", 1, [Result("test_x", FAILED)]) == []


def test_a_line_that_is_being_written_is_left_for_later(tmp_path: Path) -> None:
    path = tmp_path / "results"
    path.write_text('["test_x", "passed", 1.5, ""]\n["test_y", "pas')

    assert read_results(path, ended=False) == [Result("test_x", PASSED, 1.5)]
    assert read_results(tmp_path / "none") == []


def test_the_summary_shows_the_slowest_first() -> None:
    results = [Result(f"test_{number}", PASSED, float(number)) for number in range(20)]

    lines = render_summary(results, seconds=61.4).splitlines()

    assert lines[:2] == ["the 10 slowest tests", "    19.0 s  test_19"]
    assert lines[-2:] == ["the tests took 1 min 01 s", "20 passed, 0 failed, 0 skipped"]
    assert len(lines) == 14


def test_new_changed_and_removed_files_are_found_and_ignored_files_are_not(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("# caches\n__pycache__/\n*.pyc\n")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for name in ("kept", "gone", "deep/er/changed"):
        (tmp_path / name).write_text("before")
    before = snapshot(tmp_path)

    (tmp_path / "gone").unlink()
    (tmp_path / "deep" / "er" / "changed").write_text("afterwards")
    (tmp_path / "new").touch()
    (tmp_path / "x.pyc").touch()
    (tmp_path / "deep" / "__pycache__").mkdir()
    (tmp_path / "deep" / "__pycache__" / "y").touch()

    assert changes(before, snapshot(tmp_path)) == ["deep/er/changed", "gone", "new"]
