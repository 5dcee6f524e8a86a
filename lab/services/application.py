"""WMS2 itself: web, streams, two workers, Beat and Flower, with the settings of the other services."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from lab.errors import LabError
from lab.files import keep_secret
from lab.paths import Layout
from lab.ports import PortBook
from lab.service import Service, answers, says
from lab.services import Ground
from lab.services.postgres import MIGRATE_URL

OPERATOR = "operator"
CELERY_APP = "wms2_project.celery"
WORKERS = {"worker-core": "lifecycle,planning", "worker-io": "condor,outputs"}
INTAKE = "intake"


@dataclass(frozen=True, slots=True)
class Addresses:
    web: str
    streams: str
    flower: str
    traces: str  # destination of spans when WMS2_TRACES is otlp


def pick_addresses(ports: PortBook) -> Addresses:
    wanted = os.environ.get("WMS2_PORT")
    if wanted and not wanted.isdigit():
        raise LabError(f"WMS2_PORT={wanted!r} is not a port number: set one, or unset it to use a free port")
    if wanted:
        web = ports.insist("web", int(wanted), setting="WMS2_PORT")
    else:
        web = ports.pick("web", preferred=8000)
    return Addresses(
        web=f"127.0.0.1:{web}",
        streams=f"127.0.0.1:{ports.pick('streams')}",
        flower=f"127.0.0.1:{ports.pick('flower', preferred=5555)}",
        traces=f"127.0.0.1:{ports.pick('traces')}",
    )


def urls(addresses: Addresses) -> dict[str, str]:
    """Return the addresses for a browser."""
    return {
        "console": f"http://{addresses.web}/admin/",
        "docs": f"http://{addresses.web}/api/v1/docs",
        "flower": f"http://{addresses.flower}",
    }


def application_settings(layout: Layout, addresses: Addresses) -> dict[str, str]:
    """Return the application's settings besides those of its services. Timeouts are short."""
    password = keep_secret(layout.operator_password)
    return {
        "DJANGO_SETTINGS_MODULE": "wms2_project.settings",
        "PYTHONPATH": str(layout.app),
        "PYTHONUNBUFFERED": "1",
        "SECRET_KEY": keep_secret(layout.data / "django.secret"),
        "WMS2_LAB": "1",
        "WMS2_STATE": str(layout.home),
        "WMS2_URL": f"http://{addresses.web}",
        "WMS2_JOBS_URL": f"http://{addresses.web}",
        "WMS2_WEB_ADDRESS": addresses.web,
        "WMS2_STREAMS_PORT": addresses.streams.rpartition(":")[2],
        "WMS2_TOKEN": keep_secret(layout.operator_token, prefix="wms2_"),
        "WMS2_ALLOWED_HOSTS": "127.0.0.1,localhost",
        "WMS2_SUBMIT_ROOT": str(layout.dags),
        "WMS2_STORAGE_PREFIX": f"{layout.storage}/{{site}}",
        "WMS2_LAB_STORAGE_PREFIX": f"{layout.storage}/{{site}}",  # where seeding writes on this machine
        "WMS2_SWEEP_INTERVAL_SEC": os.environ.get("WMS2_SWEEP_INTERVAL_SEC", "1"),
        "WMS2_POLL_INTERVAL_SEC": os.environ.get("WMS2_POLL_INTERVAL_SEC", "1"),
        "WMS2_PAYLOAD_PLUGINS": "lab.toy",
        "WMS2_DEFAULT_PAYLOAD": os.environ.get("WMS2_DEFAULT_PAYLOAD", "root-demo"),
        "WMS2_CALLBACK_HOSTS": "localhost",
        "WMS2_CALLBACK_SECRET": keep_secret(layout.data / "callback.secret"),
        "WMS2_CALLBACK_CA_BUNDLE": str(layout.run / "receiver.pem"),  # written by the receiver
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{addresses.traces}",
        "FLOWER_URL": f"http://{addresses.flower}",
        "FLOWER_BASIC_AUTH": f"{OPERATOR}:{password}",
    }


def migrate_commands(settings: Mapping[str, str]) -> list[list[str]]:
    """Return the manage.py commands to run as the owner of the tables; each may be repeated."""
    run, owner = (urlsplit(settings.get(name, "")).username for name in ("DATABASE_URL", MIGRATE_URL))
    grant = [["database_access", run]] if run and owner and run != owner else []
    return [["migrate", "--no-input", "-v0"], *grant]


def setup_commands(layout: Layout, settings: Mapping[str, str]) -> list[list[str]]:
    """Return the manage.py commands to run before the application starts; each may be repeated."""
    spares = settings.get("WMS2_SCHEDDS", "").split(",")[1:]
    spare = [["schedd", "drain", name, "--reason", "the lab's spare", "--keep"] for name in spares]
    access = ["--password-file", str(layout.operator_password), "--token-file", str(layout.operator_token)]
    return [
        ["ensure_access", "--username", OPERATOR, *access],
        ["sync_sites", "--force"],  # the lab's CRIC has fewer sites than a seeded fleet
        *spare,
    ]


def build(ground: Ground, addresses: Addresses, settings: Mapping[str, str]) -> list[Service]:
    layout = ground.layout
    env = {**settings, MIGRATE_URL: ""}  # no process needs the owner's password
    binaries = layout.venv / "bin"
    celery = [str(binaries / "celery"), "-A", CELERY_APP]
    gunicorn = [
        *(str(binaries / "gunicorn"), "wms2_project.wsgi", "--bind", addresses.web),
        *("--workers", "2", "--threads", "4", "--preload", "--graceful-timeout", "1"),
        # its control socket would be in the user's home; heartbeat files belong in memory
        *("--no-control-socket", "--worker-tmp-dir", "/dev/shm"),  # noqa: S108
    ]
    streams = [
        *(str(binaries / "uvicorn"), "console.streams.asgi:application", "--no-access-log"),
        *("--host", addresses.streams.partition(":")[0], "--port", addresses.streams.partition(":")[2]),
        *("--timeout-graceful-shutdown", "1"),  # open streams do not end by themselves
    ]
    # an empty pidfile: a leftover one would keep beat from starting after a power cut
    beat = [*celery, "beat", "-l", "INFO", "--pidfile=", "-S", "wms2_project.beat:LeaderScheduler"]
    host, _, port = addresses.flower.partition(":")
    flower = [str(binaries / "python"), "-m", "wms2_project.flower", f"--address={host}", f"--port={port}"]

    def service(name: str, argv: list[str], ready: Callable[[Service], bool]) -> Service:
        log = layout.log / f"{name}.log"
        return Service(name=name, argv=argv, ready=ready, log=log, cwd=layout.app, env=env)

    def worker(name: str, queues: str) -> Service:
        argv = [*celery, "worker", "-Q", queues, "-c", "2", "-E", "-l", "INFO", "-n", f"{name}@{layout.key}"]
        made = service(name, argv, says(" ready."))
        made.insist_signal = signal.SIGQUIT  # cold: unfinished tasks go back to the queue
        made.grace_sec = 3.0
        return made

    return [
        service("web", gunicorn, answers(f"http://{addresses.web}/api/v1/livez")),
        service("streams", streams, answers(f"http://{addresses.streams}/streams/livez")),
        *(worker(name, queues) for name, queues in WORKERS.items()),
        service("beat", beat, says(" is starting.")),
        service("flower", flower, answers(f"http://{addresses.flower}/healthcheck")),
    ]


def build_intake(ground: Ground, settings: Mapping[str, str]) -> Service:
    """Return the process that reads announcements from the broker; it waits for the broker itself."""
    layout = ground.layout
    return Service(
        name=INTAKE,
        argv=[str(layout.venv / "bin" / "python"), str(layout.app / "manage.py"), "intake"],
        ready=says("subscribed"),
        log=layout.log / f"{INTAKE}.log",
        cwd=layout.app,
        env={**settings, MIGRATE_URL: ""},
    )
