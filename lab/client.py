"""Client side of a stack: starts a supervisor or connects to the running one, and releases it cleanly.

The supervisor is always a process and a session of its own. It ends with the command that started it,
unless asked to stay.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping

from lab.errors import LabError
from lab.files import read_json, rotate
from lab.paths import Layout
from lab.processes import clear_leftovers, send, spawn
from lab.stack import GAVE_UP
from lab.state import Phase, StackState, is_locked, load_state

START_TIMEOUT_SEC = 300.0
STOP_TIMEOUT_SEC = 20.0
POLL_SEC = 0.05
TIMESTAMP = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ", re.MULTILINE)
Speak = Callable[[str], None]
STARTED = float(os.environ.get("WMS2_T0") or time.time())


def say(text: str) -> None:
    """Print one line on standard error; standard output is for results."""
    print(f"[wms2 {time.time() - STARTED:5.1f}s] {text}", file=sys.stderr, flush=True)


def stop_on_signals() -> None:
    """Handle SIGTERM and SIGHUP like Ctrl-C, so that every ``finally`` runs."""

    def interrupt(signum: int, _frame: object) -> None:
        raise KeyboardInterrupt(signal.Signals(signum))

    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, interrupt)


class Relay:
    """Repeats new lines of the supervisor's log."""

    def __init__(self, layout: Layout, speak: Speak) -> None:
        self.path = layout.supervisor_log
        self.speak = speak
        self._seen = self.path.stat().st_size if self.path.exists() else 0

    def pump(self) -> None:
        if not self.path.exists():
            return
        with self.path.open("rb") as log:
            log.seek(self._seen)
            fresh = log.read()
        whole = fresh[: fresh.rfind(b"\n") + 1]
        self._seen += len(whole)
        for text in TIMESTAMP.split(whole.decode(errors="replace")):
            if text and not text.startswith(GAVE_UP):  # reported as the error of this command
                self.speak(text.rstrip("\n"))


class Stack:
    """A running stack, as seen by a command that uses it."""

    def __init__(
        self, layout: Layout, *, speak: Speak = say, variables: Mapping[str, str] | None = None
    ) -> None:
        self.layout = layout
        self.variables = os.environ if variables is None else variables  # of the supervisor
        self.relay = Relay(layout, speak)
        self._supervisor: subprocess.Popen[bytes] | None = None

    @property
    def ours(self) -> bool:
        """Return whether this command started it."""
        return self._supervisor is not None

    @property
    def environment(self) -> dict[str, str]:
        """The environment of commands inside the stack."""
        return {name: str(value) for name, value in read_json(self.layout.environment).items()}

    @property
    def state(self) -> StackState:
        state = load_state(self.layout)
        if state is None:
            raise self.failure()
        return state

    def start(self, *, stay: bool) -> None:
        """Return when the stack is ready, no matter which command started it."""
        self.layout.make()
        if not is_locked(self.layout):
            rotate(self.layout.supervisor_log)
            self._supervisor = spawn(
                [sys.executable, "-P", "-m", "lab", "supervise"],
                env=self.variables,
                cwd=self.layout.home,
                output=self.layout.supervisor_log,
                die_with_us=None if stay else signal.SIGTERM,
            )
        end = time.monotonic() + START_TIMEOUT_SEC
        while time.monotonic() < end:
            state = load_state(self.layout)
            if state and state.phase is Phase.READY:
                self.relay.pump()
                return
            self.check()
            time.sleep(POLL_SEC)
        raise LabError(
            f"the stack was not ready after {START_TIMEOUT_SEC:.0f} s, see {self.layout.supervisor_log}: "
            "run ./wms2 down, then ./wms2 up"
        )

    def check(self) -> None:
        """Relay new log lines; raise if the stack has ended."""
        self.relay.pump()
        if self._supervisor is not None and self._supervisor.poll() is not None:
            if self._supervisor.returncode == 0 and is_locked(self.layout):
                self._supervisor = None  # another supervisor was faster
                return
            raise self.failure()
        if self._supervisor is None and not is_locked(self.layout):
            raise self.failure()

    def failure(self) -> LabError:
        self.relay.pump()
        with contextlib.suppress(OSError):
            return LabError(self.layout.failure.read_text(encoding="utf-8"))
        return LabError(
            f"the stack in {self.layout.home} ended, see {self.layout.supervisor_log}: "
            "run ./wms2 up to start it again"
        )

    def watch(self) -> None:
        """Wait until the stack ends; raise if it failed."""
        while self._supervisor is not None and self._supervisor.poll() is None:
            self.relay.pump()
            time.sleep(POLL_SEC)
        self.relay.pump()
        if self._supervisor is not None and self._supervisor.returncode:
            raise self.failure()

    def release(self, because: signal.Signals = signal.SIGTERM) -> None:
        """Stop the stack if this command started it; a second interrupt stops it at once."""
        if self._supervisor is None:
            return
        self._supervisor.send_signal(because)
        end = time.monotonic() + STOP_TIMEOUT_SEC
        while self._supervisor.poll() is None:
            try:
                self.relay.pump()
                time.sleep(POLL_SEC)
            except KeyboardInterrupt:
                self._supervisor.send_signal(signal.SIGTERM)
            if time.monotonic() > end:
                self._supervisor.kill()  # its children end with it
        self.relay.pump()
        self._supervisor = None
        clear_leftovers(self.layout)


@contextlib.contextmanager
def running_stack(
    layout: Layout,
    *,
    stay: bool = False,
    speak: Speak = say,
    variables: Mapping[str, str] | None = None,
) -> Iterator[Stack]:
    """Yield a ready stack: the running one, or a new one that is stopped afterwards unless `stay`."""
    stack = Stack(layout, speak=speak, variables=variables)
    kept, because = False, signal.SIGTERM
    try:
        stack.start(stay=stay)
        yield stack
        kept = stay
    except KeyboardInterrupt as interrupt:
        because = next(iter(interrupt.args), signal.SIGINT)  # named in the supervisor's log
        raise
    finally:
        if not kept:
            stack.release(because)


def take_down(layout: Layout) -> bool:
    """Stop the stack, no matter which command started it; return False if none was running."""
    if not is_locked(layout):
        clear_leftovers(layout)
        return False
    began = time.monotonic()
    asked = False
    while is_locked(layout):
        state = load_state(layout)
        if state and not asked:
            send(state.pid, signal.SIGTERM)
            asked = True
        if time.monotonic() - began > STOP_TIMEOUT_SEC:
            raise LabError(
                f"the supervisor in {layout.home} does not stop, see {layout.supervisor_log}: "
                f"end process {state.pid if state else 'unknown'} with kill"
            )
        time.sleep(POLL_SEC)
    return True
