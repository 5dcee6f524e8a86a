"""Injects faults into a site's storage, for tests and for `./wms2 fault`.

| fault | what clients see | how it is made |
|---|---|---|
| down | connection refused | the server is stopped and held down |
| hang | a connection, then silence | the server is frozen (SIGSTOP) |
| slow | every byte, at a limited rate | XRootD's throttle, for all clients of the site together |
| full | writing fails, reading works | the server wants more free space for a new file than any disk has |
| deny | 403 for every token | the server believes another issuer |
| corrupt | the same size, other bytes | the last bytes of the file are flipped on disk |
| lose | 404 | the file is set aside on disk |

XRootD 5.8 answers a full disk with 500 and "no space left on device"; dCache and others answer 507.
Faults add up. `clear` ends all of them at a site and repairs its files; a restart of the stack ends those of
the servers.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self
from urllib.parse import quote

from lab.errors import LabError
from lab.files import read_json, write_atomically
from lab.grid.description import VARIABLE, Grid, GridSite
from lab.grid.probe import accepts, answers
from lab.grid.sites import Faults
from lab.paths import Layout
from lab.processes import frozen, send
from lab.service import hold_file
from lab.state import ServiceState, load_state

DEFAULT_RATE_BYTES_PER_SEC = 64 * 1024
FLIPPED_BYTES = 16
CHECKSUM_ATTRIBUTE = "user.XrdCks.adler32"
TIMEOUT_SEC = 30.0
POLL_SEC = 0.02


@dataclass(frozen=True, slots=True)
class SiteFaults:
    """The faults of one site of a running stack."""

    layout: Layout
    name: str
    site: GridSite
    ca: Path

    @classmethod
    def from_environment(cls, name: str) -> Self:
        """Return the faults of a site of the stack this process belongs to."""
        layout = Layout(home=Path(os.environ["WMS2_STATE"]), app=Path(), venv=Path())
        return cls.of(layout, Grid.load(Path(os.environ[VARIABLE])), name)

    @classmethod
    def of(cls, layout: Layout, grid: Grid, name: str) -> Self:
        return cls(layout, name, grid.sites[name], grid.ca)

    @property
    def _faults_file(self) -> Path:
        return self.site.data.parent / "faults.json"

    @property
    def _damage_file(self) -> Path:
        return self.site.data.parent / "damage.json"

    @property
    def _hold(self) -> Path:
        return hold_file(self.layout, self.site.service)

    # ---- the server ----

    def down(self) -> None:
        self._hold.touch()
        self._stop()

    def hang(self) -> None:
        pid = self._service().pid
        send(pid, signal.SIGSTOP)
        self._wait(lambda: frozen(pid), "freeze")

    def slow(self, bytes_per_sec: int = DEFAULT_RATE_BYTES_PER_SEC) -> None:
        self._change(slow_bytes_per_sec=bytes_per_sec)

    def full(self) -> None:
        self._change(full=True)

    def deny(self) -> None:
        self._change(deny=True)

    # ---- files ----

    def corrupt(self, lfn: str) -> None:
        """Flip the last bytes of a file. Its size stays; the checksum the server computes anew does not."""
        path = self._existing(lfn)
        _flip(path)
        self._note_damage(lfn, _adler32(path))

    def lose(self, lfn: str) -> None:
        path, aside = self._existing(lfn), self._aside(lfn)
        aside.parent.mkdir(exist_ok=True)
        path.rename(aside)
        self._note_damage(lfn, "")

    # ---- all ----

    def clear(self) -> None:
        """End every fault and repair the damaged files, except those that were replaced meanwhile."""
        damage = read_json(self._damage_file)
        for lfn, checksum in damage.items():
            self._repair(lfn, checksum)
        self._damage_file.unlink(missing_ok=True)
        if pid := self._service().pid:
            send(pid, signal.SIGCONT)
        if Faults.load(self._faults_file) != Faults():
            self._restart(Faults())
        if self._hold.exists():
            self._release()

    def active(self) -> list[str]:
        """Return the faults of this moment, one line each."""
        service, faults = self._service(), Faults.load(self._faults_file)
        found = ["down"] if self._hold.exists() else []
        found += ["hang"] if service.pid and frozen(service.pid) else []
        found += [f"slow {faults.slow_bytes_per_sec}"] if faults.slow_bytes_per_sec else []
        found += [name for name in ("full", "deny") if getattr(faults, name)]
        damage = read_json(self._damage_file)
        return found + [f"{'corrupt' if checksum else 'lose'} {lfn}" for lfn, checksum in damage.items()]

    # ---- how ----

    def _change(self, *, slow_bytes_per_sec: int = 0, full: bool = False, deny: bool = False) -> None:
        now = Faults.load(self._faults_file)
        wanted = replace(
            now,
            slow_bytes_per_sec=slow_bytes_per_sec or now.slow_bytes_per_sec,
            full=full or now.full,
            deny=deny or now.deny,
        )
        self._restart(wanted)

    def _restart(self, faults: Faults) -> None:
        """Restart the server through the supervisor with these faults, unless it is held down."""
        is_down = self._hold.exists()
        self._hold.touch()
        self._stop()
        faults.save(self._faults_file)
        if not is_down:
            self._release()

    def _stop(self) -> None:
        service = self._service()
        if service.pid:
            send(service.pid, signal.SIGTERM)
            send(service.pid, signal.SIGCONT)
        self._wait(lambda: not self._service().pid and not accepts(self.site.port), "stop")

    def _release(self) -> None:
        self._hold.unlink(missing_ok=True)
        self._wait(lambda: bool(self._service().pid) and self._serves(), "start")

    def _serves(self) -> bool:
        return answers(self.site.port, "/store", ca=self.ca) != 0

    def _service(self) -> ServiceState:
        state = load_state(self.layout)
        for service in state.services if state else ():
            if service.name == self.site.service:
                return service
        raise LabError(f"no storage of {self.name} runs in {self.layout.home}: run ./wms2 up first")

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + TIMEOUT_SEC
        while not condition():
            if time.monotonic() > end:
                log = self.layout.log / f"{self.site.service}.log"
                raise LabError(f"{self.site.service} did not {what} in {TIMEOUT_SEC:.0f} s, see {log}")
            time.sleep(POLL_SEC)

    def _existing(self, lfn: str) -> Path:
        path = self.site.path(lfn)
        if not lfn.startswith("/store/") or ".." in lfn.split("/") or not path.is_file():
            raise LabError(f"{self.name} has no file {lfn}: name a file that is below {self.site.data}")
        return path

    def _note_damage(self, lfn: str, checksum: str) -> None:
        damage = read_json(self._damage_file) | {lfn: checksum}
        write_atomically(self._damage_file, json.dumps(damage))

    def _aside(self, lfn: str) -> Path:
        return self.site.data.parent / "lost" / quote(lfn, safe="")

    def _repair(self, lfn: str, checksum: str) -> None:
        path, aside = self.site.path(lfn), self._aside(lfn)
        if checksum and path.is_file() and _adler32(path) == checksum:
            _flip(path)
        elif not checksum and aside.exists() and not path.exists():
            aside.rename(path)
        else:
            aside.unlink(missing_ok=True)


def _flip(path: Path) -> None:
    """Flip the last bytes. The server computes its checksum anew: it compares times by the second only."""
    with path.open("r+b") as file:
        file.seek(-min(FLIPPED_BYTES, path.stat().st_size), os.SEEK_END)
        start = file.tell()
        flipped = bytes(byte ^ 0xFF for byte in file.read())
        file.seek(start)
        file.write(flipped)
    with contextlib.suppress(OSError):  # no checksum was computed yet
        os.removexattr(path, CHECKSUM_ATTRIBUTE)


def _adler32(path: Path) -> str:
    return f"{zlib.adler32(path.read_bytes()):08x}"
