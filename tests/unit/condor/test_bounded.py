"""Calls end in time for any behaviour of the child process. The children here replace the bindings."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from condor.bounded import BindingsError, BoundedCalls, child_environment
from wms2_project.errors import ScheddUnreachable

READY = "import json, os, sys, time\nprint(json.dumps({'value': 'ready'}), flush=True)\n"
ECHO = (
    READY + "for line in sys.stdin: print(json.dumps({'value': json.loads(line)['arguments']}), flush=True)"
)
PID = READY + "for line in sys.stdin: print(json.dumps({'value': os.getpid()}), flush=True)"
ERROR = READY + "for line in sys.stdin: print(json.dumps({'error': 'refused'}), flush=True)"
HANG = READY + "time.sleep(600)"
HANG_ONCE = f"""
{READY}
if not os.path.exists(sys.argv[1]):
    open(sys.argv[1], "w").close()
    time.sleep(600)
for line in sys.stdin:
    print(json.dumps({{"value": json.loads(line)["arguments"]}}), flush=True)
"""
DIE = READY + "sys.stdin.readline(); os._exit(3)"
NONSENSE = READY + "sys.stdin.readline(); print('Segmentation fault', flush=True); time.sleep(600)"
MUTE = "import time; time.sleep(600)"
PATIENCE_SEC = 120.0  # for what answers, on a busy machine

Start = Callable[..., BoundedCalls]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[BoundedCalls] = []

    def calls_to(script: str, *further: str, **options: Any) -> BoundedCalls:
        started.append(BoundedCalls(command=(sys.executable, "-c", script, *further), **options))
        return started[-1]

    yield calls_to
    for calls in started:
        calls.close()


def test_all_answers_are_from_one_child(start: Start) -> None:
    calls = start(PID)
    first = calls.call("query", timeout_sec=PATIENCE_SEC)
    assert first == calls.call("query", timeout_sec=PATIENCE_SEC) != os.getpid()


def test_large_requests_and_answers_pass_through(start: Start) -> None:
    names = [f"wms2-{n}" for n in range(50_000)]
    assert start(ECHO).call("query", timeout_sec=PATIENCE_SEC, names=names) == {"names": names}


def test_an_error_of_the_bindings_is_raised(start: Start) -> None:
    with pytest.raises(BindingsError, match="refused"):
        start(ERROR).call("query", timeout_sec=PATIENCE_SEC)


def test_a_hanging_child_is_killed_at_the_deadline(start: Start) -> None:
    calls = start(HANG)
    began = time.monotonic()
    with pytest.raises(ScheddUnreachable, match=r"no answer within 0\.3 s"):
        calls.call("query", timeout_sec=0.3)
    assert time.monotonic() - began < 300  # it would hang for 600 s
    assert calls._process is None


def test_the_next_call_gets_a_new_child(start: Start, tmp_path: Path) -> None:
    calls = start(HANG_ONCE, str(tmp_path / "started"))
    with pytest.raises(ScheddUnreachable):
        calls.call("query", timeout_sec=0.2)
    assert calls.call("query", timeout_sec=PATIENCE_SEC, a=1) == {"a": 1}


@pytest.mark.parametrize("script", [DIE, NONSENSE])
def test_a_child_that_dies_or_sends_garbage_is_unreachable(start: Start, script: str) -> None:
    with pytest.raises(ScheddUnreachable, match="ended"):
        start(script).call("query", timeout_sec=PATIENCE_SEC)


def test_a_child_that_never_gets_ready_is_unreachable(start: Start) -> None:
    with pytest.raises(ScheddUnreachable, match="starting the bindings"):
        start(MUTE, start_timeout_sec=0.3).call("query", timeout_sec=PATIENCE_SEC)


def test_threads_wait_their_turn_but_not_for_ever(start: Start, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    os.mkfifo(asked)
    calls = start(READY + f"sys.stdin.readline(); open({str(asked)!r}, 'w').close(); time.sleep(600)")

    def hold_on() -> None:
        with pytest.raises(ScheddUnreachable, match="ended"):
            calls.call("a", timeout_sec=600)

    holder = threading.Thread(target=hold_on)
    holder.start()
    asked.read_text()  # returns when the child has got the first call
    with pytest.raises(ScheddUnreachable, match="earlier calls"):
        calls.call("b", timeout_sec=0.2)
    assert calls._process is not None
    calls._process.kill()
    holder.join()


def test_a_forked_process_uses_a_child_of_its_own(start: Start) -> None:
    calls = start(PID)
    ours = calls.call("query", timeout_sec=PATIENCE_SEC)
    pid = os.fork()
    if pid == 0:
        try:
            theirs = calls.call("query", timeout_sec=PATIENCE_SEC)
            calls.close()
            os._exit(0 if theirs != ours else 1)
        finally:
            os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0
    assert calls.call("query", timeout_sec=PATIENCE_SEC) == ours


def test_the_child_ends_with_its_parent(start: Start) -> None:
    calls = start(PID)
    child = calls.call("query", timeout_sec=PATIENCE_SEC)
    process = calls._process
    assert process is not None
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(timeout=PATIENCE_SEC) == 0
    assert process.pid == child


def test_secrets_do_not_reach_dagman() -> None:
    ours = {
        "DATABASE_URL": "postgres://secret", "SECRET_KEY": "x", "REDIS_URL": "y", "PATH": "/bin",
        "CONDOR_CONFIG": "/pool/condor_config", "_CONDOR_TOOL_DEBUG": "D_ALL", "HOME": "/home/wms2",
    }  # fmt: skip
    kept = child_environment(ours)
    assert set(kept) == {"PATH", "CONDOR_CONFIG", "_CONDOR_TOOL_DEBUG", "HOME", "PYTHONPATH"}
