"""Compare a merged file with the report of its job: size, checksum, events and lumis. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sandbox.lumis import by_run, merged, outside

ROOT_MAGIC = b"root"  # how a ROOT file begins
LumiEvents = Mapping[str, Sequence[Sequence[int]]]  # run → [[first lumi, last lumi, events in each], …]


@dataclass(frozen=True, slots=True)
class Reported:
    """A merged file as its manifest has it; lumis and events in them as `OutputFile` keeps them."""

    lfn: str
    size_bytes: int
    adler32: str
    events: int
    lumis: Sequence[Sequence[int]] = ()
    lumi_events: Sequence[Sequence[int]] = ()


@dataclass(frozen=True, slots=True)
class Content:
    """Content of a file: the entries of its trees and, if events have lumis, the events by lumi."""

    events: int
    trees: Mapping[str, int] = field(default_factory=dict)
    lumi_events: LumiEvents | None = None


def compare_bytes(reported: Reported, *, size_bytes: int, adler32: str) -> str:
    """Describe how size or checksum on the storage differ; empty if both agree."""
    if size_bytes != reported.size_bytes:
        return f"{size_bytes} bytes on the storage, {reported.size_bytes} reported by its job"
    if adler32 != reported.adler32:
        return f"checksum {adler32} on the storage, {reported.adler32} reported by its job"
    return ""


def compare_content(reported: Reported, found: Content) -> str:
    """Describe how events or lumis in the file differ; empty if they agree.

    A reported lumi may have no event in the file: all of them may have been filtered out.
    """
    if found.events != reported.events:
        return f"{found.events} events in the file, {reported.events} reported by its job"
    if found.lumi_events is None:
        return ""
    inside = by_run(
        merged(
            (int(run), first, last)
            for run, ranges in found.lumi_events.items()
            for first, last, events in ranges
            if events
        )
    )
    known = by_run(merged((run, first, last) for run, first, last in reported.lumis))
    if strange := outside(inside, known):
        return f"{strange} are in the file and were not reported by its job"
    return _compare_lumis(reported, found.lumi_events) if reported.lumi_events else ""


def _compare_lumis(reported: Reported, found: LumiEvents) -> str:
    expected = _events_by_lumi(reported.lumi_events)
    counted = _events_by_lumi((int(run), *part) for run, ranges in found.items() for part in ranges)
    for run, lumi in sorted(expected.keys() | counted.keys()):
        there, claimed = counted[run, lumi], expected[run, lumi]
        if there != claimed:
            return f"{there} events of run {run} lumi {lumi} in the file, {claimed} reported by its job"
    return ""


def _events_by_lumi(rows: Iterable[Sequence[int]]) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for run, first, last, events in rows:
        for lumi in range(first, last + 1) if events else ():
            found[run, lumi] += events
    return found
