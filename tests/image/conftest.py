"""The image, and the application started from it on the lab's PostgreSQL, Redis, HTCondor and CMS."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import htcondor2
import psycopg
import pytest
from psycopg import sql

from lab.ports import PortBook
from tests.conftest import OWNER_URL, RUN_URL
from tests.image.application import Application, Image, namespaces_problem
from tests.image.compose import read_services
from tests.image.tls import relay
from tests.integration.receiver import certificate
from tests.pool import schedd_names

__all__ = ["certificate"]  # a fixture

IMAGE, MISSING = "WMS2_IMAGE", "WMS2_IMAGE_MISSING"  # as lab/bootstrap/image.sh leaves them
KEY = "k4Zq-" * 12
REDIS_DATABASE = 3  # the stack and the lanes of the test run use 0, 1 and 2
SHORT_WAITS = {  # a production's patience, shortened
    "WMS2_SWEEP_INTERVAL_SEC": "1",
    "WMS2_MONITOR_INTERVAL_SEC": "1",
    "WMS2_POLL_INTERVAL_SEC": "1",
    "WMS2_TRANSFER_POLL_INTERVAL_SEC": "1",
    "WMS2_TIDY_INTERVAL_SEC": "5",
    "WMS2_DAGMAN_QUEUE_UPDATE_SEC": "2",
    "WMS2_HELD_GRACE_SEC": "2",
    "WMS2_SERVICE_CALLS_PER_SEC": "200",
    "WMS2_MIN_FREE_BYTES": "200000000",
    "WMS2_MIN_FREE_INODES": "10000",
    "WMS2_MEMORY_PER_CORE_MIN_MB": "100",
    "WMS2_NEW_SITES": "enabled",
}
# what clients and daemons of a pool agree on
COMMON = ("UID_DOMAIN", "ENABLE_IPV6", "NO_DNS", "DEFAULT_DOMAIN_NAME", "SEC_FS_ENFORCE_CHANNEL_BINDING")


@pytest.fixture(scope="session")
def image() -> Image:
    if not (directory := os.environ.get(IMAGE)):
        pytest.skip(os.environ.get(MISSING) or f"{IMAGE} is not set: run these tests with ./wms2 test")
    made = Image(Path(directory))
    log = made.directory / "build.log"
    assert made.files.is_dir(), f"the image was not built, see {log}: {log.read_text()[-2000:]}"
    if problem := namespaces_problem():
        pytest.skip(f"this user cannot start containers: {problem}")
    return made


@pytest.fixture(scope="session")
def application(
    image: Image, certificate: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Application]:
    """Yield the migrated application with every process of docker-compose.yml running and healthy."""
    if not os.environ.get(RUN_URL):
        pytest.skip("this database was given with one role only")
    work = tmp_path_factory.mktemp("containers")
    with (
        empty_database() as database,
        submit_root() as dags,
        relay(os.environ["WMS2_LAB_CMS_URL"], certificate) as cms,
    ):
        made = compose_application(image, work, database=database, dags=dags, cms=cms)
        shutil.copy(certificate, work / "credentials" / "ca.pem")
        made.run("migrate")
        made.run("web", "python", "manage.py", "sync_sites")
        names = [name for name in made.services if name != "migrate"]
        try:
            for name in names:
                made.start(name)
            for name in names:
                if made.services[name].healthcheck:
                    made.wait_until_healthy(name)
            yield made
        finally:
            made.stop()


def compose_application(image: Image, work: Path, *, database: str, dags: Path, cms: str) -> Application:
    bin_ = Path(htcondor2.param["BIN"])
    (work / "credentials").mkdir()
    variables = compose_variables(cms) | {
        "WMS2_SUBMIT_ROOT": str(dags),
        "CONDOR_CONFIG_DIR": str(write_pool(work / "condor", bin_)),
        "WMS2_CREDENTIALS_DIR": str(work / "credentials"),
    }
    settings = SHORT_WAITS | {
        "WMS2_SCHEDDS": schedd_names()[0],
        "WMS2_CA_BUNDLE": "/etc/wms2/credentials/ca.pem",
        "WMS2_JOB_USERS": "nobody",  # the lab's pool has one account, which production refuses
    }
    # HTCondor's FS authentication is a directory in the /tmp of both sides
    shared = [("/tmp", "/tmp", False), (str(link_dagman(work / "bin")), str(bin_), True)]
    services = read_services(variables, lab_addresses(database, PortBook(work / "ports.json")))
    return Application(image=image, services=services, settings=settings, shared=shared, work=work)


def compose_variables(cms: str) -> dict[str, str]:
    """Return what an operator sets in .env."""
    owner, run, redis = (urlsplit(os.environ[name]).password for name in (OWNER_URL, RUN_URL, "REDIS_URL"))
    rucio = [f"WMS2_RUCIO_{name}" for name in ("ACCOUNT", "USERNAME", "PASSWORD")]
    return {
        "SECRET_KEY": KEY,
        "WMS2_AUDIT_KEY": KEY[::-1],
        "WMS2_OWNER_PASSWORD": owner or "",
        "WMS2_APP_PASSWORD": run or "",
        "REDIS_PASSWORD": redis or "",
        "FLOWER_BASIC_AUTH": f"operator:{KEY}",
        "WMS2_ALLOWED_HOSTS": "wms2.example.org",
        "WMS2_PROXY_ADDRESS": "127.0.0.1",
        "WMS2_STORAGE_PREFIX": os.environ["WMS2_STORAGE_PREFIX"],
        **{name: cms + urlsplit(os.environ[name]).path for name in os.environ if is_service(name)},
        **{name: os.environ[name] for name in rucio},
    }


def lab_addresses(database: str, ports: PortBook) -> dict[str, str]:
    """Return what the lab has under another name than docker-compose.yml.

    DAGMan inherits CONDOR_CONFIG and runs beside the schedd, so the path must be one that the schedd has too.
    """
    postgres, redis = urlsplit(os.environ[OWNER_URL]), urlsplit(os.environ["REDIS_URL"])
    web, flower = ports.pick("web"), ports.pick("flower")
    return {
        "postgres:5432/wms2": f"{postgres.hostname}:{postgres.port}/{database}",
        "redis:6379/0": f"{redis.hostname}:{redis.port}/{REDIS_DATABASE}",
        "0.0.0.0:8000": f"127.0.0.1:{web}",
        "127.0.0.1:8000": f"127.0.0.1:{web}",
        "--address=0.0.0.0": "--address=127.0.0.1",
        "5555": str(flower),
        "/etc/condor": str(Path(os.environ["CONDOR_CONFIG"]).parent),
    }


def is_service(name: str) -> bool:
    return name.startswith(("WMS2_REQMGR2", "WMS2_DBS", "WMS2_RUCIO", "WMS2_CRIC")) and name.endswith("_URL")


def write_pool(directory: Path, bin_: Path) -> Path:
    """Write the configuration of a client of the lab's pool, for HTCondor as the image has it."""
    settings = {
        "RELEASE_DIR": "/usr",
        "BIN": bin_,
        "LIBEXEC": "/usr/libexec/condor",
        "COLLECTOR_HOST": Path(htcondor2.param["COLLECTOR_ADDRESS_FILE"]).read_text().splitlines()[0],
        "SEC_CLIENT_AUTHENTICATION_METHODS": "FS",
        **{name: htcondor2.param[name] for name in COMMON if name in htcondor2.param},
    }
    directory.mkdir()
    text = "".join(f"{name} = {value}\n" for name, value in settings.items())
    (directory / "condor_config").write_text(text)
    return directory


def link_dagman(directory: Path) -> Path:
    """Give the image's DAGMan the path it has at the schedd, where it is started by the submitted path."""
    directory.mkdir()
    (directory / "condor_dagman").symlink_to("/usr/bin/condor_dagman")
    return directory


@contextmanager
def empty_database() -> Iterator[str]:
    name = sql.Identifier(f"wms2_image_{uuid4().hex[:8]}")
    with psycopg.connect(os.environ[OWNER_URL], autocommit=True) as server:
        server.execute(sql.SQL("CREATE DATABASE {}").format(name))
        try:
            yield name.as_string().strip('"')
        finally:
            server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


@contextmanager
def submit_root() -> Iterator[Path]:
    path = Path(os.environ["WMS2_SUBMIT_ROOT"]) / f"image-{uuid4().hex[:8]}"
    path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
