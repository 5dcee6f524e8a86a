"""Main function of the supervisor: the services of a stack and their order."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from lab.errors import LabError
from lab.files import write_atomically
from lab.host import check_host, private_tmp, reachable_path, socket_directory
from lab.paths import Layout
from lab.ports import PortBook
from lab.processes import clear_leftovers
from lab.service import release_all
from lab.services import Ground, application, broker, cms_world, condor, grid, postgres, redis
from lab.state import Phase, take_lock
from lab.supervisor import Supervisor, note

BASE = {
    "condor": condor.build,
    "postgres": postgres.build,
    "redis": redis.build,
    "grid": grid.build,
    "cms_world": cms_world.build,  # after the grid, which has the addresses of the sites' storage
    "broker": broker.build,  # nothing where RabbitMQ is not installed
}
LATE = ("epmd", "broker")  # started when the stack is ready, which waits for neither
APPLICATION = "application"
SERVERS = ("DATABASE_URL", "REDIS_URL", "CONDOR_CONFIG")
STOP_ORDER = [
    ["beat", "flower", "streams", "web", application.INTAKE, *application.WORKERS],
    ["condor", "cms_world", *LATE],
    [grid.ISSUER, f"{grid.STORAGE_PREFIX}*"],
    ["redis"],
    ["postgres"],
]
GAVE_UP = "gave up: "
FOREIGN_PREFIXES = ("_CONDOR_", "PG", "PYTHON")  # settings of other pools, databases and interpreters


def supervise(layout: Layout) -> int:
    """Start the stack, watch it until a signal, stop it; return 0 if it was complete."""
    layout.make()
    lock = take_lock(layout)
    if lock is None:
        return 0  # another supervisor was faster
    layout.failure.unlink(missing_ok=True)
    release_all(layout)
    write_atomically(layout.run / "venv", str(layout.venv))
    try:
        if met := clear_leftovers(layout):
            note(f"the last run left {met} processes behind: cleared")
        check_host(layout, warn=note)
        sockets = socket_directory(layout)
        compose_environment(layout, private_tmp(sockets))
        with supervising(layout, sockets) as supervisor:
            bring_up(supervisor, Ground(layout, PortBook(layout.data / "ports.json"), sockets))
            supervisor.watch()
    except LabError as error:
        note(f"{GAVE_UP}{error}")
        write_atomically(layout.failure, str(error))
        return error.exit_code
    return 0


def compose_environment(layout: Layout, tmp: Path) -> None:
    """Set the base environment of all children: without foreign settings, in UTF-8."""
    for name in [name for name in os.environ if name.startswith(FOREIGN_PREFIXES)]:
        del os.environ[name]
    os.environ.update(
        {
            "TMPDIR": str(tmp),
            "LC_ALL": "C.UTF-8",
            "PATH": f"{layout.venv / 'bin'}:{reachable_path()}:{os.environ.get('WMS2_XROOTD_HOME', '')}/bin",
            "PYTHONPATH": str(layout.app),
        }
    )


@contextlib.contextmanager
def supervising(layout: Layout, sockets: Path) -> Iterator[Supervisor]:
    """Yield a supervisor; at the end of the block its services are stopped and its files removed."""
    supervisor = Supervisor(layout, os.environ)
    try:
        yield supervisor
    finally:
        supervisor.stop(STOP_ORDER)
        layout.state.unlink(missing_ok=True)
        layout.environment.unlink(missing_ok=True)
        if sockets != layout.run:
            shutil.rmtree(sockets, ignore_errors=True)


def bring_up(supervisor: Supervisor, ground: Ground) -> None:
    wanted = wanted_services()
    addresses = application.pick_addresses(ground.ports)  # first, so that a port in use is reported at once
    provided = [build(ground) for name, build in BASE.items() if name in wanted]
    settings = application.application_settings(ground.layout, addresses)
    for part in provided:
        settings |= part.settings
    private = [name for part in provided if part.services for name in part.settings if name in SERVERS]
    settings["WMS2_PRIVATE"] = " ".join(private)  # a later ./wms2 must not treat these as external servers
    services = [service for part in provided for service in part.services]
    pool = [service for service in services if service.name == "condor"]
    late = [service for service in services if service.name in LATE]
    others = [service for service in services if service not in (*pool, *late)]
    supervisor.start(*pool, *others)
    supervisor.wait_ready(*others)
    if APPLICATION in wanted:  # the pool starts slowest; services that do not use it start meanwhile
        set_up_database(supervisor, ground, settings)
        parts = application.build(ground, addresses, settings)
        beat = [part for part in parts if part.name == "beat"]
        supervisor.start(*(part for part in parts if part not in beat))
        supervisor.wait_ready(*pool)
        supervisor.start(*beat)
        supervisor.wait_ready(*parts)
        supervisor.urls = application.urls(addresses)
    else:
        supervisor.wait_ready(*pool)
    if not supervisor.stopping:
        inside = {name: os.environ[name] for name in ("PATH", "LC_ALL", "TMPDIR")} | settings
        write_atomically(ground.layout.environment, json.dumps(inside))
        note("ready")
        supervisor.enter(Phase.READY)
        supervisor.start(*late)
        if late and APPLICATION in wanted:
            supervisor.start(application.build_intake(ground, settings))


def set_up_database(supervisor: Supervisor, ground: Ground, settings: Mapping[str, str]) -> None:
    """Migrate as the owner of the tables; do the rest as the role that runs, without its password."""
    manage = [sys.executable, "-P", "-m", "lab.manage"]
    url = settings.get(postgres.MIGRATE_URL)
    owner = {**settings, "DATABASE_URL": url} if url else settings
    runner = {**settings, postgres.MIGRATE_URL: ""}

    def run_step(name: str, commands: list[list[str]], env: Mapping[str, str]) -> None:
        supervisor.run_step(name, [*manage, json.dumps(commands)], env=env, cwd=ground.layout.app)

    run_step("migrating the database", application.migrate_commands(settings), owner)
    if copy := os.environ.get(postgres.MIGRATED_COPY):
        postgres.copy_migrated(owner["DATABASE_URL"], copy)
    run_step("setting up the database", application.setup_commands(ground.layout, settings), runner)


def wanted_services() -> set[str]:
    """Return all services, or those named by WMS2_SERVICES."""
    known = {*BASE, APPLICATION}
    wanted = set(os.environ.get("WMS2_SERVICES", "").replace(",", " ").split()) or known
    if unknown := sorted(wanted - known):
        raise LabError(f"WMS2_SERVICES names {', '.join(unknown)}: choose from {', '.join(sorted(known))}")
    return wanted
