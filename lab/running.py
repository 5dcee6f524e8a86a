"""Concurrent commands: their output is shown when they end, and their processes are ended with them."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from lab.client import say
from lab.paths import Layout
from lab.processes import dying_with_us, mark, wipe
from lab.results import RESULTS, Result, count_outcomes, read_results, unexplained

LAST_WORDS_SEC = 5.0
PROGRESS_SEC = 30.0
POLL_SEC = 0.1


@dataclass(frozen=True, slots=True)
class Command:
    """A command with its environment; without a name it writes to the terminal."""

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str]


@dataclass(slots=True)
class Running:
    """A started command. Log and results are empty for one that writes to the terminal."""

    command: Command
    process: subprocess.Popen[bytes]
    log: Path
    results: Path
    shown: bool = False

    @property
    def code(self) -> int:
        """The exit code as in a shell: 128 + N for signal N."""
        code = self.process.returncode
        return 128 - code if code < 0 else code

    def show(self) -> None:
        if not self.shown and self.command.name:
            sys.stdout.write(f"\n{self.command.name}\n{self.log.read_text(errors='replace')}")
            sys.stdout.flush()
        self.shown = True


class Commands:
    """The commands of one run. At the end of the block their processes are ended and their output shown."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.place = replace(layout, home=layout.run)  # not the stack's home, which is cleared at its start
        self.started: list[Running] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _trace: object
    ) -> None:
        if isinstance(error, KeyboardInterrupt):
            self._interrupt()
        wipe(self.place, "command")
        for one in self.started:
            one.process.wait()
            one.show()

    def start(self, command: Command) -> Running:
        log = self.layout.run / f"tests-{command.name}.log"
        results = self.layout.run / f"tests-{command.name}.results"
        results.unlink(missing_ok=True)
        env = {**command.environment, **mark(self.place, "command"), RESULTS: str(results)}
        dying = dying_with_us(signal.SIGTERM)
        with contextlib.ExitStack() as stack:
            out = stack.enter_context(log.open("wb")) if command.name else None
            process = subprocess.Popen(
                command.argv, cwd=self.layout.app, env=env, stdout=out, stderr=out, preexec_fn=dying
            )
        self.started.append(Running(command, process, log, results))
        return self.started[-1]

    def wait(self, *running: Running) -> None:
        """Wait for these, or for all; report progress periodically."""
        wanted, reported = running or tuple(self.started), time.monotonic()
        while any(one.process.poll() is None for one in wanted):
            for one in self.started:
                if one.process.poll() is not None:
                    one.show()
            if time.monotonic() - reported > PROGRESS_SEC and any(one.command.name for one in wanted):
                reported = time.monotonic()
                say(count_outcomes(self.results()))
            time.sleep(POLL_SEC)
        for one in wanted:
            one.show()

    def results(self) -> list[Result]:
        """Return all results so far; a pytest that failed without a failed test counts as one."""
        found = []
        for one in self.started:
            results = read_results(one.results, ended=one.process.poll() is not None)
            found += results
            if one.process.poll() is not None:
                found += unexplained(one.command.name, one.code, results)
        return found

    def _interrupt(self) -> None:
        """Let the commands finish after Ctrl-C, which they get as well, then kill them."""
        end = time.monotonic() + LAST_WORDS_SEC
        while any(one.process.poll() is None for one in self.started) and time.monotonic() < end:
            time.sleep(POLL_SEC)
        for one in self.started:
            if one.process.poll() is None:
                one.process.send_signal(signal.SIGTERM)


def run_command(layout: Layout, argv: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command on the terminal and return its exit code."""
    with Commands(layout) as commands:
        running = commands.start(Command("", argv, environment))
        commands.wait()
    return running.code
