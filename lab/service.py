"""One supervised process: how it is started, when it is ready, how it likes to be stopped."""

from __future__ import annotations

import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab.files import rotate
from lab.paths import Layout
from lab.processes import mark, spawn, started_at
from lab.state import ServiceState

WORDS_BYTES = 1_000_000


@dataclass(slots=True)
class Service:
    name: str
    argv: list[str]
    ready: Callable[[Service], bool]
    log: Path
    cwd: Path
    env: dict[str, str] = field(default_factory=dict)
    before_spawn: Callable[[], None] | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    insist_signal: signal.Signals | None = None  # sent a second after the first
    grace_sec: float = 2.0
    cure: str = "read the log, mend the cause and run ./wms2 up again"

    pid: int = 0
    since: float = 0.0
    deaths: list[float] = field(default_factory=list)
    restarts: int = 0
    restart_due: float | None = None
    _process: subprocess.Popen[bytes] | None = None  # kept: a collected Popen would reap behind our back
    _log_start: int = 0

    def spawn(self, layout: Layout, base_env: Mapping[str, str]) -> None:
        if self.before_spawn:
            self.before_spawn()
        rotate(self.log)
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        self._process = spawn(
            self.argv,
            env={**base_env, **self.env, **mark(layout, self.name)},
            cwd=self.cwd,
            output=self.log,
            die_with_us=self.stop_signal,
        )
        self.pid, self.since, self.restart_due = self._process.pid, time.time(), None

    def ended(self, exit_code: int) -> None:
        """The supervisor reaped it."""
        if self._process is not None:
            self._process.returncode = exit_code
        self.pid = 0

    @property
    def words(self) -> str:
        """What it has written since it was started last; of a long story the end."""
        with self.log.open("rb") as log:
            log.seek(max(self._log_start, self.log.stat().st_size - WORDS_BYTES))
            return log.read().decode(errors="replace")

    def tail(self) -> str:
        return indent(self.words.splitlines())

    def state(self) -> ServiceState:
        return ServiceState(
            name=self.name,
            pid=self.pid,
            started_at=started_at(self.pid) if self.pid else None,
            since=self.since,
            restarts=self.restarts,
        )


def indent(lines: Sequence[str], count: int = 15) -> str:
    """The last lines of a log, as they are shown inside another one."""
    return "\n".join(f"    | {line}" for line in lines[-count:])


def answers(url: str) -> Callable[[Service], bool]:
    """Ready when the address answers 200."""

    def ready(_service: Service) -> bool:
        try:
            with urllib.request.urlopen(url, timeout=1) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    return ready


def says(text: str) -> Callable[[Service], bool]:
    """Ready when this run's log holds the text."""

    def ready(service: Service) -> bool:
        return text in service.words

    return ready
