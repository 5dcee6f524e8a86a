"""Checks of documents that fail, are killed, need too much memory or do not end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import BoundedSemaphore

import pytest

from chains_app.cwl import checking
from wms2_project.errors import TransientError

KILLED = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
HUNGRY = """
from chains_app.cwl import check_child
check_child.check_text = lambda text, *, wiring_only: bytearray(2 * check_child.MEMORY_BYTES)
check_child.main()
"""
HANGING = "import time; time.sleep(3600)"
BROKEN = "raise SystemExit('no such module')"


Child = Callable[[str], None]


@pytest.fixture
def check_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Child:
    """A function that has documents checked by this program."""

    def use(program: str) -> None:
        (tmp_path / "check_stub.py").write_text(program)
        monkeypatch.setattr(checking, "CODE", f"{tmp_path}:{checking.CODE}")
        monkeypatch.setattr(checking, "CHILD", "check_stub")

    return use


@pytest.mark.parametrize(
    ("child", "words"),
    [
        (KILLED, "too much CPU time or memory"),
        (HUNGRY, "too much CPU time or memory"),
        (BROKEN, "the check failed: no such module"),
    ],
)
def test_document_is_refused_when_its_check_fails(child: str, words: str, check_by: Child) -> None:
    check_by(child)

    reading = checking.check_document("cwlVersion: v1.2")

    assert reading.workflow is None
    assert [words in one.message for one in reading.problems] == [True]


def test_check_that_does_not_end_refuses_no_document(
    check_by: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_by(HANGING)
    monkeypatch.setattr(checking, "PATIENCE_SEC", 0.2)

    with pytest.raises(TransientError, match="has not ended"):
        checking.check_document("cwlVersion: v1.2")


def test_check_is_refused_while_the_limit_of_checks_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    places = BoundedSemaphore(1)
    monkeypatch.setattr(checking, "_PLACES", places)
    with places, pytest.raises(TransientError, match="other documents are being checked"):
        checking.check_document("cwlVersion: v1.2")

    assert checking.check_document("cwlVersion: v1.2").problems
