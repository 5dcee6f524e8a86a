"""HTCondor: the pool of CONDOR_CONFIG if set, else a personal pool that simulates sites on loopback."""

from __future__ import annotations

import os
import pwd
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from lab.cvmfs import install
from lab.errors import LabError
from lab.files import write_atomically
from lab.service import Service
from lab.services import Ground, Provided

TEMPLATE = Path(__file__).parent.parent / "pool" / "condor_config.template"
SITES = "T1_US_FNAL T2_CH_CERN T2_DE_DESY T2_US_Purdue"
SOFTWARE = "cvmfs"
ROOT_PYTHON = Path(sys.prefix) / "bin" / "python"
SPARE_SPOOL = "spool-spare"
CREDENTIALS = "oauth"  # <owner>/<name>.use in it are the tokens that jobs get
SPARE_DAGMANS = 12  # few, so that tests can fill it
FIRST_MAJOR_WITH_CHANNEL_BINDING = 25


def build(ground: Ground) -> Provided:
    path = os.environ["PATH"]
    if config := os.environ.get("CONDOR_CONFIG"):
        # submitting a DAG looks for condor_dagman on PATH
        ask = [sys.executable, "-c", "import htcondor2; print(htcondor2.param['BIN'])"]
        found = subprocess.run(ask, capture_output=True, text=True, check=False).stdout.strip()
        return Provided((), {"CONDOR_CONFIG": config, "PATH": f"{path}:{found}" if found else path})
    release, pool = Path(os.environ["HTCONDOR_HOME"]), ground.layout.data / "condor"
    sites = pool_sites()
    config_file = pool / "condor_config"
    owner = pwd.getpwuid(os.getuid()).pw_name  # getpass.getuser() uses the environment
    credentials = pool / CREDENTIALS / owner
    parts = ("log", "spool", SPARE_SPOOL, "execute", "lock", "run", "etc", "cred", "config.d", credentials)
    for part in parts:
        (pool / part).mkdir(mode=0o700, parents=True, exist_ok=True)
    install(pool / SOFTWARE, python=str(ROOT_PYTHON))
    name = f"wms2-{ground.layout.key}"
    text = render_config(release, pool, ground.sockets / "c", name, sites, owner=owner)
    write_atomically(config_file, text)
    settings = {
        "CONDOR_CONFIG": str(config_file),
        "PATH": f"{release}/bin:{release}/sbin:{path}",
        "WMS2_CREDENTIAL_DIR": str(credentials),
    }
    settings |= {"WMS2_SCHEDDS": f"{name}@pool.local,{spare_name(name)}"} if has_spare() else {}

    def ready(_service: Service) -> bool:
        return accepts_jobs(pool, {**os.environ, **settings}, slots=len(sites))

    service = Service(
        name="condor",
        argv=[
            str(release / "sbin" / "condor_master"),
            "-f",
            "-t",
            "-pidfile",
            str(pool / "run" / "master.pid"),
        ],
        ready=ready,
        log=ground.layout.log / "condor.log",
        cwd=pool,
        env=settings,
        before_spawn=lambda: forget_addresses(pool),
        stop_signal=signal.SIGQUIT,  # the fast shutdown: jobs are requeued, DAGMan resumes at the next start
        grace_sec=2.5,
        cure=f"read SchedLog and StartLog in {pool / 'log'}, or name another pool with CONDOR_CONFIG",
    )
    return Provided((service,), settings)


def pool_sites() -> list[str]:
    """Return the names of the sites that the pool, and the grid, play."""
    return os.environ.get("WMS2_POOL_SITES", SITES).split()


def has_spare() -> bool:
    """Return whether the pool has a second schedd, which mainly tests need."""
    return int(os.environ.get("WMS2_POOL_SCHEDDS", 1)) > 1


def spare_name(name: str) -> str:
    """Return the second schedd's name."""
    return f"{name}-spare@pool.local"


def render_spare(name: str) -> str:
    """Return the configuration of a second schedd: its own queue, the same machines and directories."""
    if not has_spare():
        return ""
    return (
        "DAEMON_LIST = $(DAEMON_LIST), SPARE\n"
        "DC_DAEMON_LIST = + SPARE\n"
        "SPARE = $(SBIN)/condor_schedd\n"
        "SPARE_ARGS = -local-name SPARE\n"
        f"SPARE.SCHEDD_NAME = {spare_name(name)}\n"
        f"SPARE.SPOOL = $(LOCAL_DIR)/{SPARE_SPOOL}\n"
        f"SPARE.HISTORY = $(LOCAL_DIR)/{SPARE_SPOOL}/history\n"
        f"SPARE.SCHEDD_ADDRESS_FILE = $(LOCAL_DIR)/{SPARE_SPOOL}/.schedd_address\n"
        f"SPARE.SCHEDD_DAEMON_AD_FILE = $(LOCAL_DIR)/{SPARE_SPOOL}/.schedd_classad\n"
        f"SPARE.MAX_RUNNING_SCHEDULER_JOBS_PER_OWNER = {SPARE_DAGMANS}\n"
        "SPARE.SCHEDD_LOG = $(LOG)/SpareSchedLog"
    )


def accepts_jobs(pool: Path, env: Mapping[str, str], *, slots: int) -> bool:
    """Return whether every site's slot is advertised and every schedd answers."""
    spools = ("spool", SPARE_SPOOL) if has_spare() else ("spool",)
    addresses = [pool / "log" / ".collector_address", *(pool / one / ".schedd_address" for one in spools)]
    if not all(address.exists() for address in addresses):
        return False
    status = subprocess.run(["condor_status", "-af", "Name"], env=env, capture_output=True, check=False)
    if status.returncode or len(status.stdout.splitlines()) < slots:
        return False
    return subprocess.run(["condor_q", "-totals"], env=env, capture_output=True, check=False).returncode == 0


def forget_addresses(pool: Path) -> None:
    """Remove address files of a dead pool, whose ports may belong to others."""
    for directory in (pool / "log", pool / "spool", pool / SPARE_SPOOL):
        for pattern in (".*address", ".*ad"):
            for path in directory.glob(pattern):
                path.unlink()


def render_config(
    release: Path, pool: Path, sockets: Path, name: str, sites: list[str], *, owner: str
) -> str:
    """Return the pool's configuration; its daemons accept commands of the owner only."""
    cpus = int(os.environ.get("WMS2_POOL_CPUS_PER_SITE", 4))
    memory_mb = int(os.environ.get("WMS2_POOL_MEMORY_MB_PER_SITE", 8192))
    values = {
        "RELEASE": release,
        "DIR": pool,
        "LIBEXEC": find_libexec(release),
        "SOCKETS": sockets,
        "NAME": name,
        "SPARE_SCHEDD": render_spare(name),
        "OWNER": owner,
        "ROOT_PYTHON": ROOT_PYTHON,
        "SOFTWARE": f"$(LOCAL_DIR)/{SOFTWARE}",
        "CREDENTIALS": f"$(LOCAL_DIR)/{CREDENTIALS}",
        "CHANNEL_BINDING": channel_binding(release),
        "TOTAL_CPUS": cpus * len(sites),
        "TOTAL_MEMORY": memory_mb * len(sites),
        "SLOTS": "\n".join(render_slot(n, site, cpus, memory_mb) for n, site in enumerate(sites, 1)),
    }
    return re.sub(r"@([A-Z_]+)@", lambda found: str(values[found[1]]), TEMPLATE.read_text())


def render_slot(number: int, site: str, cpus: int, memory_mb: int) -> str:
    """Return the configuration of one partitionable slot per site, all in one startd."""
    kind = f"SLOT_TYPE_{number}"
    return (
        f"{kind} = cpus={cpus}, memory={memory_mb}, disk=auto, swap=auto\n"
        f"NUM_{kind.replace('SLOT', 'SLOTS', 1)} = 1\n"
        f"{kind}_PARTITIONABLE = True\n"
        f'{kind}_GLIDEIN_CMSSite = "{site}"'
    )


def find_libexec(release: Path) -> Path:
    places = [release / "libexec" / "condor", release / "lib" / "condor" / "libexec", release / "libexec"]
    for place in places:
        if (place / "condor_shared_port").exists():
            return place
    raise LabError(
        f"{release} holds no HTCondor daemons (no condor_shared_port): remove it and run ./wms2 up"
    )


def channel_binding(release: Path) -> str:
    """Return the setting for daemons older than 25.

    The Python client binds FS authentication to the server's address, a protocol that older daemons do not
    know. The check is relaxed only for those.
    """
    done = subprocess.run([release / "bin" / "condor_version"], capture_output=True, text=True, check=False)
    found = re.search(r"CondorVersion: (\d+)\.", done.stdout)
    if not found:
        raise LabError(
            f"{release}/bin/condor_version does not run: remove {release.parent} and run ./wms2 up"
        )
    old = int(found[1]) < FIRST_MAJOR_WITH_CHANNEL_BINDING
    return "SEC_FS_ENFORCE_CHANNEL_BINDING = False" if old else ""
