"""The payload is untrusted code: it leaves no process, no report and no file of its choice behind."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.job_world import NODE, World

PATIENCE_SEC = 120
MAX_STREAM_BYTES = 4 * 1024 * 1024
AS_ROOT = ["unshare", "--user", "--map-root-user"]
REFUSED = [*AS_ROOT, "sh", "-c", 'echo 0 >/proc/sys/user/max_pid_namespaces && exec "$@"', "sh"]
MODES = ("namespace", "subreaper", "namespace as root", "subreaper as root")
# Part of every program: `task` and `scratch`, and the output the plan asks for.
HEAD = """
import fcntl, json, os, signal, sys, time
task = json.load(open(os.environ["WMS2_JOB"]))
scratch = os.path.dirname(os.path.dirname(os.environ["WMS2_JOB"]))
back = scratch + "/back"
out = task["outputs"][0]["path"]

def work():
    (one,) = task["inputs"]
    with open(one["path"]) as source, open(out, "w") as target:
        target.write(source.read())

def hold(lock):
    "Every process holds a share of this lock: the test gets it exclusively only when none is left."
    global kept
    kept = open(lock)
    fcntl.flock(kept, fcntl.LOCK_SH)

def detach(lock, action):
    "Start a daemon as daemons start: fork, setsid, fork, and no open file of its parents."
    ready, tell = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (0, 1, 2):
                os.close(number)
            open("/proc/self/comm", "w").write("a) b (c 1 1 1")
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            hold(lock)
            os.write(tell, b".")
            action()
        os._exit(0)
    os.wait()
    os.read(ready, 1)
"""
FORGE = """
def forge():
    report = {"schema": 1, "node": task["node"], "group": "mg_000000", "role": "processing", "error": "",
        "site": "T2_CH_CERN", "attempt": 0, "exit_code": 0, "started_at": 1, "wall_time_sec": 1,
        "cpu_time_sec": 1, "peak_rss_mb": 1, "events_read": 10**9, "events_written": 10**9, "inputs": [],
        "outputs": [], "pilot": None}
    while os.path.exists(LOCK):
        for name in (task["node"] + ".report.json", "merge_output.json.part"):
            try:
                with open(back + "/" + name, "w") as handle:
                    json.dump(report, handle)
            except OSError:
                pass
"""
STORM = """
def storm():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        if os.fork():
            os._exit(0)
        hold(LOCK)
"""
WAITS = """
detach(LOCK, forge)
open(LOCK + ".on", "w")
while os.path.exists(LOCK):
    time.sleep(0.1)
"""


# In place of a tool of the job: leaves a process behind and kills its parent.
DAEMON = (
    "import fcntl, os, time\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    kept = open(LOCK)\n"
    "    fcntl.flock(kept, fcntl.LOCK_SH)\n"
    "    time.sleep(3600)\n"
    "os.kill(os.getppid(), 9)\n"
)


@dataclass
class Host:
    """Runs a job as HTCondor does: in a separate process, with output in its scratch directory."""

    world: World
    mode: str
    lock: Path
    before: list[str]  # in front of the job's command

    def plan(self, program: str, **payload: Any) -> Path:
        text = f"{HEAD}\nLOCK = {str(self.lock)!r}\nDAEMON = {DAEMON!r}\n{FORGE}{STORM}\n{program}"
        self.world.payload = {"command": [sys.executable, "-S", "-c", text], **payload}
        self.world.add_job(NODE, [self.world.add_file("a", 10)])
        self.world.plan()
        return self.world.scratch(NODE)

    def start(self, place: Path) -> subprocess.Popen[bytes]:
        env = self.world.environment()
        if "subreaper" in self.mode:
            env["WMS2_PAYLOAD_NAMESPACE"] = "0"
        with open(place / "_condor_stdout", "wb") as out, open(place / "_condor_stderr", "wb") as err:
            command = [*self.before, *self.world.command(NODE)]
            return subprocess.Popen(command, cwd=place, env=env, stdout=out, stderr=err)

    def run(self, program: str, **payload: Any) -> dict[str, Any]:
        """Run the program as the payload of a job; return the job's report."""
        place = self.plan(program, **payload)
        job = self.start(place)
        try:
            job.wait(timeout=PATIENCE_SEC)
        finally:
            job.kill()
        assert self.no_process_is_left()
        return self.report(place)

    def report(self, place: Path) -> dict[str, Any]:
        """Return the report; what goes back is the wrapper's two files and nothing else."""
        kinds = {path.name: stat.S_IFMT(path.lstat().st_mode) for path in (place / "back").iterdir()}
        assert stat.S_ISDIR((place / "back").lstat().st_mode)
        assert kinds == {f"{NODE}.report.json": stat.S_IFREG, f"{NODE}.fjr.xml": stat.S_IFREG}
        loaded: dict[str, Any] = json.loads((place / "back" / f"{NODE}.report.json").read_text())
        assert loaded["events_read"] < 10**9
        return loaded

    def no_process_is_left(self) -> bool:
        with open(self.lock) as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True


@pytest.fixture(params=MODES)
def host(world: World, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Host]:
    before = AS_ROOT if "root" in request.param and os.getuid() else []
    before = REFUSED if request.param == "refused" else before
    if subprocess.run([*before, "ls", tmp_path], capture_output=True, check=False).returncode:
        pytest.skip("no user namespaces here, or none that may read this directory")
    lock = tmp_path / "lock"
    lock.touch()
    yield Host(world, request.param, lock, before)
    lock.unlink()  # what a failed test left running ends when the lock is gone


def test_a_daemon_does_not_outlive_its_job_and_writes_no_report(host: Host) -> None:
    report = host.run("detach(LOCK, forge)\nwork()")

    assert (report["exit_code"], report["events_written"]) == (0, 10)
    assert "left" in report["error"]


def test_fifty_forking_processes_do_not_outlive_their_job(host: Host) -> None:
    report = host.run("for _ in range(50): detach(LOCK, storm)\nwork()")

    assert (report["exit_code"], report["events_written"]) == (0, 10)


def test_a_payload_that_leaves_no_process_is_not_reported(host: Host) -> None:
    report = host.run("work()")

    assert (report["exit_code"], report["error"]) == (0, "")


def test_a_daemon_ends_when_its_job_is_out_of_time(host: Host) -> None:
    for seconds in (0.5, 5, 50):  # until it gets as far as its daemon before it is killed
        report = host.run(WAITS, max_wall_time_sec=seconds)
        assert report["exit_code"] == 50664
        if Path(f"{host.lock}.on").exists():
            return
    raise AssertionError("the payload was not started")


def test_a_daemon_ends_when_its_job_is_removed(host: Host) -> None:
    place = host.plan(WAITS)
    job = host.start(place)
    end = time.monotonic() + PATIENCE_SEC
    while not Path(f"{host.lock}.on").exists():
        assert job.poll() is None
        assert time.monotonic() < end, "the payload was not started"
        time.sleep(0.02)
    job.send_signal(signal.SIGTERM)

    assert job.wait(timeout=PATIENCE_SEC) == 143
    assert host.no_process_is_left()
    assert "SIGTERM" in host.report(place)["error"]


def test_a_payload_that_kills_its_parents_leaves_no_process(host: Host) -> None:
    report = host.run("detach(LOCK, forge)\nos.kill(os.getppid(), 9)\nwork()")

    # in a namespace the signal has no effect; without one it ends the process that reports its status
    assert report["exit_code"] == (0 if "namespace" in host.mode else 137)


@pytest.mark.parametrize("host", ["refused"], indirect=True)
def test_a_host_that_refuses_namespaces_leaves_no_process_either(host: Host) -> None:
    report = host.run("detach(LOCK, forge)\nwork()\nopen(LOCK, 'w').write(str(os.getpid()))")

    assert (report["exit_code"], report["events_written"]) == (0, 10)
    assert int(host.lock.read_text()) > 10


def test_a_tool_that_the_payload_has_changed_is_contained_like_the_payload(host: Host) -> None:
    """A ROOT file is inspected by code in the job's directory, after the payload has run."""
    report = host.run(
        "open(scratch + '/rootfiles/__main__.py', 'w').write(DAEMON.replace('LOCK', repr(LOCK)))\nwork()\n",
        merge={"tool": "root"},
    )

    assert report["exit_code"] != 0
    assert report["outputs"] == []


@pytest.mark.parametrize(
    "spoil",
    [
        "os.mkfifo(back + '/pipe')",
        "os.symlink('/etc', back + '/etc')",
        "os.symlink('/etc/passwd', back + '/' + task['node'] + '.report.json')",
        "os.mkfifo(back + '/' + task['node'] + '.report.json')",
        "os.mkdir(back + '/' + task['node'] + '.report.json')",
        "open(back + '/proc_000001.report.json', 'w').write('{}')",
        "os.mkdir(back + '/deep'); os.chmod(back + '/deep', 0); os.chmod(back, 0)",
        "os.rmdir(back); os.symlink('/tmp', back)",
        "os.rmdir(back); os.mkfifo(back)",
        "os.rmdir(back)",
        "os.chmod(scratch, 0o500)",
    ],
)
def test_files_that_a_payload_plants_are_not_sent_back(host: Host, spoil: str) -> None:
    report = host.run(f"work()\n{spoil}")

    assert (report["exit_code"], report["events_written"]) == (0, 10)


def test_code_and_plan_are_those_from_before_the_payload(host: Host) -> None:
    change = """
for package in ("sandbox", "lab"):
    for directory, _, names in os.walk(scratch + "/" + package):
        for name in names:
            os.unlink(directory + "/" + name)
            open(directory + "/" + name, "w").write("import os; os._exit(0)")
for name in ("traceback", "subprocess", "html", "statistics", "selectors", "signal"):
    open(scratch + "/" + name + ".py", "w").write("import os; os._exit(0)")
for name in ("jobs.json", "payload.json"):
    open(scratch + "/" + name, "w").write("{}")
work()
sys.exit(3)
"""
    report = host.run(change)

    assert (report["exit_code"], report["group"]) == (3, "mg_000000")


def test_a_wrapper_that_fails_opens_no_source_file_again(host: Host) -> None:
    host.world.pilot = {"initial_events": 4, "tolerance": 0, "time_budget_sec": 600, "target_job_sec": 60}
    report = host.run("""
work()
os.makedirs(scratch + "/work/job1.json/in the way of the second window")
for package in ("sandbox", "lab"):
    for directory, _, names in os.walk(scratch + "/" + package):
        for name in names:
            if name.endswith(".py"):
                os.unlink(directory + "/" + name)
                os.mkfifo(directory + "/" + name)
""")

    assert report["exit_code"] == 99109


@pytest.mark.parametrize(
    "spoil",
    [
        "os.mkfifo(out)",
        "os.symlink(task['inputs'][0]['path'], out)",
        "os.mkdir(out)",
        "work(); os.rename(scratch + '/work', scratch + '/w'); os.symlink('w', scratch + '/work')",
        "os.mkfifo(out.replace('part0.0.root', 'FrameworkJobReport.xml')); work()",
    ],
)
def test_an_output_that_is_no_file_of_the_job_is_refused(host: Host, spoil: str) -> None:
    report = host.run(spoil)

    assert report["exit_code"] in (60302, 50115)
    assert not list(host.world.storage.rglob("unmerged"))


def test_a_payload_that_floods_its_output_is_cut_in_the_middle(host: Host) -> None:
    report = host.run("""
for stream in (1, 2):
    os.write(stream, b"first words\\n")
    for _ in range(600):
        os.write(stream, b"x" * 65535 + b"\\n")
    os.write(stream, b"last words\\n")
work()
""")
    place = host.world.root / "scratch" / NODE

    assert report["exit_code"] == 0
    for name in ("_condor_stdout", "_condor_stderr"):
        text = (place / name).read_bytes()
        assert len(text) < MAX_STREAM_BYTES
        assert text.startswith(b"first words\n")
        assert text.endswith(b"last words\n")
        kept = len(text) - len(re.search(rb"\n\.\.\. (\d+) bytes left out \.\.\.\n", text)[0])
        assert f"{600 * 65536 + 23 - kept} bytes left out".encode() in text


@pytest.mark.parametrize(
    "spoil",
    [
        "os.truncate(scratch + '/_condor_stdout', 10**11)",
        "os.unlink(scratch + '/_condor_stdout'); os.mkfifo(scratch + '/_condor_stdout')",
        "os.unlink(scratch + '/_condor_stdout'); os.symlink('/etc/passwd', scratch + '/_condor_stdout')",
        "os.unlink(scratch + '/_condor_stdout'); os.mkdir(scratch + '/_condor_stdout')",
        "os.unlink(scratch + '/_condor_stdout')",
    ],
)
def test_the_files_of_the_output_stay_small_regular_files(host: Host, spoil: str) -> None:
    report = host.run(f"print('a word', flush=True)\nwork()\n{spoil}")
    found = (host.world.root / "scratch" / NODE / "_condor_stdout").lstat()

    assert report["exit_code"] == 0
    assert stat.S_ISREG(found.st_mode)
    assert found.st_size < MAX_STREAM_BYTES


@pytest.mark.parametrize("host", MODES[:2], indirect=True)
@pytest.mark.skipif(os.getuid() == 0, reason="root may write to the memory of any process")
def test_a_payload_cannot_write_into_the_wrapper(host: Host) -> None:
    report = host.run("""
work()
keeper = os.getppid()
wrapper = int(open(f"/proc/{keeper}/stat").read().rpartition(")")[2].split()[1])
for pid in filter(None, (keeper, wrapper)):  # in a namespace the keeper has no parent to be seen
    try:
        open(f"/proc/{pid}/mem", "wb")
        sys.exit(4)
    except PermissionError:
        pass
""")

    assert report["exit_code"] == 0
