"""The state of a running stack, and when it is valid."""

from __future__ import annotations

import os
import time

import pytest

from lab.paths import Layout
from lab.processes import started_at
from lab.state import (
    Phase,
    ServiceState,
    StackState,
    is_locked,
    load_state,
    parse_state,
    save_state,
    take_lock,
)


def service(pid: int) -> ServiceState:
    return ServiceState(name="web", pid=pid, started_at=started_at(pid), since=time.time(), restarts=0)


def state(*services: ServiceState, phase: Phase = Phase.READY) -> StackState:
    return StackState(
        pid=os.getpid(),
        started_at=started_at(os.getpid()),
        since=time.time(),
        phase=phase,
        urls={"console": "http://127.0.0.1:1/admin/"},
        services=services,
    )


def test_a_saved_state_is_read_back_while_its_supervisor_runs(layout: Layout) -> None:
    result = state(service(os.getpid()))
    lock = take_lock(layout)
    save_state(layout, result)

    assert load_state(layout) == result
    assert lock is not None
    os.close(lock)


def test_a_state_without_a_lock_holder_is_stale(layout: Layout) -> None:
    save_state(layout, state())

    assert load_state(layout) is None


def test_a_state_of_an_earlier_process_with_the_same_pid_is_stale(layout: Layout) -> None:
    lock = take_lock(layout)
    old = StackState(pid=os.getpid(), started_at=1, since=0.0, phase=Phase.READY)
    save_state(layout, old)

    assert load_state(layout) is None
    assert lock is not None
    os.close(lock)


@pytest.mark.parametrize(
    "torn", [{}, {"pid": 1}, {"services": [{}], "phase": "ready"}, {"phase": "odd", "services": []}]
)
def test_a_truncated_or_foreign_file_yields_nothing(torn: dict[str, object]) -> None:
    assert parse_state(torn) is None


def test_only_one_process_becomes_the_supervisor(layout: Layout) -> None:
    first = take_lock(layout)

    assert first is not None
    assert take_lock(layout) is None
    assert is_locked(layout)
    os.close(first)
    assert not is_locked(layout)


def test_a_stack_is_complete_only_if_every_service_runs() -> None:
    alive, dead = service(os.getpid()), ServiceState(name="x", pid=0, started_at=None, since=0.0, restarts=1)

    assert state(alive).whole
    assert not state(alive, dead).whole
    assert not state(alive, phase=Phase.STARTING).whole
