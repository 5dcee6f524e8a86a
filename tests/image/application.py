"""The application as docker-compose.yml starts it, from the image, on the lab's servers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from tests.image import container
from tests.image.compose import Service
from tests.waiting import until

USER = "wms2"
STOP_SEC = 60.0  # longer than the workers' own patience


@dataclass(frozen=True, slots=True)
class Image:
    """An image that `deploy/build-image --unpack` wrote, its files unpacked as well."""

    directory: Path

    @property
    def files(self) -> Path:
        return self.directory / "files"

    @property
    def config(self) -> dict[str, Any]:
        inspected = json.loads((self.directory / "config.json").read_text())
        return dict(inspected["OCIv1"]["config"])

    def ids(self) -> tuple[int, int]:
        """Return the ids of the user the image says its processes run as."""
        lines = (self.files / "etc" / "passwd").read_text().splitlines()
        users = {name: (int(uid), int(gid)) for name, _, uid, gid, *_ in (line.split(":") for line in lines)}
        return users[self.config["User"]]


@dataclass(slots=True)
class Application:
    """Containers of one image; `shared` is mounted in each besides the volumes of its service."""

    image: Image
    services: dict[str, Service]
    settings: dict[str, str]  # wms2.env
    shared: list[tuple[str, str, bool]]
    work: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    logs: ExitStack = field(default_factory=ExitStack)

    def start(self, name: str) -> None:
        log = self.logs.enter_context((self.work / f"{name}.log").open("w"))
        self.running[name] = self._popen(name, self.services[name].command, log)

    def run(self, name: str, *command: str) -> str:
        """Run the service's own command, or another one in its place, to the end; return what it printed."""
        path = self.work / f"{name}.once.log"
        with path.open("w") as log:
            code = self._popen(name, command or self.services[name].command, log).wait(timeout=600)
        assert code == 0, f"{name} {command}: {path.read_text()[-4000:]}"
        return path.read_text()

    def wait_until_healthy(self, name: str) -> None:
        def healthy() -> bool:
            assert self.running[name].poll() is None, f"{name} ended: {self.tail(name)}"
            with (self.work / f"{name}.health.log").open("w") as log:
                return self._popen(name, self.services[name].healthcheck, log).wait(timeout=120) == 0

        until(healthy, seconds=300, why=f"{name} is not healthy")

    def tail(self, name: str) -> str:
        return (self.work / f"{name}.log").read_text(errors="replace")[-4000:]

    def stop(self) -> None:
        """Stop the containers as Docker does."""
        with self.logs:
            for process in self.running.values():
                process.terminate()
            for process in self.running.values():
                _end(process)

    def _popen(self, name: str, command: Sequence[str], log: TextIO) -> subprocess.Popen[bytes]:
        spec = self.work / f"{name}.json"
        spec.write_text(json.dumps(self._spec(self.services[name])))
        argv = [sys.executable, "-I", container.__file__, str(spec), *command]
        return subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={}, cwd="/")

    def _spec(self, service: Service) -> dict[str, Any]:
        config, (uid, gid) = self.image.config, self.image.ids()
        own = {"HOSTNAME": service.name, "HOME": f"/home/{USER}"}
        given = dict(variable.split("=", 1) for variable in config["Env"])
        point = self.work / "root"
        point.mkdir(exist_ok=True)
        kernel = [(path, path, False) for path in ("/proc", "/sys", "/dev")]
        return {
            "files": str(self.image.files),
            "work": str(point),
            "hostname": service.name,
            "directory": config["WorkingDir"],
            "environment": given | own | self.settings | service.environment,
            "uid": uid,
            "gid": gid,
            "mounts": [*kernel, *service.volumes, *self.shared],
        }


def namespaces_problem() -> str:
    """Return why this user cannot start containers; empty if they can."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); import container; container.become(1, 1)"
    argv = [sys.executable, "-I", "-c", code, str(Path(container.__file__).parent)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    return done.stderr.strip().rsplit("\n", 1)[-1]


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(timeout=STOP_SEC)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
