"""Marks: leftover processes are found exactly, with any parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.paths import Layout
from lab.processes import clear_leftovers, mark, members, spawn, started_at, wipe, working_directory

PATIENCE_SEC = 60.0


def sleeper(layout: Layout, part: str, script: str = "sleep 1000") -> subprocess.Popen[bytes]:
    env = {"PATH": os.environ["PATH"], **mark(layout, part)}
    return subprocess.Popen(["/bin/bash", "-c", f"{script}; :"], env=env)


def settle(layout: Layout, count: int) -> list[int]:
    """Wait until a new child has executed its program, and so has its mark."""
    end = time.monotonic() + PATIENCE_SEC
    while len(found := members(layout)) != count:
        assert time.monotonic() < end, found
        time.sleep(0.01)
    return found


def test_members_are_found_by_mark_and_service(layout: Layout) -> None:
    web, beat = sleeper(layout, "web"), sleeper(layout, "beat")
    settle(layout, 4)

    assert web.pid in members(layout, "web")
    assert beat.pid not in members(layout, "web")
    assert {web.pid, beat.pid} <= set(members(layout))
    wipe(layout)


def test_a_service_whose_name_begins_like_another_is_not_taken_for_it(layout: Layout) -> None:
    longer = sleeper(layout, "web-2")
    settle(layout, 2)

    assert longer.pid not in members(layout, "web")
    wipe(layout)


def test_a_stack_below_the_directory_of_another_one_is_not_changed(layout: Layout) -> None:
    inner = Layout(home=layout.home / "runs", app=layout.app, venv=layout.venv)
    other = sleeper(inner, "web")
    settle(inner, 2)

    wipe(layout)

    assert other.poll() is None
    wipe(inner)
    assert other.wait(PATIENCE_SEC) == -signal.SIGKILL


def test_jobs_are_members_by_the_job_ad_in_their_environment(layout: Layout) -> None:
    ad = f"{layout.data}/condor/execute/dir_1/.job.ad"
    job = subprocess.Popen(["sleep", "1000"], env={"_CONDOR_JOB_AD": ad})
    settle(layout, 1)

    assert members(layout, "condor") == [job.pid]
    assert members(layout, "web") == []
    wipe(layout)
    assert job.wait(PATIENCE_SEC) == -signal.SIGKILL


def test_leftovers_that_end_by_themselves_are_not_killed(layout: Layout, tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    leftover = sleeper(layout, "web", f"sleep 0.5; echo done > {witness}")

    clear_leftovers(layout, patience_sec=PATIENCE_SEC)
    assert leftover.wait(PATIENCE_SEC) == 0
    assert witness.read_text() == "done\n"


def test_start_time_distinguishes_a_process_from_its_successor_and_a_zombie_has_ended() -> None:
    child = subprocess.Popen(["true"])
    while Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)

    assert started_at(child.pid) is None
    child.wait()
    assert started_at(child.pid) is None
    assert started_at(os.getpid()) == started_at(os.getpid())


def test_a_spawned_process_writes_to_its_log_from_its_own_session(layout: Layout) -> None:
    log = layout.log / "x.log"
    child = spawn(
        ["bash", "-c", "cut -d ' ' -f 6 /proc/$$/stat"],
        env=os.environ,
        cwd=layout.home,
        output=log,
        die_with_us=None,
    )

    assert child.wait(PATIENCE_SEC) == 0
    assert int(log.read_text()) == child.pid


def test_working_directory_of_an_ended_process_is_unknown() -> None:
    child = subprocess.Popen(["true"])
    child.wait()

    assert working_directory(child.pid) is None
    assert working_directory(os.getpid()) == os.getcwd()


# Signals as a shell sets them for background jobs, and Python for its children.
SPOILED = """
import os, signal, sys
for name in ("SIGINT", "SIGQUIT", "SIGUSR1"):
    signal.signal(signal.Signals[name], signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
os.execv(sys.argv[1], sys.argv[1:])
"""
PYTHONS_OWN = {signal.SIGPIPE, signal.SIGXFSZ}


def signals(status: str, field: str) -> set[int]:
    """Return the signals in a mask of /proc/PID/status."""
    mask = int(next(line.split()[1] for line in status.splitlines() if line.startswith(f"{field}:")), 16)
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


def test_processes_of_the_lab_have_default_signals_even_if_the_caller_ignored_them(
    layout: Layout, tmp_path: Path
) -> None:
    tail = tmp_path / "bin" / "tail"
    tail.parent.mkdir()
    tail.write_text("#!/bin/sh\nexec cat /proc/self/status\n")
    tail.chmod(0o755)
    (layout.log / "web.log").touch()
    env = {
        "PATH": f"{tail.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(layout.app),
        "WMS2_HOME": str(layout.home),
        "WMS2_APP": str(layout.app),
    }

    lab = [sys.executable, "-c", SPOILED, sys.executable, "-P", "-m", "lab", "logs", "web"]
    status = subprocess.run(lab, env=env, capture_output=True, text=True, check=True).stdout

    assert signals(status, "SigIgn") <= PYTHONS_OWN  # inherited by tail
    assert signals(status, "SigBlk") == set()


def test_a_test_runs_with_default_signals() -> None:
    status = Path("/proc/self/status").read_text()

    assert signals(status, "SigIgn") <= PYTHONS_OWN
    assert signals(status, "SigBlk") == set()


def test_tests_have_default_signals_even_if_the_caller_ignored_them(layout: Layout, tmp_path: Path) -> None:
    this = f"{Path(__file__).relative_to(layout.app)}::{test_a_test_runs_with_default_signals.__name__}"
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
    pytest_ = [sys.executable, "-m", "pytest", "-q", "-c", tmp_path / "pytest.ini", "--rootdir", ".", this]

    done = subprocess.run(
        [sys.executable, "-c", SPOILED, *pytest_],
        cwd=layout.app,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )

    assert done.returncode == pytest.ExitCode.OK, done.stdout
