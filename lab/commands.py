"""The commands up, down, status, env, cli, manage and logs."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import time
from pathlib import Path
from typing import NoReturn

from lab.client import Stack, running_stack, say, take_down
from lab.errors import LabError
from lab.files import write_atomically
from lab.paths import Layout
from lab.services.postgres import MIGRATE_URL
from lab.state import Phase, StackState, load_state

EXIT_DOWN = 3
EXIT_NOT_WHOLE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXPORTS = (
    "WMS2_URL",
    "WMS2_TOKEN",
    "WMS2_STATE",
    "WMS2_PRIVATE",
    "DATABASE_URL",
    "REDIS_URL",
    "CONDOR_CONFIG",
    "WMS2_LAB_GRID",
    "FLOWER_URL",
    "FLOWER_BASIC_AUTH",
    "PATH",
)


def up(layout: Layout, *, detach: bool) -> int:
    ready = False
    try:
        with running_stack(layout, stay=detach) as stack:
            ready = True
            if not stack.ours:
                print("already up")
            print(describe(layout, stack.state), flush=True)
            if not detach:
                stack.watch()
    except KeyboardInterrupt:
        return 0 if ready else EXIT_INTERRUPTED
    return 0


def describe(layout: Layout, state: StackState) -> str:
    """Return the addresses of the stack."""
    places = dict(state.urls)
    if places:
        places["login"] = f"operator, password in {layout.operator_password}"
    places |= {"state": str(layout.home), "supervisor": str(state.pid)}
    return "\n".join(f"{name:<11} {place}" for name, place in places.items())


def down(layout: Layout) -> int:
    began = time.monotonic()
    if take_down(layout):
        say(f"down in {time.monotonic() - began:.1f} s")
    else:
        say(f"no stack was running in {layout.home}")
    return 0


def status(layout: Layout) -> int:
    state = load_state(layout)
    if state is None:
        print(f"down: no stack runs in {layout.home}")
        return EXIT_DOWN
    print(render_status(state, now=time.time()))
    print(describe(layout, state))
    for service in state.failing:
        print(
            f"degraded: {service.name} died {service.deaths} times in a row ({service.last_death} the last "
            f"time) and is restarted automatically: read {service.log} and fix the cause"
        )
    return 0 if state.whole else EXIT_NOT_WHOLE


def render_status(state: StackState, *, now: float) -> str:
    rows = [("service", "pid", "state", "uptime", "restarts")]
    phase = "degraded" if state.phase is Phase.READY and state.failing else str(state.phase)
    rows.append(("supervisor", str(state.pid), phase, span(now - state.since), ""))
    for service in state.services:
        word = "failing" if service.failing else "up" if service.alive else "held" if service.held else "dead"
        uptime = span(now - service.since) if service.alive else ""
        rows.append((service.name, str(service.pid or "-"), word, uptime, str(service.restarts or "")))
    width = max(len(row[0]) for row in rows)
    return "\n".join(f"{a:<{width}} {b:>8}  {c:<9} {d:>9}  {e}".rstrip() for a, b, c, d, e in rows)


def span(seconds: float) -> str:
    minutes, sec = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{sec:02}s" if minutes else f"{sec}s"


def inside(layout: Layout) -> dict[str, str]:
    """Return the environment of the running stack."""
    state = load_state(layout)
    if state is None or state.phase is not Phase.READY:
        raise LabError(f"no stack is up in {layout.home}: run ./wms2 up --detach first", exit_code=EXIT_DOWN)
    return Stack(layout).environment


def env(layout: Layout) -> int:
    environment = inside(layout)
    environment["PATH"] = f"{write_client(layout).parent}:{environment['PATH']}"
    print(render_exports(environment))
    return 0


def write_client(layout: Layout) -> Path:
    """Write the command `wms2`, which starts the client with the stack's Python, and return its path."""
    script = layout.home / "bin" / "wms2"
    script.parent.mkdir(exist_ok=True)
    python, package = shlex.quote(str(layout.venv / "bin" / "python")), shlex.quote(str(layout.app / "cli"))
    text = f'#!/bin/sh\nPYTHONPATH={package} exec {python} -P -m wms2_cli "$@"\n'
    write_atomically(script, text, mode=0o755)
    return script


def cli(layout: Layout, arguments: list[str]) -> NoReturn:
    script = str(write_client(layout))
    with contextlib.suppress(OSError):  # a directory that is closed to the stack's user
        os.chdir(os.environ.get("WMS2_FROM", "/"))
    os.execve(script, [script, *arguments], {**os.environ, **inside(layout)})  # noqa: S606 - no shell


def render_exports(environment: dict[str, str]) -> str:
    """Return lines for `eval` in a shell, with quoted values."""
    known = [name for name in EXPORTS if name in environment]
    return "\n".join(f"export {name}={shlex.quote(environment[name])}" for name in known)


def manage(layout: Layout, arguments: list[str]) -> NoReturn:
    environment = {**os.environ, **inside(layout)}
    if arguments[:1] in (["migrate"], ["database_access"]) and environment.get(MIGRATE_URL):
        environment["DATABASE_URL"] = environment[MIGRATE_URL]  # only the owner may change tables
    python = str(layout.venv / "bin" / "python")
    os.chdir(layout.app)
    os.execve(python, [python, str(layout.app / "manage.py"), *arguments], environment)  # noqa: S606 - no shell


def logs(layout: Layout, arguments: list[str]) -> int:
    follow = "-f" in arguments
    names = [argument for argument in arguments if argument != "-f"]
    found = find_logs(layout)
    if not names:
        for name, path in sorted(found.items()):
            print(f"{name:<24} {path.stat().st_size:>10}  {path}")
        return 0
    if len(names) > 1 or names[0].startswith("-"):
        wrong = " ".join(names[1:] or names)
        message = f"logs takes one name and -f, not {wrong}: run ./wms2 logs to see the names"
        raise LabError(message, exit_code=EXIT_USAGE)
    if names[0] not in found:
        choice = "".join(f"\n  {name}" for name in sorted(found)) or " none, there is no log yet"
        raise LabError(f"no log {names[0]!r} in {layout.log}: choose from{choice}", exit_code=EXIT_USAGE)
    sys.stdout.flush()
    tail = ["tail", "-n", "100", *(["-F"] if follow else []), str(found[names[0]])]
    os.execvp(tail[0], tail)  # noqa: S606 - no shell


def find_logs(layout: Layout) -> dict[str, Path]:
    """Return every log of the stack by a short name, including those of HTCondor's daemons."""
    found = {path.stem: path for path in layout.log.glob("*.log")}
    pool = layout.data / "condor" / "log"
    found |= {f"condor/{path.name}": path for path in pool.glob("*Log*") if path.is_file()}
    return found
