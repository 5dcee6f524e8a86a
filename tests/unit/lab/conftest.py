"""State directories for tests of the lab, and processes that are ended afterwards."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.paths import Layout
from lab.processes import wipe

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[Layout]:
    made = Layout(home=tmp_path / "home", app=ROOT, venv=Path(sys.prefix))
    made.make()
    yield made
    wipe(made)
