"""Declaration of a splitter, and the selection of lumis that splitters share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dags_app.planning.lumis import intersect, normalised
from dags_app.planning.parameters import Parameters
from dags_app.planning.selection import Selection
from dags_app.planning.types import FileSpec, JobSpec
from dags_app.states import SplittingAlgo
from sandbox.lumis import Ranges


@dataclass(frozen=True, slots=True)
class Splitter:
    """An algorithm: its function, the parameter that sizes jobs, and the one that ends the input early."""

    algo: SplittingAlgo
    split: Callable[[Sequence[list[FileSpec]], Parameters, Selection], Iterator[JobSpec]]
    size: str
    total: str
    cuts_events: bool = False  # cuts files at events, regardless of lumis


def wanted_of(file: FileSpec, lumis: Ranges, selection: Selection) -> Ranges:
    """Return the selected lumis of the file. The mask of a file is the result of an earlier selection."""
    if file.mask is None:
        return selection.wanted(lumis)
    return intersect(lumis, normalised(file.mask))


def first_run(file: FileSpec) -> int:
    """Return the lowest run left of the file, by which files are ordered; 0 without lumis."""
    ranges = file.mask or file.lumis
    return min(ranges)[0] if ranges else 0


def mask_of(file: FileSpec, selection: Selection) -> Ranges | None:
    """Return the selected lumis of a file that is read as a whole otherwise; None if all are selected."""
    if file.mask is None and selection.everything:
        return None
    return wanted_of(file, normalised(file.lumis), selection)
