"""The merge tool `events`: event files joined in order, event by event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from lab.toy.eventfile import Event, EventFileError, count_events, read_events, write_events
from sandbox.context import Context
from sandbox.filefacts import Counts
from sandbox.lumis import tally
from sandbox.merge_tools import MergeTool, UnreadableFile


def merge(_context: Context, inputs: Sequence[Path], target: Path) -> list[Counts]:
    found: list[Counts] = []
    write_events(target, _events(inputs, found))
    return found


def inspect(_context: Context, path: Path) -> Counts:
    try:
        return Counts(*count_events(path))
    except (EventFileError, OSError) as error:
        raise UnreadableFile(path, str(error)) from error


def _events(inputs: Sequence[Path], found: list[Counts]) -> Iterator[Event]:
    for path in inputs:
        seen: dict[int, Counter[int]] = {}
        try:
            for event in read_events(path):
                seen.setdefault(event.run, Counter())[event.lumi] += 1
                yield event
        except (EventFileError, OSError) as error:
            raise UnreadableFile(path, str(error)) from error
        found.append(Counts(sum(sum(lumis.values()) for lumis in seen.values()), tally(seen)))


TOOL = MergeTool("events", merge, inspect)
