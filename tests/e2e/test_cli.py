"""The command line client against the running stack: piped, on a terminal, and to the end of a request."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

from tests.e2e.conftest import Stack

CLIENT = Path(__file__).resolve().parents[2] / "cli"
COMMAND = [sys.executable, "-P", "-m", "wms2_cli"]


def environment(stack: Stack) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(CLIENT), "WMS2_URL": stack.url, "TERM": "xterm", "COLUMNS": "160"}


def wms2(stack: Stack, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words],
        env=environment(stack),
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=1500,
    )


def on_terminal(stack: Stack, *words: str) -> tuple[int, str]:
    """Run the client with a terminal as its output; return its exit code and what it wrote."""
    ours, its = pty.openpty()
    process = subprocess.Popen([*COMMAND, *words], env=environment(stack), stdin=its, stdout=its, stderr=its)
    os.close(its)
    written = b""
    try:
        while chunk := os.read(ours, 65536):
            written += chunk
    except OSError:  # the other end was closed
        pass
    os.close(ours)
    return process.wait(timeout=60), written.decode(errors="replace")


def test_a_request_is_submitted_watched_and_explained(stack: Stack, suffix: str) -> None:
    document = next(one for one in stack.seed(suffix) if not one.get("InputDataset"))
    submitted = wms2(stack, "submit", "-", text=json.dumps(document))
    assert submitted.returncode == 0, submitted.stderr
    name = submitted.stdout.strip()

    watched = wms2(stack, "watch", name, "--interval", "1")
    assert watched.returncode == 0, watched.stderr
    last = watched.stdout.splitlines()[-1].split("\t")
    assert last[1:4] == [name, "completed", "100.0 %"]
    assert " events · " in last[4]

    assert f"{name}\tcompleted\t" in wms2(stack, "list", "--name", name).stdout
    assert json.loads(wms2(stack, "--json", "show", name).stdout)["request_name"] == name
    assert "completed" in wms2(stack, "timeline", name).stdout
    refused = wms2(stack, "stop", name, "-m", "a test")
    assert refused.returncode == 1
    assert "completed" in refused.stderr

    code, screen = on_terminal(stack, "list", "--name", name)
    assert code == 0
    assert "Waits for" in screen
    assert "\t" not in screen
    code, screen = on_terminal(stack, "watch", name)
    assert code == 0
    assert "100.0 %" in screen


def test_sites_schedds_and_the_queue_are_listed(stack: Stack) -> None:
    assert "T2_CH_CERN\tenabled" in wms2(stack, "site", "list").stdout
    assert "\tenabled\t" in wms2(stack, "schedd", "list").stdout
    assert wms2(stack, "admission", "list").stdout.startswith("position\trequest_name")
    assert "admin" in wms2(stack, "whoami").stdout
