"""Resources of the benchmarks: databases, a Redis number and a directory, separate from the stack's."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from tempfile import mkdtemp
from urllib.parse import urlsplit

import redis

DATABASE = "wms2_bench"
REDIS_NUMBER = 3


@dataclass(frozen=True, slots=True)
class Places:
    """The configured resources; empty if missing."""

    database_server: str  # a URL with any database of the server; only databases of the benchmarks are opened
    redis: str
    submit_root: str


def take_places(environ: MutableMapping[str, str]) -> Places:
    """Read the environment and configure the application, not yet loaded, for the benchmarks' resources."""
    server = environ.get("WMS2_MIGRATE_DATABASE_URL") or environ.get(
        "DATABASE_URL", ""
    )  # it creates databases
    server_redis = environ.get("REDIS_URL", "")
    places = Places(
        database_server=server,
        redis=with_path(server_redis, str(REDIS_NUMBER)) if server_redis else "",
        submit_root=environ.get("WMS2_SUBMIT_ROOT", ""),
    )
    environ["DATABASE_URL"] = with_path(server, DATABASE) if server else "postgres://127.0.0.1:1/none"
    environ["REDIS_URL"] = places.redis or "redis://127.0.0.1:1/0"
    environ.setdefault("DJANGO_SETTINGS_MODULE", "wms2_project.settings")
    environ.setdefault("WMS2_LAB", "1")
    environ.setdefault("SECRET_KEY", token_hex())
    # Logging and throttles are not part of the measured work.
    environ["WMS2_LOG_LEVEL"] = "ERROR"
    environ["WMS2_THROTTLE_USER"] = "100000000/minute"
    return places


def is_empty(url: str) -> bool:
    """Return whether the Redis database answers and has no keys, so that benchmarks may empty it again."""
    if not url:
        return False
    try:
        with redis.Redis.from_url(url, socket_timeout=5, socket_connect_timeout=5) as server:
            return not server.dbsize()
    except redis.RedisError:
        return False


def with_path(url: str, path: str) -> str:
    """Return the URL with another database of the server."""
    return urlsplit(url)._replace(path=f"/{path}").geturl()


@contextmanager
def submit_root(environ: MutableMapping[str, str]) -> Iterator[Path]:
    """Create a directory for DAGs on the disk that the stack submits from, and set it in the application."""
    root = Path(mkdtemp(prefix="bench-", dir=environ.get("WMS2_SUBMIT_ROOT") or None))
    root.chmod(0o755)
    environ["WMS2_SUBMIT_ROOT"] = str(root)
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def record_path(given: str | None, environ: MutableMapping[str, str]) -> Path:
    """Return the path of the JSON record; a relative path, and the default, are in the state directory.

    A state directory that was made for this run is removed after success; then the directory above it is
    used.
    """
    state = environ.get("WMS2_HOME") or environ.get("WMS2_STATE")
    base = Path(state) if state else Path.cwd()
    if environ.get("WMS2_DISPOSABLE") == "1" and base.parent.name == "runs":
        base = base.parent.parent
    return base / (given or "benchmarks.json")
