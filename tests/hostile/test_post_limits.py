"""POST runs on the submit host, twenty at a time: its memory and time are bounded for any input."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandbox.build import build_sandbox, copy_scripts
from tests.job_world import NODE, PLUGINS, RUN, World

REFUSED, STOPPED, RETRIED = 99310, 42, 1
MOST_MEMORY_MB = 150
MOST_CPU_SEC = 15
_MEASURE = """
import json, resource, subprocess, sys
ended = subprocess.run(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([ended.returncode, used.ru_maxrss / 1024, used.ru_utime + used.ru_stime]))
"""


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Return a job with a correct report; a test replaces its files."""
    tarball = tmp_path / "built.tar.gz"
    build_sandbox(tarball, plugins=PLUGINS)
    made = World(root=tmp_path, tarball=tarball, monkeypatch=monkeypatch)
    made.storage.mkdir(parents=True)
    made.add_job(NODE, [made.add_file("a", 10)])
    made.plan()
    made.run(NODE)
    return made


def post(world: World, status: int = 0, node: str = NODE) -> tuple[int, float, float]:
    """Run the real POST script; return its answer, its peak memory (MB) and its CPU time (s)."""
    copy_scripts(world.root / "scripts", plugins=PLUGINS)
    arguments = [node, str(status), "0", "3", "7.0", "0", "0", "60", "2000", "200", "3000"]
    measured = subprocess.run(
        [sys.executable, "-S", "-c", _MEASURE, "../scripts/post.sh", *arguments],
        cwd=world.group, env=world.environment(), check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    answer, memory_mb, cpu_sec = json.loads(measured.stdout.splitlines()[-1])
    return answer, memory_mb, cpu_sec


def padded(document: dict[str, Any], field: str, size: int) -> bytes:
    return json.dumps({**document, field: ["x" * 90] * (size // 100)}).encode()


REPORTS: dict[str, Callable[[dict[str, Any]], bytes]] = {
    "60 MB of JSON": lambda honest: padded(honest, "more", 60 << 20),
    "60 MB of empty lists": lambda honest: b"[" + b"[]," * (20 << 20) + b"[]]",
    "a few MB of empty lists": lambda honest: b"[" + b"[]," * (2 << 20) + b"[]]",
    "a few MB of empty objects": lambda honest: b'{"a":[' + b"{}," * (2 << 20) + b"{}]}",
    "a few MB of numbers": lambda honest: b"[" + b"1.5," * (1 << 20) + b"0]",
    "a few MB of keys": lambda honest: json.dumps({f"{n:x}": 0 for n in range(500_000)}).encode(),
    "a few MB of escapes": lambda honest: b'["' + b'\\"' * (2 << 20) + b'"]',
    "a few MB of an open string": lambda honest: b'["' + b'\\"' * (2 << 20),
    "deep lists": lambda honest: b"[" * 3_000_000 + b"]" * 3_000_000,
    "deep objects": lambda honest: b'{"a":' * 600_000 + b"0" + b"}" * 600_000,
    "lists as deep as JSON allows": lambda honest: b"[" * 900 + b"]" * 900,
    "a whole number of a million digits": lambda honest: b'{"schema": ' + b"9" * 1_000_000 + b"}",
    "400,000 lumis one by one": lambda honest: json.dumps(
        {**honest, "outputs": [{"lumis": {str(RUN): [[n, n] for n in range(400_000)]}}]}
    ).encode(),
}  # fmt: skip


@pytest.mark.parametrize("name", REPORTS)
def test_an_oversized_report_is_refused_at_little_cost(group: World, name: str) -> None:
    honest = group.report(NODE)
    (group.reports / f"{NODE}.report.json").write_bytes(REPORTS[name](honest))

    answer, memory_mb, cpu_sec = post(group)
    assert memory_mb < MOST_MEMORY_MB
    assert cpu_sec < MOST_CPU_SEC
    record = group.record(NODE)
    cut_off = name == "a few MB of an open string"  # as a killed job leaves it: that is tried again
    assert answer == (RETRIED if cut_off else STOPPED), record["classification"]
    assert record["job"]["exit_code"] == (99303 if cut_off else REFUSED)


FRAMEWORK: dict[str, bytes] = {
    "deep": b"<FrameworkJobReport>" + b"<a>" * 2_000_000,
    "60 MB deep": b"<FrameworkJobReport>" + b"<a>" * (20 << 20),
    "wide": b"<FrameworkJobReport>" + b"<File/>" * 1_000_000 + b"</FrameworkJobReport>",
    "lumis": b'<FrameworkJobReport><File><Runs><Run ID="1">' + b'<LumiSection ID="7"/>' * 350_000,
    "text": b"<FrameworkJobReport><FrameworkError ExitStatus='8001' Type='x'>" + b"&lt;\n" * 1_500_000,
    "60 MB of text": b"<FrameworkJobReport><FrameworkError ExitStatus='8001' Type='x'>" + b"x" * (60 << 20),
    "attributes": b"<FrameworkJobReport><a " + b"".join(b"a%d='' " % n for n in range(600_000)) + b"/>",
    "metrics": b"<FrameworkJobReport><PerformanceSummary Metric='x'>"
    + b"".join(b'<Metric Name="%d" Value="1"/>' % n for n in range(200_000)),
}


@pytest.mark.parametrize("name", FRAMEWORK)
def test_an_oversized_framework_report_is_refused_at_little_cost(group: World, name: str) -> None:
    (group.reports / f"{NODE}.report.json").unlink()
    (group.reports / f"{NODE}.fjr.xml").write_bytes(FRAMEWORK[name])

    answer, memory_mb, cpu_sec = post(group, status=-9)
    assert memory_mb < MOST_MEMORY_MB
    assert cpu_sec < MOST_CPU_SEC
    assert answer in (RETRIED, STOPPED)


@pytest.mark.parametrize("kind", ["report.json", "fjr.xml"])
@pytest.mark.parametrize("what", ["pipe", "link", "endless link", "directory", "link to itself"])
def test_a_report_that_is_not_a_regular_file_is_not_read(group: World, kind: str, what: str) -> None:
    path = group.reports / f"{NODE}.{kind}"
    (group.reports / f"{NODE}.report.json").unlink()
    path.unlink(missing_ok=True)
    if what == "pipe":
        os.mkfifo(path)
    elif what == "directory":
        path.mkdir()
    else:
        target = {"link": "/etc/passwd", "endless link": "/dev/zero", "link to itself": path.name}[what]
        path.symlink_to(target)

    answer, memory_mb, _ = post(group, status=1)
    assert memory_mb < MOST_MEMORY_MB
    if kind == "report.json":
        assert (answer, group.record(NODE)["job"]["exit_code"]) == (STOPPED, REFUSED)
        assert "regular file" in group.record(NODE)["classification"]["reason"]
    else:
        assert (answer, group.record(NODE)["job"]["exit_code"]) == (RETRIED, 99303)


def test_a_large_event_log_costs_little(group: World) -> None:
    event = b"006 (008.000.000) 2026-11-16 02:01:50 Image size of job updated: 1\n"
    event += b"\t1  -  MemoryUsage of job (MB)\n...\n"
    (group.group / "group.dag.nodes.log").write_bytes(event * (64 * 1024 * 1024 // len(event)))

    answer, memory_mb, cpu_sec = post(group)
    assert (answer, memory_mb < MOST_MEMORY_MB, cpu_sec < MOST_CPU_SEC) == (0, True, True)


def limited(world: World, code: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Run POST with a fault in the reading of the report, under the limits it sets for itself."""
    copy_scripts(world.root / "scripts", plugins=PLUGINS)
    started = (
        "import sys; sys.path.insert(0, '../scripts'); from sandbox import evidence, post_script, selflimit\n"
        f"{code}\n"
        f"sys.exit(post_script.limited_main(['{NODE}', '{status}', '0', '3', '7.0', '0', '0']))"
    )
    return subprocess.run(
        [sys.executable, "-S", "-c", started], cwd=world.group, check=False, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip


def test_a_report_that_takes_too_much_memory_is_refused(group: World) -> None:
    ended = limited(group, "evidence.read_report = lambda path: bytearray(8 << 30)")
    assert ended.returncode == STOPPED, ended.stderr
    assert group.record(NODE)["job"]["exit_code"] == REFUSED
    assert "memory" in group.record(NODE)["classification"]["reason"]


def test_a_report_that_takes_too_much_time_is_refused(group: World) -> None:
    code = "selflimit.CPU_SEC = 1\ndef read(path):\n    while True: pass\nevidence.read_report = read"
    ended = limited(group, code)
    assert ended.returncode == STOPPED, ended.stderr
    assert "CPU time" in group.record(NODE)["classification"]["reason"]


def test_a_disk_that_does_not_answer_is_tried_again(group: World) -> None:
    code = "import time\nselflimit.WALL_SEC = 1\nevidence.read_report = lambda path: time.sleep(600)"
    ended = limited(group, code)
    assert ended.returncode == RETRIED
    assert "OutOfTime" in ended.stderr


def test_the_limits_hold_for_the_real_script(group: World) -> None:
    copy_scripts(group.root / "scripts", plugins=PLUGINS)
    code = "from resource import *; print(getrlimit(RLIMIT_DATA)[0], getrlimit(RLIMIT_CPU)[0])"
    before = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    ended = limited(group, f"post_script.guarded_main = lambda arguments: [0, exec({code!r})][0]")
    memory, cpu = (int(one) for one in ended.stdout.split())
    assert 0 < memory <= 1 << 30
    assert 0 < cpu <= 120
    assert before != ended.stdout
    assert resource.getrlimit(resource.RLIMIT_DATA)[0] != memory, "the test's own process is not limited"
