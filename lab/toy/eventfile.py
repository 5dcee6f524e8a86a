"""Event files: a header line, then one event per line as `<run> <lumi> <event> <payload-hex>`.

Writing is atomic and measures the file as it goes; reading refuses truncation and garbage by line number.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from sandbox.atomic import replacing
from sandbox.filefacts import FileFacts, checksum
from sandbox.lumis import LumiEvents, compress, tally

HEADER = b'{"format": "wms2-events", "version": 1}\n'
MAX_LINE_BYTES = 64 * 1024 * 1024
_LINE = re.compile(rb"([0-9]{1,20}) ([0-9]{1,20}) ([0-9]{1,20}) ([0-9a-f]*)\n")


class EventFileError(Exception):
    """Error: the file is not a complete event file."""


class Event(NamedTuple):
    run: int
    lumi: int
    event: int
    payload: str


class EventWriter:
    """Appends events to an open handle and counts what it writes."""

    def __init__(self, handle: BinaryIO) -> None:
        self._handle = handle
        self._seen: dict[int, Counter[int]] = {}
        self.size_bytes = 0
        self.events = 0
        self._checksum = 1
        self._put(HEADER)

    def write(self, event: Event) -> None:
        self._put(b"%d %d %d %s\n" % (event.run, event.lumi, event.event, event.payload.encode("ascii")))
        self._seen.setdefault(event.run, Counter())[event.lumi] += 1
        self.events += 1

    def facts(self) -> FileFacts:
        seen, adler32 = self._seen, f"{self._checksum:08x}"
        return FileFacts(self.size_bytes, adler32, self.events, compress(seen), tally(seen))

    def _put(self, data: bytes) -> None:
        self._handle.write(data)
        self._checksum = zlib.adler32(data, self._checksum)
        self.size_bytes += len(data)


@contextmanager
def writing(path: Path) -> Iterator[EventWriter]:
    """Yield a writer; the file takes its name when the block ends without an exception."""
    with replacing(path) as handle:
        yield EventWriter(handle)


def write_events(path: Path, events: Iterable[Event]) -> FileFacts:
    """Write the events atomically and return the facts of the file."""
    with writing(path) as writer:
        for event in events:
            writer.write(event)
    return writer.facts()


def read_events(path: Path) -> Iterator[Event]:
    """Yield the events in file order; EventFileError names the first line that is not an event."""
    with open(path, "rb") as handle:
        if handle.readline(len(HEADER) + 1) != HEADER:
            raise EventFileError(f"{path.name}: line 1 is not the header of an event file")
        number = 1
        while line := handle.readline(MAX_LINE_BYTES):
            number += 1
            found = _LINE.fullmatch(line)
            if found is None:
                what = "is not an event" if line.endswith(b"\n") else "is cut off"
                raise EventFileError(f"{path.name}: line {number} {what}")
            run, lumi, event, payload = found.groups()
            yield Event(int(run), int(lumi), int(event), payload.decode("ascii"))


def count_events(path: Path) -> tuple[int, LumiEvents]:
    """Read the whole file; return its events, in all and by lumi."""
    seen, events = _count(path)
    return events, tally(seen)


def facts(path: Path) -> FileFacts:
    """Read the whole file and return its facts."""
    seen, events = _count(path)
    size, adler32 = checksum(path)
    return FileFacts(size, adler32, events, compress(seen), tally(seen))


def _count(path: Path) -> tuple[dict[int, Counter[int]], int]:
    seen: dict[int, Counter[int]] = {}
    events = 0
    for event in read_events(path):
        seen.setdefault(event.run, Counter())[event.lumi] += 1
        events += 1
    return seen, events
