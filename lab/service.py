"""A supervised process: how it is started and stopped, and when it is ready."""

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
DEATHS_ALLOWED = 3  # in a row; one more and the service is failing
STABLE_AFTER_SEC = 60.0  # a service that was up for so long has recovered
RESTART_DELAY_SEC = 0.5  # doubles with every death in a row
MAX_RESTART_DELAY_SEC = 60.0
HOLDS = "*.hold"


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
    cure: str = "read the log, fix the cause and run ./wms2 up again"

    pid: int = 0
    since: float = 0.0
    deaths: int = 0  # in a row: since it was last up for STABLE_AFTER_SEC
    last_death: str = ""
    restarts: int = 0
    started: float = 0.0  # by the monotonic clock
    restart_due: float | None = None
    held: bool = False  # it was stopped by a hold and waits for its release
    _process: subprocess.Popen[bytes] | None = None  # kept: a garbage-collected Popen would reap it
    _log_start: int = 0

    def spawn(self, layout: Layout, base_env: Mapping[str, str]) -> None:
        self.started = time.monotonic()
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
        self.pid, self.since = self._process.pid, time.time()
        self.restart_due, self.held = None, False

    def ended(self, exit_code: int) -> None:
        """Record the end of the process."""
        if self._process is not None:
            self._process.returncode = exit_code
        self.pid = 0

    def count_death(self, how: str, *, now: float) -> float:
        """Set and return the delay in seconds before the next start, longer with every death in a row."""
        self.deaths = 1 if now - self.started >= STABLE_AFTER_SEC else self.deaths + 1
        self.last_death = how
        delay_sec = min(RESTART_DELAY_SEC * 2.0 ** min(self.deaths - 1, 30), MAX_RESTART_DELAY_SEC)
        self.restart_due = now + delay_sec
        return delay_sec

    def await_release(self) -> None:
        """Wait for the release of its hold, without counting this end as a death."""
        self.restart_due, self.held = 0.0, True

    def recover(self, *, now: float) -> bool:
        """Reset the deaths of a service that stays up; return whether it was failing."""
        if not self.pid or not self.deaths or now - self.started < STABLE_AFTER_SEC:
            return False
        was_failing, self.deaths = self.failing, 0
        return was_failing

    @property
    def failing(self) -> bool:
        return self.deaths > DEATHS_ALLOWED

    @property
    def output(self) -> str:
        """Return the output since the last start, only its end if it is long."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as log:
            log.seek(max(self._log_start, self.log.stat().st_size - WORDS_BYTES))
            return log.read().decode(errors="replace")

    def tail(self) -> str:
        return indent(self.output.splitlines())

    def state(self) -> ServiceState:
        return ServiceState(
            name=self.name,
            pid=self.pid,
            started_at=started_at(self.pid) if self.pid else None,
            since=self.since,
            restarts=self.restarts,
            deaths=self.deaths,
            failing=self.failing,
            held=self.held,
            last_death=self.last_death,
            log=str(self.log),
        )


def hold_file(layout: Layout, name: str) -> Path:
    """Return the file that keeps a service down while it exists."""
    return layout.run / HOLDS.replace("*", name)


def release_all(layout: Layout) -> None:
    """Remove the holds that an earlier run left behind."""
    for hold in layout.run.glob(HOLDS):
        hold.unlink()


def indent(lines: Sequence[str], count: int = 15) -> str:
    """Return the last lines of a log, indented."""
    return "\n".join(f"    | {line}" for line in lines[-count:])


def answers(url: str) -> Callable[[Service], bool]:
    """Return a readiness check: the address answers 200."""

    def ready(_service: Service) -> bool:
        try:
            with urllib.request.urlopen(url, timeout=1) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    return ready


def says(text: str) -> Callable[[Service], bool]:
    """Return a readiness check: the log of this run contains the text."""

    def ready(service: Service) -> bool:
        return text in service.output

    return ready
