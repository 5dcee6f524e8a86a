"""Facts of a file: size and checksum of any file, events and lumis where its format has them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sandbox.lumis import LumiEvents, Lumis, union
from sandbox.storage import base


@dataclass(frozen=True)
class FileFacts:
    """A file that a job wrote. `lumi_events` is empty if only the lumis are known, not the events of each."""

    size_bytes: int
    adler32: str
    events: int
    lumis: Lumis
    lumi_events: LumiEvents


@dataclass(frozen=True)
class Counts:
    """The content of a file whose format can be read. `lumi_events` None: the format has no lumis."""

    events: int
    lumi_events: LumiEvents | None

    @property
    def lumis(self) -> Lumis | None:
        """Return the lumis that hold events; None if the format has none."""
        if self.lumi_events is None:
            return None
        runs = self.lumi_events.items()
        return union([{run: [[first, last] for first, last, _ in parts] for run, parts in runs}])


def checksum(path: Path) -> tuple[int, str]:
    """Return size and adler32 of any file, the checksum as eight hexadecimal digits."""
    found = base.checksum(path)
    return found.size_bytes, found.adler32
