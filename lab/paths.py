"""Paths of a stack: its state directory, source tree and virtual environment."""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Layout:
    """The state directory of one stack. Nothing else is written, except short socket paths."""

    home: Path
    app: Path
    venv: Path

    @classmethod
    def from_environment(cls) -> Layout:
        """Return the layout prepared by ``./wms2``."""
        return cls(
            home=Path(os.environ["WMS2_HOME"]), app=Path(os.environ["WMS2_APP"]), venv=Path(sys.prefix)
        )

    @property
    def log(self) -> Path:
        return self.home / "log"

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def run(self) -> Path:
        return self.home / "run"

    @property
    def dags(self) -> Path:
        return self.home / "dags"

    @property
    def storage(self) -> Path:
        return self.data / "storage"

    @property
    def lock(self) -> Path:
        """Locked by the supervisor with flock: the kernel releases it when the supervisor ends."""
        return self.run / "lock"

    @property
    def state(self) -> Path:
        return self.run / "state.json"

    @property
    def environment(self) -> Path:
        """The environment of commands inside the running stack; contains secrets."""
        return self.run / "env.json"

    @property
    def failure(self) -> Path:
        """The message of a supervisor that gave up."""
        return self.run / "failure"

    @property
    def supervisor_log(self) -> Path:
        return self.log / "supervisor.log"

    @property
    def operator_password(self) -> Path:
        return self.data / "operator.password"

    @property
    def operator_token(self) -> Path:
        return self.data / "operator.token"

    @property
    def key(self) -> str:
        """A short name that is unique on this machine."""
        return hashlib.sha256(str(self.home).encode()).hexdigest()[:10]

    def make(self) -> None:
        """Create missing directories, closed to other users."""
        for directory in (self.log, self.data, self.run, self.dags, self.storage):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
