"""A failpoint kills at the named pass, in the lab only."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

PASS_FOUR_TIMES = (
    "from wms2_project.failpoints import failpoint\n"
    "for n in range(4):\n    print(n, flush=True)\n    failpoint('here')\n    failpoint('there')\n"
)


@pytest.mark.parametrize(
    ("lab", "wanted", "passes", "killed"),
    [
        ("1", "here", "0", True),
        ("1", "here:3", "012", True),
        ("1", "elsewhere", "0123", False),
        ("1", "", "0123", False),
        ("0", "here", "0123", False),
    ],
)
def test_failpoints_work_in_the_lab_only(lab: str, wanted: str, passes: str, killed: bool) -> None:
    env = os.environ | {"WMS2_LAB": lab, "WMS2_FAILPOINT": wanted}
    done = subprocess.run(
        [sys.executable, "-c", PASS_FOUR_TIMES],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == list(passes)
    assert done.returncode == (-signal.SIGKILL if killed else 0)
