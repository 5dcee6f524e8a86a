"""Comparison of counts of the WMS2 database with those of DBS and Rucio. Pure."""

from __future__ import annotations

from dataclasses import dataclass, fields

from cms.types import FileCounts


@dataclass(frozen=True, slots=True)
class Difference:
    """A value of a catalogue that differs from the WMS2 database."""

    where: str
    name: str
    what: str
    ours: str
    theirs: str

    def __str__(self) -> str:
        return f"{self.where}, {self.name}: {self.what} {self.theirs}, expected {self.ours}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences found so far, and the number of blocks still to be compared."""

    differences: list[Difference]
    blocks_left: int = 0


def compare_counts(where: str, name: str, *, ours: FileCounts, theirs: FileCounts | None) -> list[Difference]:
    """Return every count that differs; an unknown block or dataset is one difference."""
    if theirs is None:
        return [Difference(where, name, "files", str(ours.files), "none")]
    return [
        Difference(where, name, field.name, str(getattr(ours, field.name)), str(getattr(theirs, field.name)))
        for field in fields(FileCounts)
        if getattr(theirs, field.name) is not None
        and getattr(ours, field.name) != getattr(theirs, field.name)
    ]
