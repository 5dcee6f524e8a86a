"""The supervisor with small real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.files import read_json
from lab.paths import Layout
from lab.processes import members
from lab.service import hold_file
from lab.state import Phase, StackState, parse_state

PROGRAM = Path(__file__).with_name("little_stack.py")
OBEDIENT = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
PATIENCE_SEC = 120.0


class LittleStack:
    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.process: subprocess.Popen[bytes] | None = None
        self.log = layout.log / "supervisor.log"

    def start(
        self,
        *services: dict[str, Any],
        order: list[list[str]] | None = None,
        step: str = "",
        ready_sec: int = 120,
    ) -> None:
        names = [[service["name"] for service in services]]
        arguments = [str(self.layout.home), json.dumps(services), json.dumps(order or names)]
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, PROGRAM, *arguments],
                env=os.environ
                | {"PYTHONPATH": str(self.layout.app), "STEP": step, "READY_SEC": str(ready_sec)},
                stderr=out,
            )

    def state(self) -> StackState | None:
        return parse_state(read_json(self.layout.state))

    def pid(self, name: str) -> int:
        state = self.state()
        return next((s.pid for s in state.services if s.name == name), 0) if state else 0

    def until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_SEC
        while not condition():
            assert time.monotonic() < end, f"not in time; the log says:\n{self.log.read_text()}"
            time.sleep(0.02)

    def until_ready(self) -> None:
        self.until(lambda: (state := self.state()) is not None and state.phase is Phase.READY)

    def signal(self, sig: signal.Signals) -> None:
        assert self.process
        self.process.send_signal(sig)

    def ended(self) -> int:
        assert self.process
        return self.process.wait(PATIENCE_SEC)


@pytest.fixture
def stack(layout: Layout) -> Iterator[LittleStack]:
    little = LittleStack(layout)
    yield little
    if little.process and little.process.poll() is None:
        little.process.kill()
        little.process.wait()


def service(name: str, script: str = OBEDIENT, **how: Any) -> dict[str, Any]:
    return {"name": name, "script": script, **how}


def test_a_killed_service_is_named_with_its_last_lines_and_restarted(stack: LittleStack) -> None:
    stack.start(service("web", f"echo the last words of web; {OBEDIENT}"))
    stack.until_ready()
    first = stack.pid("web")

    os.kill(first, signal.SIGKILL)

    stack.until(lambda: stack.pid("web") not in (0, first))
    log = stack.log.read_text()
    assert "web died (killed by SIGKILL)" in log
    assert f"see {stack.layout.log / 'web.log'}" in log
    assert "    | the last words of web" in log
    state = stack.state()
    assert state
    assert state.services[0].restarts == 1


def test_other_services_run_on_while_one_is_restarted(stack: LittleStack) -> None:
    stack.start(service("web"), service("beat"))
    stack.until_ready()
    beat, web = stack.pid("beat"), stack.pid("web")

    os.kill(web, signal.SIGKILL)
    stack.until(lambda: stack.pid("web") not in (0, web))

    assert stack.pid("beat") == beat


def test_leftover_processes_of_a_service_end_before_its_restart(stack: LittleStack) -> None:
    stack.start(service("condor", f"sleep 1000 & echo $! > child; {OBEDIENT}"))
    stack.until_ready()
    child, first = int((stack.layout.home / "child").read_text()), stack.pid("condor")

    os.kill(first, signal.SIGKILL)
    stack.until(lambda: stack.pid("condor") not in (0, first))

    assert child not in members(stack.layout, "condor")


def test_a_service_that_keeps_dying_at_start_up_ends_the_stack_with_one_sentence(stack: LittleStack) -> None:
    stack.start(service("beat"), service("web", "echo no such table; exit 7"))

    assert stack.ended() == 1
    last = [line for line in stack.log.read_text().splitlines() if "gave up: " in line]
    assert len(last) == 1
    assert "web died 4 times in a row (exit code 7 the last time)" in last[0]
    assert str(stack.layout.log / "web.log") in last[0]
    assert "    | no such table" in stack.log.read_text()
    assert members(stack.layout) == []


def test_a_service_that_keeps_dying_later_is_restarted_alone_and_reported(stack: LittleStack) -> None:
    stack.start(
        service("web", "echo ready; while [ ! -e broken ]; do sleep 0.02; done; exit 7"), service("beat")
    )
    stack.until_ready()
    beat = stack.pid("beat")

    (stack.layout.home / "broken").touch()

    stack.until(lambda: (state := stack.state()) is not None and state.services[0].deaths > 5)
    state = stack.state()
    assert state
    assert [failing.name for failing in state.failing] == ["web"]
    assert not state.whole
    assert state.failing[0].last_death == "exit code 7"
    assert state.failing[0].log == str(stack.layout.log / "web.log")
    assert state.phase is Phase.READY
    assert stack.pid("beat") == beat
    assert "degraded: web died 4 times in a row" in stack.log.read_text()


def test_a_service_that_cannot_be_started_again_leaves_the_others_running(stack: LittleStack) -> None:
    stack.start(service("web", f"cd {stack.layout.home}/own; {OBEDIENT}", cwd="own"), service("beat"))
    stack.until_ready()
    beat, own = stack.pid("beat"), stack.layout.home / "own"

    own.rename(own.with_name("gone"))
    os.kill(stack.pid("web"), signal.SIGKILL)

    stack.until(lambda: (state := stack.state()) is not None and bool(state.failing))
    state = stack.state()
    assert state
    assert "could not be started" in state.failing[0].last_death
    assert stack.pid("beat") == beat
    own.with_name("gone").rename(own)
    stack.until(lambda: stack.pid("web") != 0)


def test_a_service_that_is_never_ready_is_named(stack: LittleStack) -> None:
    stack.start(service("web", "echo still thinking; sleep 1000"), ready_sec=1)

    assert stack.ended() == 1
    log = stack.log.read_text()
    assert "    | still thinking" in log
    assert "gave up: web was not ready after 1 s" in log


def test_a_failing_step_is_named_and_ends_the_stack(stack: LittleStack) -> None:
    stack.start(service("postgres"), step="echo table missing >&2; exit 3")

    assert stack.ended() == 1
    log = stack.log.read_text()
    assert "    | table missing" in log
    assert "the step ended with exit code 3" in log
    assert members(stack.layout) == []


def test_a_held_service_stays_down_until_it_is_released_and_its_end_is_no_death(stack: LittleStack) -> None:
    stack.start(service("storage"), service("beat"))
    stack.until_ready()
    hold, first = hold_file(stack.layout, "storage"), stack.pid("storage")
    hold.touch()

    os.kill(first, signal.SIGTERM)
    stack.until(lambda: stack.pid("storage") == 0)

    os.kill(stack.pid("beat"), signal.SIGKILL)  # the supervisor continues its work meanwhile
    stack.until(lambda: "beat restarted" in stack.log.read_text())
    state = stack.state()
    assert state
    assert [(s.pid, s.held, s.deaths) for s in state.services if s.name == "storage"] == [(0, True, 0)]
    assert not state.whole
    hold.unlink()
    stack.until(lambda: stack.pid("storage") not in (0, first))
    assert "storage died" not in stack.log.read_text()


def test_a_frozen_service_is_stopped_like_the_others(stack: LittleStack) -> None:
    stack.start(service("storage", grace_sec=100))
    stack.until_ready()
    os.kill(stack.pid("storage"), signal.SIGSTOP)

    stack.signal(signal.SIGTERM)

    assert stack.ended() == 0
    assert "bye" in (stack.layout.log / "storage.log").read_text()


def test_services_are_stopped_by_patterns_of_names(stack: LittleStack) -> None:
    note_end = "trap 'echo {0} >> order; exit 0' TERM; echo ready; while :; do sleep 0.02; done"
    names = ["redis", "storage-A"]
    stack.start(*(service(name, note_end.format(name)) for name in names), order=[["storage-*"], ["redis"]])
    stack.until_ready()

    stack.signal(signal.SIGTERM)

    assert stack.ended() == 0
    assert (stack.layout.home / "order").read_text().split() == ["storage-A", "redis"]


def test_services_stop_in_the_given_order(stack: LittleStack) -> None:
    note_end = "trap 'echo {0} >> order; exit 0' TERM; echo ready; while :; do sleep 0.02; done"
    names = ["postgres", "beat", "redis"]
    stack.start(
        *(service(name, note_end.format(name)) for name in names), order=[["beat"], ["redis"], ["postgres"]]
    )
    stack.until_ready()

    stack.signal(signal.SIGTERM)

    assert stack.ended() == 0
    assert (stack.layout.home / "order").read_text().split() == ["beat", "redis", "postgres"]


def test_ctrl_c_ends_a_stack_with_a_stubborn_service_within_five_seconds(stack: LittleStack) -> None:
    stack.start(service("web", STUBBORN, grace_sec=1.0), service("beat"))
    stack.until_ready()

    stack.signal(signal.SIGINT)

    assert stack.ended() == 0
    assert "web did not stop in " in stack.log.read_text()
    assert members(stack.layout) == []


def test_many_slow_services_together_keep_to_the_five_seconds(stack: LittleStack) -> None:
    names = ["web", "condor", "redis", "postgres"]
    stack.start(*(service(name, STUBBORN, grace_sec=50) for name in names), order=[[name] for name in names])
    stack.until_ready()
    began = time.monotonic()

    stack.signal(signal.SIGTERM)

    assert stack.ended() == 0
    assert time.monotonic() - began < 50  # as long as each of them needs
    assert members(stack.layout) == []


def test_a_second_signal_stops_at_once(stack: LittleStack) -> None:
    stack.start(service("web", STUBBORN, grace_sec=60))
    stack.until_ready()
    stack.signal(signal.SIGTERM)
    stack.until(lambda: "SIGTERM: stopping" in stack.log.read_text())

    stack.signal(signal.SIGTERM)

    assert stack.ended() == 0
    assert "SIGTERM: stopping at once" in stack.log.read_text()
    assert "did not stop" not in stack.log.read_text()  # it was not waited for
    assert members(stack.layout) == []


def test_a_worker_that_ignores_the_first_signal_gets_the_second_one(stack: LittleStack) -> None:
    script = "trap '' TERM; trap 'echo went cold; exit 0' QUIT; echo ready; while :; do sleep 0.05; done"
    stack.start(service("worker", script, insist="SIGQUIT", grace_sec=10))
    stack.until_ready()

    stack.signal(signal.SIGTERM)

    assert stack.ended() == 0
    assert "went cold" in (stack.layout.log / "worker.log").read_text()


def test_services_die_with_a_killed_supervisor(stack: LittleStack) -> None:
    stack.start(service("web"))
    stack.until_ready()

    stack.signal(signal.SIGKILL)
    stack.ended()

    stack.until(lambda: members(stack.layout) == [])
