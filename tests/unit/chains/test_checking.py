"""If the process that checks a document is killed, hangs or runs out of memory, the document is refused."""

from __future__ import annotations

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


@pytest.mark.parametrize(
    ("child", "patience_sec", "words"),
    [
        (KILLED, 600.0, "too much CPU time or memory"),
        (HUNGRY, 600.0, "too much CPU time or memory"),
        (HANGING, 0.2, "takes more than 0.2 s"),
        (BROKEN, 600.0, "the check failed: no such module"),
    ],
)
def test_document_is_refused_when_its_check_fails(
    child: str, patience_sec: float, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "check_stub.py").write_text(child)
    monkeypatch.setattr(checking, "CODE", f"{tmp_path}:{checking.CODE}")
    monkeypatch.setattr(checking, "CHILD", "check_stub")
    monkeypatch.setattr(checking, "PATIENCE_SEC", patience_sec)

    reading = checking.check_document("cwlVersion: v1.2")

    assert reading.workflow is None
    assert [words in one.message for one in reading.problems] == [True]


def test_check_is_refused_while_the_limit_of_checks_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    places = BoundedSemaphore(1)
    monkeypatch.setattr(checking, "_PLACES", places)
    with places, pytest.raises(TransientError, match="other documents are being checked"):
        checking.check_document("cwlVersion: v1.2")

    assert checking.check_document("cwlVersion: v1.2").problems
