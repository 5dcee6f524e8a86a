"""What is wanted of one file."""

from __future__ import annotations

from dags_app.planning.lumis import intersect, normalised
from dags_app.planning.selection import Selection
from dags_app.planning.types import FileSpec
from sandbox.lumis import Ranges


def wanted_of(file: FileSpec, lumis: Ranges, selection: Selection) -> Ranges:
    """Those of its lumis that are wanted. A file that brings a mask was selected from already."""
    if file.mask is None:
        return selection.wanted(lumis)
    return intersect(lumis, normalised(file.mask))


def first_run(file: FileSpec) -> int:
    """The lowest run that is left of it, by which files of one run become neighbours; 0 without lumis."""
    ranges = file.mask or file.lumis
    return min(ranges)[0] if ranges else 0


def mask_of(file: FileSpec, selection: Selection) -> Ranges | None:
    """The wanted lumis of a file that is otherwise taken whole; None when nothing was selected."""
    if file.mask is None and selection.everything:
        return None
    return wanted_of(file, normalised(file.lumis), selection)
