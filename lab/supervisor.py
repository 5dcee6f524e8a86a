"""Starts services, restarts those that die, and stops them in order.

A service that keeps dying before the stack is ready ends the stack. Later it is restarted with growing
delays, while the other services keep running.

The supervisor is never privileged. Every child is its own session and dies with the supervisor, which also
adopts orphaned grandchildren. The first SIGTERM stops in order, the second at once.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path

from lab.errors import LabError
from lab.files import rotate
from lab.paths import Layout
from lab.processes import adopt_orphans, mark, send, spawn, started_at, wipe
from lab.service import Service, hold_file, indent
from lab.state import Phase, StackState, save_state

INSIST_AFTER_SEC = 1.0
STOP_BUDGET_SEC = 4.0  # for all services together; killing them loses nothing
STOP_AT_LEAST_SEC = 0.5
TICK_SEC = 0.05


def note(text: str) -> None:
    """Write one line to the supervisor's log, its standard error."""
    print(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {text}", file=sys.stderr, flush=True)


def describe_exit(exit_code: int) -> str:
    return f"killed by {signal.Signals(-exit_code).name}" if exit_code < 0 else f"exit code {exit_code}"


class Supervisor:
    def __init__(self, layout: Layout, base_env: Mapping[str, str]) -> None:
        self.layout = layout
        self.base_env = base_env
        self.services: list[Service] = []
        self.urls: dict[str, str] = {}
        self.stop_requests = 0
        self._since = time.time()
        self._phase = Phase.STARTING
        self._step_exits: dict[int, int | None] = {}
        adopt_orphans()
        for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(sig, self._on_signal)
        self.remember()

    @property
    def stopping(self) -> bool:
        return self.stop_requests > 0

    def enter(self, phase: Phase) -> None:
        self._phase = phase
        self.remember()

    def remember(self) -> None:
        """Write the state of the services, for status, down and tests."""
        state = StackState(
            pid=os.getpid(),
            started_at=started_at(os.getpid()),
            since=self._since,
            phase=self._phase,
            urls=self.urls,
            services=tuple(service.state() for service in self.services),
        )
        save_state(self.layout, state)

    # ---- starting ----

    def start(self, *services: Service) -> None:
        if self.stopping:
            return
        for service in services:
            self.services.append(service)
            service.spawn(self.layout, self.base_env)
        self.remember()

    def wait_ready(self, *services: Service, timeout_sec: float = 90) -> None:
        waiting, end = list(services), time.monotonic() + timeout_sec
        while waiting and not self.stopping:
            self.tick()
            for service in [s for s in waiting if s.pid and s.ready(s)]:
                note(f"{service.name} ready")
                waiting.remove(service)
            if waiting and time.monotonic() > end:
                late = waiting[0]
                note(f"the last lines of {late.name}:\n{late.tail()}")
                raise LabError(
                    f"{late.name} was not ready after {timeout_sec:.0f} s, see {late.log}: {late.cure}"
                )
            time.sleep(TICK_SEC)

    def run_step(
        self, name: str, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, timeout_sec: float = 600
    ) -> None:
        """Run a command to its end while the services are watched."""
        if self.stopping:
            return
        log = self.layout.log / "setup.log"
        rotate(log)
        step_env = {**self.base_env, **env, **mark(self.layout, "setup")}
        process = spawn(argv, env=step_env, cwd=cwd, output=log, die_with_us=signal.SIGTERM)
        self._step_exits[process.pid] = None
        end = time.monotonic() + timeout_sec
        while self._step_exits[process.pid] is None and not self.stopping:
            self.tick()
            if time.monotonic() > end:
                wipe(self.layout, "setup")
                raise LabError(
                    f"{name} did not end in {timeout_sec:.0f} s, see {log}: fix the cause and try again"
                )
            time.sleep(TICK_SEC)
        exit_code = self._step_exits.pop(process.pid)
        process.returncode = exit_code
        if exit_code and not self.stopping:
            note(f"the last lines of {name}:\n{indent(log.read_text(errors='replace').splitlines())}")
            raise LabError(f"{name} ended with exit code {exit_code}, see {log}: fix the cause and try again")

    # ---- watching ----

    def watch(self) -> None:
        while not self.stopping:
            self.tick()
            time.sleep(TICK_SEC)

    def tick(self) -> None:
        """Reap ended processes and restart services whose delay is over."""
        self._reap()
        now = time.monotonic()
        for service in self.services:
            due = service.restart_due is not None and now >= service.restart_due
            if due and not self.stopping and not self._is_held(service):
                self._restart(service)
            elif service.recover(now=now):
                self.remember()
                note(f"{service.name} recovered")

    def _is_held(self, service: Service) -> bool:
        """Return whether the service is kept down by request."""
        return hold_file(self.layout, service.name).exists()

    def _restart(self, service: Service) -> None:
        try:
            service.spawn(self.layout, self.base_env)
        except (OSError, LabError) as error:
            self._on_death(service, f"could not be started: {error}")
            return
        service.restarts += 1
        self.remember()
        note(f"{service.name} restarted")

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            exit_code = os.waitstatus_to_exitcode(status)
            if pid in self._step_exits:
                self._step_exits[pid] = exit_code
            for service in self.services:
                if service.pid == pid:
                    service.ended(exit_code)
                    if not self.stopping:
                        self._on_death(service, describe_exit(exit_code))

    def _on_death(self, service: Service, how: str) -> None:
        if self._is_held(service):
            note(f"{service.name} is held down by {hold_file(self.layout, service.name)}")
            wipe(self.layout, service.name)
            service.await_release()
            self.remember()
            return
        note(f"{service.name} died ({how}), see {service.log}; its last lines:\n{service.tail()}")
        delay_sec = service.count_death(how, now=time.monotonic())
        # a dead condor_master leaves its schedd running: end all processes of the service
        wipe(self.layout, service.name)
        if service.failing and self._phase is Phase.STARTING:
            raise LabError(
                f"{service.name} died {service.deaths} times in a row ({how} the last time), "
                f"see {service.log}: {service.cure}"
            )
        if service.failing:
            note(
                f"degraded: {service.name} died {service.deaths} times in a row. It is started again in "
                f"{delay_sec:g} s, the other services keep running"
            )
        self.remember()

    # ---- stopping ----

    def _on_signal(self, signum: int, _frame: object) -> None:
        self.stop_requests += 1
        how = "stopping" if self.stop_requests == 1 else "stopping at once"
        note(f"{signal.Signals(signum).name}: {how}")

    def stop(self, order: Sequence[Sequence[str]], *, budget_sec: float = STOP_BUDGET_SEC) -> None:
        """Stop the main processes, one group of names after the other; kill those that exceed the time."""
        began = time.monotonic()
        self.stop_requests = max(self.stop_requests, 1)
        self.enter(Phase.STOPPING)
        for names in order:
            living = [s for s in self.services if s.pid and any(fnmatch(s.name, name) for name in names)]
            self._stop_together(living, deadline=began + budget_sec)
        wipe(self.layout)
        self._reap()
        note(f"stopped in {time.monotonic() - began:.1f} s")

    def _stop_together(self, services: Sequence[Service], *, deadline: float) -> None:
        for service in services:
            send(service.pid, service.stop_signal)
            send(service.pid, signal.SIGCONT)  # a frozen process cannot handle the signal
        sent = time.monotonic()
        left_sec = max(STOP_AT_LEAST_SEC, deadline - sent)
        insisting = [service for service in services if service.insist_signal]
        while any(service.pid for service in services) and self.stop_requests < 2:
            self._reap()
            waited = time.monotonic() - sent
            if waited > INSIST_AFTER_SEC:
                for service in insisting:
                    if service.pid and service.insist_signal:
                        send(service.pid, service.insist_signal)
                insisting = []
            for service in services:
                if service.pid and waited > min(service.grace_sec, left_sec):
                    note(f"{service.name} did not stop in {waited:.1f} s: killed")
                    wipe(self.layout, service.name)
            time.sleep(0.02)
        for service in services:
            wipe(self.layout, service.name)
