"""``./wms2 test`` and ``./wms2 bench``: a stack of their own around pytest or the benchmarks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.client import running_stack
from lab.disposable import discard, discard_old_runs
from lab.errors import LabError
from lab.host import private_tmp, reachable_path
from lab.lanes import DISTURBING, lanes
from lab.paths import Layout
from lab.processes import mark, wipe
from lab.services.application import Addresses, application_settings
from lab.tiers import UNIT, rank

PARALLEL = ("-n", "auto", "--dist", "loadfile", "--maxprocesses", "4")
NO_TESTS_COLLECTED = 5
LAST_WORDS_SEC = 5.0
STACK_SETTINGS = {  # of the stack the tests run on
    "WMS2_POOL_SCHEDDS": "2",  # some tests move DAGs from one schedd to another
    "WMS2_TRACES": "otlp",
    "OTEL_TRACES_SAMPLER": "parentbased_always_off",  # only of calls that ask for it
    "OTEL_BSP_SCHEDULE_DELAY": "500",
}
TESTS_OWN = {"WMS2_TRACES": ""}  # a process has one place its spans go to, and a test chooses that


@dataclass(frozen=True, slots=True)
class TestPlan:
    """What pytest is asked to run, and whether it needs services."""

    paths: tuple[str, ...]
    arguments: tuple[str, ...]
    services: bool
    whole: bool = False  # neither a tier nor paths were named

    __test__ = False  # not a test itself


def plan_tests(arguments: Sequence[str], *, root: Path) -> TestPlan:
    """One tier, the paths given, or everything: unit first, then what needs services."""
    rest, tier = list(arguments), None
    for index, argument in enumerate(rest):
        if argument == "--tier" and index + 1 < len(rest):
            tier = rest[index + 1]
            del rest[index : index + 2]
            break
        if argument.startswith("--tier="):
            tier = rest.pop(index).removeprefix("--tier=")
            break
    existing = sorted((d.name for d in (root / "tests").iterdir() if any(d.rglob("test_*.py"))), key=rank)
    if tier is not None and tier not in existing:
        raise LabError(f"there is no test tier {tier!r}: choose from {', '.join(existing)}", exit_code=2)
    chosen = [a for a in rest if not a.startswith("-") and (root / a.partition("::")[0]).exists()]
    paths = () if chosen else tuple(f"tests/{name}" for name in ([tier] if tier else existing))
    return TestPlan(
        paths=paths, arguments=tuple(rest), services=tier != UNIT, whole=not chosen and tier is None
    )


def run_tests(layout: Layout, arguments: list[str]) -> int:
    plan = plan_tests(arguments, root=layout.app)
    for name, value in STACK_SETTINGS.items():
        os.environ.setdefault(name, value)
    if plan.whole:
        code = run_everything(layout, plan.arguments)
    elif plan.services:
        code = run_in_stack(layout, pytest_command(layout, *plan.paths, *plan.arguments))
    else:
        code = run_unit_tests(layout, plan)
    if code in (0, NO_TESTS_COLLECTED):
        discard(layout)
    return code


def run_everything(layout: Layout, arguments: Sequence[str]) -> int:
    """Unit tests first; then all others on one stack, in lanes, and at last those that disturb the rest."""
    unit = run_unit_tests(layout, plan_tests(["--tier", UNIT, *arguments], root=layout.app))
    if unit not in (0, NO_TESTS_COLLECTED):
        return unit
    with running_stack(layout) as stack:
        environment = {**os.environ, **stack.environment, **TESTS_OWN}
        stack.relay.speak = lambda _text: None
        beside = [
            Command(
                argv=pytest_command(layout, *lane.arguments(), *arguments),
                environment={**environment, **lane.environment(environment)},
                log=None if lane.speaks else layout.run / f"tests-{lane.name}.log",
            )
            for lane in lanes(layout.app)
        ]
        codes = run_commands(layout, beside)
        alone = pytest_command(layout, *DISTURBING, *arguments)
        codes.append(run_command(layout, alone, environment))
    return next((code for code in codes if code not in (0, NO_TESTS_COLLECTED)), 0)


def run_unit_tests(layout: Layout, plan: TestPlan) -> int:
    """Unit tests share nothing, so they share the cores."""
    return run_alone(layout, pytest_command(layout, *PARALLEL, *plan.paths, *plan.arguments))


def pytest_command(layout: Layout, *arguments: str) -> list[str]:
    return [str(layout.venv / "bin" / "python"), "-m", "pytest", "-p", "lab.tiers", *arguments]


def run_benchmarks(layout: Layout, arguments: list[str]) -> int:
    code = run_in_stack(layout, [str(layout.venv / "bin" / "python"), "-m", "benchmarks", *arguments])
    if code == 0:
        discard(layout)
    return code


def run_in_stack(layout: Layout, argv: Sequence[str]) -> int:
    """Run a command with everything up. Its last words stay the last: the stack goes down in silence."""
    discard_old_runs(layout)
    with running_stack(layout) as stack:
        environment = {**os.environ, **stack.environment, **TESTS_OWN}
        stack.relay.speak = lambda _text: None
        return run_command(layout, argv, environment)


def run_alone(layout: Layout, argv: Sequence[str]) -> int:
    """Run a command whose settings lead nowhere: a unit test that calls a service fails at once."""
    discard_old_runs(layout)
    layout.make()
    nowhere = "127.0.0.1:1"
    settings = application_settings(layout, Addresses(web=nowhere, flower=nowhere, traces=nowhere))
    settings |= {
        "DATABASE_URL": f"postgres://nobody:nothing@{nowhere}/none",
        "REDIS_URL": f"redis://{nowhere}/0",
        "TMPDIR": str(private_tmp(layout.run)),
        "LC_ALL": "C.UTF-8",
        "PATH": f"{layout.venv / 'bin'}:{reachable_path()}",
    }
    settings |= {
        f"WMS2_{name}_URL": f"http://{nowhere}/{name.lower()}"
        for name in ("REQMGR2", "DBS", "DBS_WRITER", "RUCIO", "RUCIO_AUTH", "CRIC")
    }
    return run_command(layout, argv, {**os.environ, **settings, **TESTS_OWN})


@dataclass(frozen=True, slots=True)
class Command:
    """A command with its environment; what it says goes to the terminal, or to a log shown at its end."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    log: Path | None = None


def run_command(layout: Layout, argv: Sequence[str], environment: Mapping[str, str]) -> int:
    """The command's exit code."""
    return run_commands(layout, [Command(argv, environment)])[0]


def run_commands(layout: Layout, commands: Sequence[Command]) -> list[int]:
    """Run them side by side. After an interrupt, which a terminal sends them too, they may finish."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        processes.extend(_start(layout, command) for command in commands)
        codes = [_exit_code(process.wait()) for process in processes]
    except KeyboardInterrupt:
        end = time.monotonic() + LAST_WORDS_SEC
        while any(process.poll() is None for process in processes) and time.monotonic() < end:
            time.sleep(0.05)
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        raise
    finally:
        wipe(layout, "command")
        for command in commands:
            if command.log is not None and command.log.exists():
                sys.stdout.write(command.log.read_text(errors="replace"))
        sys.stdout.flush()
    return codes


def _start(layout: Layout, command: Command) -> subprocess.Popen[bytes]:
    env = {**command.environment, **mark(layout, "command")}
    if command.log is None:
        return subprocess.Popen(command.argv, cwd=layout.app, env=env)
    with command.log.open("wb") as log:
        return subprocess.Popen(command.argv, cwd=layout.app, env=env, stdout=log, stderr=log)


def _exit_code(returncode: int) -> int:
    """As a shell would tell it: death by signal N is 128 + N."""
    return 128 - returncode if returncode < 0 else returncode
