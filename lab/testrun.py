"""``./wms2 test`` and ``./wms2 bench``: a stack of their own around pytest or the benchmarks."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.client import running_stack
from lab.disposable import discard, discard_old_runs
from lab.errors import LabError
from lab.host import private_tmp, reachable_path
from lab.paths import Layout
from lab.processes import mark, wipe
from lab.services.application import Addresses, application_settings
from lab.tiers import UNIT, rank

PARALLEL = ("-n", "auto", "--dist", "loadfile", "--maxprocesses", "4")
NO_TESTS_COLLECTED = 5
LAST_WORDS_SEC = 5.0


@dataclass(frozen=True, slots=True)
class TestPlan:
    """What pytest is asked to run, and whether it needs services."""

    paths: tuple[str, ...]
    arguments: tuple[str, ...]
    services: bool

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
    return TestPlan(paths=paths, arguments=tuple(rest), services=tier != UNIT)


def run_tests(layout: Layout, arguments: list[str]) -> int:
    plan = plan_tests(arguments, root=layout.app)
    argv = [
        str(layout.venv / "bin" / "python"),
        "-m",
        "pytest",
        "-p",
        "lab.tiers",
        # Unit tests share nothing, so they share the cores; the others share one stack.
        *(() if plan.services else PARALLEL),
        *plan.paths,
        *plan.arguments,
    ]
    code = run_in_stack(layout, argv) if plan.services else run_alone(layout, argv)
    if code in (0, NO_TESTS_COLLECTED):
        discard(layout)
    return code


def run_benchmarks(layout: Layout, arguments: list[str]) -> int:
    code = run_in_stack(layout, [str(layout.venv / "bin" / "python"), "-m", "benchmarks", *arguments])
    if code == 0:
        discard(layout)
    return code


def run_in_stack(layout: Layout, argv: Sequence[str]) -> int:
    """Run a command with everything up. Its last words stay the last: the stack goes down in silence."""
    discard_old_runs(layout)
    with running_stack(layout) as stack:
        environment = {**os.environ, **stack.environment}
        stack.relay.speak = lambda _text: None
        return run_command(layout, argv, environment)


def run_alone(layout: Layout, argv: Sequence[str]) -> int:
    """Run a command whose settings lead nowhere: a unit test that calls a service fails at once."""
    discard_old_runs(layout)
    layout.make()
    nowhere = "127.0.0.1:1"
    settings = application_settings(layout, Addresses(web=nowhere, flower=nowhere))
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
    return run_command(layout, argv, {**os.environ, **settings})


def run_command(layout: Layout, argv: Sequence[str], environment: Mapping[str, str]) -> int:
    """The command's exit code. After an interrupt, which a terminal sends it too, it may finish speaking."""
    env = {**environment, **mark(layout, "command")}
    process = subprocess.Popen(argv, cwd=layout.app, env=env)
    try:
        return _exit_code(process.wait())
    except KeyboardInterrupt:
        end = time.monotonic() + LAST_WORDS_SEC
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        raise
    finally:
        wipe(layout, "command")


def _exit_code(returncode: int) -> int:
    """As a shell would tell it: death by signal N is 128 + N."""
    return 128 - returncode if returncode < 0 else returncode
