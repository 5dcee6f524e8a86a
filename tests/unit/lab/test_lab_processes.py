"""Marks: leftovers are found exactly, whoever their parent is."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from lab.paths import Layout
from lab.processes import clear_leftovers, mark, members, spawn, started_at, wipe, working_directory


def sleeper(layout: Layout, part: str, script: str = "sleep 1000") -> subprocess.Popen[bytes]:
    env = {"PATH": os.environ["PATH"], **mark(layout, part)}
    return subprocess.Popen(["/bin/bash", "-c", f"{script}; :"], env=env)


def settle(layout: Layout, count: int) -> list[int]:
    """A fresh child shows its mark only once it has become another program."""
    for _ in range(200):
        if len(found := members(layout)) == count:
            return found
        time.sleep(0.01)
    return members(layout)


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


def test_a_stack_below_another_ones_directory_is_left_alone(layout: Layout) -> None:
    inner = Layout(home=layout.home / "runs", app=layout.app, venv=layout.venv)
    other = sleeper(inner, "web")
    settle(inner, 2)

    wipe(layout)

    assert other.poll() is None
    wipe(inner)
    assert other.wait(5) == -signal.SIGKILL


def test_jobs_are_members_by_the_job_ad_in_their_environment(layout: Layout) -> None:
    ad = f"{layout.data}/condor/execute/dir_1/.job.ad"
    job = subprocess.Popen(["sleep", "1000"], env={"_CONDOR_JOB_AD": ad})
    settle(layout, 1)

    assert members(layout, "condor") == [job.pid]
    assert members(layout, "web") == []
    wipe(layout)
    assert job.wait(5) == -signal.SIGKILL


def test_leftovers_that_end_by_themselves_are_not_killed(layout: Layout, tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    leftover = sleeper(layout, "web", f"sleep 2; echo done > {witness}")
    settle(layout, 2)

    assert clear_leftovers(layout) > 0
    assert leftover.wait(10) == 0
    assert witness.read_text() == "done\n"


def test_start_time_tells_a_process_from_its_successor_and_a_zombie_is_gone() -> None:
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
        ["bash", "-c", "ps -o sid= $$"], env=os.environ, cwd=layout.home, output=log, die_with_us=None
    )

    assert child.wait(5) == 0
    assert int(log.read_text()) == child.pid


def test_working_directory_of_a_process_that_is_gone_is_unknown() -> None:
    child = subprocess.Popen(["true"])
    child.wait()

    assert working_directory(child.pid) is None
    assert working_directory(os.getpid()) == os.getcwd()
