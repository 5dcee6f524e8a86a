"""``./wms2 test`` and ``./wms2 bench``: run pytest or the benchmarks in a stack of their own."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from lab.client import Stack, running_stack, say
from lab.disposable import discard, discard_old_runs
from lab.errors import LabError
from lab.host import private_tmp, reachable_path
from lab.lanes import DISTURBING, ON_STORAGE_SERVERS, lanes
from lab.paths import Layout
from lab.results import FAILED, NO_TESTS_COLLECTED, Result, render_summary
from lab.running import Command, Commands, run_command
from lab.services.application import Addresses, application_settings
from lab.services.postgres import MIGRATED_COPY
from lab.stack import SERVERS
from lab.tiers import UNIT, WITHOUT_SERVICES, rank, with_seed
from lab.tree import changes, snapshot

PARALLEL = ("-n", "auto", "--dist", "loadfile", "--maxprocesses", "4")
LEFT = "the tests created, changed or removed it: they must write below tmp_path or SUBMIT_ROOT"
PLAIN_STORAGE = {"WMS2_LAB_STORAGE": "file"}  # cheaper; tests of the grid's servers use them by themselves
STORAGE_SERVERS = {"WMS2_LAB_STORAGE": "grid"}
STACK_SETTINGS = {  # of the stack the tests run on
    "WMS2_LAB_FSYNC": "0",  # a killed server loses nothing that the system's cache has
    "WMS2_POOL_SCHEDDS": "2",  # for tests that move DAGs between schedds
    "WMS2_DEFAULT_PAYLOAD": "toy",
    "WMS2_LAB_BROKER": "0",  # tests of the intake have a broker of their own
    "WMS2_TRACES": "otlp",
    "OTEL_TRACES_SAMPLER": "parentbased_always_off",  # only for calls that request it
    "OTEL_BSP_SCHEDULE_DELAY": "500",
}
TESTS_OWN = {"WMS2_TRACES": ""}  # a test sets the exporter of its process


@dataclass(frozen=True, slots=True)
class TestPlan:
    """Tests to run, and whether they need services."""

    paths: tuple[str, ...]
    arguments: tuple[str, ...]
    services: bool
    whole: bool = False  # neither a tier nor paths were named

    __test__ = False  # not a test itself

    @property
    def on_storage_servers(self) -> bool:
        """Return whether some of the named tests break the storage that jobs use."""
        named = [*self.paths, *self.arguments]
        return not self.whole and any(
            path.startswith(name.partition("::")[0].rstrip("/"))
            for path in ON_STORAGE_SERVERS
            for name in named
            if name.startswith("tests/")
        )


def plan_tests(arguments: Sequence[str], *, root: Path) -> TestPlan:
    """Plan one tier, the given paths, or everything: unit tests first, then those with services."""
    rest, tier = with_seed(arguments), None
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
        paths=paths,
        arguments=tuple(rest),
        services=tier not in WITHOUT_SERVICES,
        whole=not chosen and tier is None,
    )


def run_tests(layout: Layout, arguments: list[str]) -> int:
    plan = plan_tests(arguments, root=layout.app)
    storage = STORAGE_SERVERS if plan.on_storage_servers else PLAIN_STORAGE
    database = {} if "DATABASE_URL" in os.environ else {MIGRATED_COPY: "wms2_migrated"}
    for name, value in (STACK_SETTINGS | storage | database).items():
        os.environ.setdefault(name, value)
    code = run_everything(layout, plan.arguments) if plan.whole else run_some(layout, plan)
    if code in (0, NO_TESTS_COLLECTED):
        discard(layout)
    return code


def run_some(layout: Layout, plan: TestPlan) -> int:
    """Run one pytest on the terminal; return its exit code, or 1 if the tests left files behind."""
    before = snapshot(layout.app)
    if plan.services:
        code = run_in_stack(layout, pytest_command(layout, *plan.paths, *plan.arguments))
    else:
        code = run_without_services(layout, plan)
    left = changes(before, snapshot(layout.app))
    for path in left:
        say(f"error: {path}: {LEFT}")
    return code or int(bool(left))


def run_everything(layout: Layout, arguments: Sequence[str]) -> int:
    """Run every test, also after failures, and print one summary."""
    discard_old_runs(layout)
    layout.make()
    began, before = time.monotonic(), snapshot(layout.app)
    commands, left = Commands(layout), list[Result]()
    try:
        with commands:
            try:
                _run_everything(layout, commands, arguments)
            except LabError:  # there is no stack, but unit tests need none
                commands.wait()
                raise
        left = [Result(path, FAILED, reason=LEFT) for path in changes(before, snapshot(layout.app))]
    finally:
        results = [*commands.results(), *left]
        print(render_summary(results, seconds=time.monotonic() - began), flush=True)
    return int(any(result.outcome == FAILED for result in results))


def _run_everything(layout: Layout, commands: Commands, arguments: Sequence[str]) -> None:
    """Run lanes on one stack and disturbing tests on another, with unit tests in parallel."""
    tests = layout.app / "tests"
    alone = [f"tests/{tier}" for tier in WITHOUT_SERVICES if (tests / tier).is_dir()]
    unit = ["nice", "-n", "5", *pytest_command(layout, *PARALLEL, *alone, *arguments)]
    commands.start(Command(UNIT, unit, unit_environment(layout)))
    disturbing = pytest_command(layout, *DISTURBING, *arguments)
    with running_stack(layout) as stack:
        stack.relay.speak = lambda _text: None
        environment = {**os.environ, **stack.environment, **TESTS_OWN}
        beside = [
            commands.start(
                Command(
                    lane.name,
                    pytest_command(layout, *lane.arguments(), *arguments),
                    {**environment, **lane.environment(environment)},
                )
            )
            for lane in lanes(layout.app)
        ]
        if any(os.environ.get(name) for name in SERVERS):  # given from outside: both stacks would share them
            commands.wait(*beside)
            commands.start(Command("disturbing", disturbing, environment))
            commands.wait()
            return
        try:
            with second_stack(layout) as other:
                environment = {**os.environ, **other.environment, **TESTS_OWN}
                commands.wait(commands.start(Command("disturbing", disturbing, environment)))
        except LabError:  # the lanes need only the first stack
            commands.wait()
            raise
        commands.wait()  # without the second stack, which takes CPU time even while idle


def second_stack(layout: Layout) -> AbstractContextManager[Stack]:
    """Start a second stack, for tests that kill its servers. Its jobs use the storage servers."""
    second = replace(layout, home=layout.home / "second")
    variables = {name: value for name, value in os.environ.items() if name != "WMS2_PORT"}
    variables |= {"WMS2_HOME": str(second.home), **STORAGE_SERVERS}
    return running_stack(second, speak=lambda _text: None, variables=variables)


def run_without_services(layout: Layout, plan: TestPlan) -> int:
    """Run tests in parallel."""
    return run_alone(layout, pytest_command(layout, *PARALLEL, *plan.paths, *plan.arguments))


def pytest_command(layout: Layout, *arguments: str) -> list[str]:
    python = str(layout.venv / "bin" / "python")
    return [python, "-m", "pytest", "-p", "lab.tiers", "-p", "lab.results", *arguments]


def run_benchmarks(layout: Layout, arguments: list[str]) -> int:
    os.environ |= PLAIN_STORAGE
    code = run_in_stack(layout, [str(layout.venv / "bin" / "python"), "-m", "benchmarks", *arguments])
    if code == 0:
        discard(layout)
    return code


def run_simulation(layout: Layout, arguments: list[str]) -> int:
    """Simulate with a private PostgreSQL, the only service that a simulation needs."""
    os.environ["WMS2_SERVICES"] = "postgres"
    code = run_in_stack(layout, [str(layout.venv / "bin" / "python"), "-m", "lab.simulator", *arguments])
    discard(layout)
    return code


def run_in_stack(layout: Layout, argv: Sequence[str]) -> int:
    """Run a command with the whole stack; the stack is stopped without output."""
    discard_old_runs(layout)
    with running_stack(layout) as stack:
        environment = {**os.environ, **stack.environment, **TESTS_OWN}
        stack.relay.speak = lambda _text: None
        return run_command(layout, argv, environment)


def run_alone(layout: Layout, argv: Sequence[str]) -> int:
    """Run a command that needs no services."""
    discard_old_runs(layout)
    layout.make()
    return run_command(layout, argv, unit_environment(layout))


def unit_environment(layout: Layout) -> dict[str, str]:
    """Return settings without reachable services: a unit test that calls one fails at once."""
    nowhere = "127.0.0.1:1"
    addresses = Addresses(web=nowhere, streams=nowhere, flower=nowhere, traces=nowhere)
    settings = application_settings(layout, addresses)
    own = layout.run / UNIT  # the stack empties its own TMPDIR when it starts
    own.mkdir(mode=0o700, exist_ok=True)
    settings |= {
        "DATABASE_URL": f"postgres://absent:nothing@{nowhere}/none",
        "WMS2_MIGRATE_DATABASE_URL": "",
        "REDIS_URL": f"redis://{nowhere}/0",
        "TMPDIR": str(private_tmp(own)),
        "LC_ALL": "C.UTF-8",
        "PATH": f"{layout.venv / 'bin'}:{reachable_path()}",
    }
    settings |= {
        f"WMS2_{name}_URL": f"http://{nowhere}/{name.lower()}"
        for name in ("REQMGR2", "DBS", "DBS_WRITER", "CONFIG_CACHE", "RUCIO", "RUCIO_AUTH", "CRIC")
    }
    return {**os.environ, **settings, **TESTS_OWN}
