"""The client of a stack: relayed messages, and reports of a supervisor's end."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from lab.client import Relay, Stack, running_stack, stop_on_signals
from lab.paths import Layout
from lab.stack import GAVE_UP


def write(layout: Layout, text: str) -> None:
    with layout.supervisor_log.open("a") as log:
        log.write(text)


def test_the_relay_repeats_new_lines_without_their_time(layout: Layout) -> None:
    heard: list[str] = []
    write(layout, "2026-01-01T00:00:00Z an old story\n")
    relay = Relay(layout, heard.append)
    write(
        layout,
        "2026-01-01T00:00:01Z web died; its last lines:\n    | one\n    | two\n2026-01-01T00:00:02Z ready\n",
    )

    relay.pump()
    relay.pump()

    assert heard == ["web died; its last lines:\n    | one\n    | two", "ready"]


def test_the_relay_waits_for_the_end_of_a_line(layout: Layout) -> None:
    heard: list[str] = []
    relay = Relay(layout, heard.append)
    write(layout, "2026-01-01T00:00:01Z half a ")

    relay.pump()
    assert heard == []
    write(layout, "line\n")
    relay.pump()

    assert heard == ["half a line"]


def test_the_message_of_a_failed_supervisor_is_printed_once_as_the_error(layout: Layout) -> None:
    heard: list[str] = []
    stack = Stack(layout, speak=heard.append)
    write(layout, f"2026-01-01T00:00:01Z {GAVE_UP}web died 4 times\n")
    layout.failure.write_text("web died 4 times")

    assert str(stack.failure()) == "web died 4 times"
    assert heard == []


def test_a_supervisor_that_vanished_without_an_error_message_is_an_error_with_log_and_cure(
    layout: Layout,
) -> None:
    message = str(Stack(layout).failure())

    assert str(layout.supervisor_log) in message
    assert "./wms2 up" in message


class Supervisor:
    """A process that ends at the first signal."""

    def __init__(self) -> None:
        self.heard: list[int] = []

    def send_signal(self, signum: int) -> None:
        self.heard.append(signum)

    def poll(self) -> int:
        return 0


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_supervisor_receives_the_signal_of_the_client(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, signum: signal.Signals
) -> None:
    handlers: dict[int, Any] = {}
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    supervisor = Supervisor()
    monkeypatch.setattr(Stack, "start", lambda self, stay: setattr(self, "_supervisor", supervisor))
    stop_on_signals()

    with pytest.raises(KeyboardInterrupt), running_stack(layout):
        handlers[signum](signum, None)

    assert supervisor.heard == [signum]
