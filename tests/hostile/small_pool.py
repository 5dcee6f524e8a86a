"""A pool of a collector and a schedd in the lab's configuration, and clients of it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import htcondor2

from lab.services.condor import render_config

START_SEC = 60.0
SMALL = """
DAEMON_LIST = MASTER, COLLECTOR, SCHEDD
USE_SHARED_PORT = False
"""


@contextmanager
def running_pool(home: Path, *, owner: str) -> Iterator[str]:
    """Start daemons as this process's user that obey `owner`; yield the collector's address."""
    release = Path(htcondor2.param["RELEASE_DIR"])
    for part in ("log", "spool", "execute", "lock", "run", "etc", "cred", "config.d"):
        (home / part).mkdir(parents=True)
    config = home / "condor_config"
    config.write_text(render_config(release, home, home / "s", "small", ["T2_CH_CERN"], owner=owner))
    (home / "config.d" / "small").write_text(SMALL)
    master = subprocess.Popen(
        [release / "sbin" / "condor_master", "-f", "-t"],
        env={**os.environ, "CONDOR_CONFIG": str(config)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=home,
    )
    try:
        yield _collector(home, master)
    finally:
        master.terminate()
        try:
            master.wait(timeout=30)
        except subprocess.TimeoutExpired:
            master.kill()
            master.wait()


def run_tool(
    home: Path, collector: str, *argv: str, settings: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run an HTCondor tool that knows the daemons' addresses and `settings`, and nothing else."""
    config = home / "client_config"
    schedd = (home / "spool" / ".schedd_address").read_text().splitlines()[0]
    base = {
        "RELEASE_DIR": str(htcondor2.param["RELEASE_DIR"]),
        "LIBEXEC": str(htcondor2.param["LIBEXEC"]),
        "COLLECTOR_HOST": collector,
        "SCHEDD_ADDRESS_FILE": str(home / "spool" / ".schedd_address"),
        "UID_DOMAIN": "pool.local",
        "ENABLE_IPV6": "False",
        "NO_DNS": "True",
        "DEFAULT_DOMAIN_NAME": "localdomain",
        "SEC_FS_ENFORCE_CHANNEL_BINDING": "False",
    }
    config.write_text("".join(f"{name} = {value}\n" for name, value in {**base, **settings}.items()))
    env = {**os.environ, "CONDOR_CONFIG": str(config)}
    argv = tuple(schedd if word == "SCHEDD" else word for word in argv)
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=60, cwd=home)


def _collector(home: Path, master: subprocess.Popen[bytes]) -> str:
    collector, schedd = home / "log" / ".collector_address", home / "spool" / ".schedd_address"
    end = time.monotonic() + START_SEC
    while not (_is_written(collector) and _is_written(schedd)):
        assert master.poll() is None, "the pool's master ended"
        assert time.monotonic() < end, "the pool did not start"
        time.sleep(0.05)
    return collector.read_text().splitlines()[0]


def _is_written(path: Path) -> bool:
    return path.exists() and len(path.read_text().splitlines()) >= 2
