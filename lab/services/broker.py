"""RabbitMQ with AMQP and STOMP on loopback, from a private installation; nothing is read from /etc.

Erlang's port mapper (epmd) is a service of its own: otherwise Erlang would leave a daemon behind.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.files import keep_secret, write_atomically
from lab.service import Service
from lab.services import Ground, Provided

HOME = "WMS2_RABBITMQ_HOME"  # where the Debian packages are unpacked
ENABLED = "WMS2_LAB_BROKER"  # "0": do not start one although it is installed
USER = VHOST = "wms2"
QUEUE, EXCHANGE, DESTINATION = "wms2.datasets", "wms2.datasets", "/queue/wms2.rucio"
PORTS = ("amqp", "stomp", "dist", "epmd")
CONFIG = """\
listeners.tcp.local = 127.0.0.1:{amqp}
stomp.listeners.tcp.1 = 127.0.0.1:{stomp}
stomp.default_vhost = {vhost}
default_user = {user}
default_pass = {password}
default_vhost = {vhost}
default_permissions.configure = .*
default_permissions.read = .*
default_permissions.write = .*
default_user_tags.administrator = false
vm_memory_high_watermark.absolute = 512MiB
disk_free_limit.absolute = 50MB
log.file = false
log.console = true
log.console.level = info
"""
# Few schedulers that do not spin while they are idle: the machine is shared with everything else
ERLANG_ARGUMENTS = (
    "-kernel inet_dist_use_interface {127,0,0,1} +S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none"
)


@dataclass(frozen=True, slots=True)
class BrokerFiles:
    """A broker in a directory of its own: how it is started and reached."""

    directory: Path
    ports: Mapping[str, int]
    password: str
    epmd: list[str]
    server: list[str]
    env: dict[str, str]

    @property
    def amqp_url(self) -> str:
        return f"amqp://{USER}:{self.password}@127.0.0.1:{self.ports['amqp']}/{VHOST}"

    @property
    def stomp_url(self) -> str:
        return f"stomp://{USER}:{self.password}@127.0.0.1:{self.ports['stomp']}/{VHOST}"

    def listens(self) -> bool:
        return listens(self.ports["amqp"]) and listens(self.ports["stomp"])


def build(ground: Ground) -> Provided:
    """Return the broker and the settings of the intake; nothing where RabbitMQ is not installed."""
    home = installation()
    if home is None or os.environ.get(ENABLED) == "0":
        return Provided(())
    layout = ground.layout
    files = prepare(
        layout.data / "broker", home, {name: ground.ports.pick(f"broker-{name}") for name in PORTS}
    )

    def service(name: str, argv: list[str], *ports: str) -> Service:
        return Service(
            name=name,
            argv=argv,
            ready=lambda _service: all(listens(files.ports[port]) for port in ports),
            log=layout.log / f"{name}.log",
            cwd=files.directory,
            env=files.env,
            grace_sec=3.0,
        )

    settings = {
        "WMS2_INTAKE_AMQP_URL": files.amqp_url,
        "WMS2_INTAKE_AMQP_QUEUE": QUEUE,
        "WMS2_INTAKE_AMQP_EXCHANGE": EXCHANGE,
        "WMS2_INTAKE_STOMP_URL": files.stomp_url,
        "WMS2_INTAKE_STOMP_DESTINATION": DESTINATION,
    }
    return Provided(
        (service("epmd", files.epmd, "epmd"), service("broker", files.server, "amqp", "stomp")), settings
    )


def installation() -> Path | None:
    """Return where RabbitMQ is installed privately; None if it is not."""
    home = os.environ.get(HOME, "")
    found = Path(home) if home else None
    return found if found is not None and (found / "usr/lib/rabbitmq").is_dir() else None


def prepare(directory: Path, home: Path, ports: Mapping[str, int]) -> BrokerFiles:
    """Write the configuration. The password is created once, so that clients can log in after a restart."""
    for name in ("", "log", "data", "bin"):
        (directory / name).mkdir(mode=0o700, exist_ok=True)
    password = keep_secret(directory / "password")
    erlang = home / "usr/lib/erlang"
    binaries = next(erlang.glob("erts-*/bin"))
    # Debian's own `erl` has /usr/lib/erlang written into it and ignores ERL_ROOTDIR
    shim = directory / "bin/erl"
    write_atomically(
        shim,
        f"#!/bin/sh\nexport ROOTDIR='{erlang}' BINDIR='{binaries}' EMU=beam PROGNAME=erl\n"
        'exec "$BINDIR/erlexec" "$@"\n',
    )
    shim.chmod(0o700)
    config = CONFIG.format(**ports, user=USER, vhost=VHOST, password=password)
    for name, text in {
        "rabbitmq.conf": config, "enabled_plugins": "[rabbitmq_stomp].\n", "advanced.config": "[].\n",
        "env.conf": "",
    }.items():  # fmt: skip
        write_atomically(directory / name, text)
    server = next((home / "usr/lib/rabbitmq/lib").glob("rabbitmq_server-*"))
    return BrokerFiles(
        directory=directory,
        ports=ports,
        password=password,
        epmd=[str(binaries / "epmd")],
        server=[str(server / "sbin/rabbitmq-server"), "-noinput"],
        env=_environment(directory, server, ports),
    )


def _environment(directory: Path, server: Path, ports: Mapping[str, int]) -> dict[str, str]:
    return {
        "PATH": f"{directory}/bin:/usr/bin:/bin",
        "HOME": str(directory),
        "LANG": "C.UTF-8",
        "TMPDIR": str(directory),
        "ERL_EPMD_PORT": str(ports["epmd"]),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": "wms2@localhost",
        "RABBITMQ_DIST_PORT": str(ports["dist"]),
        "RABBITMQ_CONF_ENV_FILE": f"{directory}/env.conf",
        "RABBITMQ_CONFIG_FILE": f"{directory}/rabbitmq.conf",
        "RABBITMQ_CONFIG_FILES": f"{directory}/conf.d",
        "RABBITMQ_ADVANCED_CONFIG_FILE": f"{directory}/advanced.config",
        "RABBITMQ_ENABLED_PLUGINS_FILE": f"{directory}/enabled_plugins",
        "RABBITMQ_PLUGINS_DIR": f"{server}/plugins",
        "RABBITMQ_MNESIA_BASE": f"{directory}/data",
        "RABBITMQ_LOG_BASE": f"{directory}/log",
        "RABBITMQ_GENERATED_CONFIG_DIR": f"{directory}/config",
        "RABBITMQ_PID_FILE": f"{directory}/rabbitmq.pid",
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": ERLANG_ARGUMENTS,
        "RABBITMQ_CTL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        "RABBITMQ_ALLOW_INPUT": "1",  # makes the script exec the broker: its pid is the one we started
    }


def listens(port: int) -> bool:
    """Return whether something listens on the port."""
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0
