"""State directories of single runs: which are kept and which are removed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab.disposable import KEPT_RUNS, YOUNG_SEC, discard, discard_old_runs
from lab.paths import Layout
from lab.state import take_lock


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setenv("WMS2_DISPOSABLE", "1")
    monkeypatch.chdir(tmp_path)
    made = Layout(home=tmp_path / "runs" / "test.now", app=tmp_path, venv=tmp_path)
    made.make()
    return made


def earlier_run(run: Layout, name: str, *, age_sec: float, now: float) -> Layout:
    made = Layout(home=run.home.parent / name, app=run.app, venv=run.venv)
    made.make()
    os.utime(made.home, (now - age_sec, now - age_sec))
    return made


def test_a_run_that_went_well_leaves_nothing(run: Layout) -> None:
    discard(run)

    assert not run.home.exists()


def test_a_permanent_stack_is_never_discarded(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WMS2_DISPOSABLE", "1")

    discard(layout)

    assert layout.home.exists()


def test_only_old_runs_beyond_the_kept_ones_go(run: Layout) -> None:
    now = 1_000_000_000.0
    young = earlier_run(run, "young", age_sec=10, now=now)
    old = [earlier_run(run, f"old{n}", age_sec=YOUNG_SEC + n, now=now) for n in range(1, KEPT_RUNS + 3)]

    discard_old_runs(run, now=now)

    assert young.home.exists()
    assert run.home.exists()
    assert [layout.home.exists() for layout in old] == [True] * (KEPT_RUNS - 1) + [False] * 3


def test_a_run_that_still_has_its_supervisor_stays(run: Layout) -> None:
    now = 1_000_000_000.0
    runs = [earlier_run(run, f"old{n}", age_sec=YOUNG_SEC + n, now=now) for n in range(1, KEPT_RUNS + 3)]
    lock = take_lock(runs[-1])
    os.utime(runs[-1].home, (0, 0))

    discard_old_runs(run, now=now)

    assert runs[-1].home.exists()
    assert lock is not None
    os.close(lock)
