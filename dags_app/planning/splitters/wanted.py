"""What is wanted of one file, and what a lumi of it is worth."""

from __future__ import annotations

from dags_app.planning.lumis import Ranges, normalised
from dags_app.planning.selection import Selection
from dags_app.planning.types import FileSpec


def wanted_of(file: FileSpec, selection: Selection) -> Ranges | None:
    """The wanted lumis of the file, None when it is wanted as it is. A file that brings a mask is masked."""
    if file.mask is not None:
        return normalised(file.mask)
    if selection.everything:
        return None
    return selection.wanted(normalised(file.lumis))


def events_per_lumi(file: FileSpec, lumis: int) -> int:
    """The average, to the nearest whole number; halves go to the even one."""
    return round(file.events / lumis)
