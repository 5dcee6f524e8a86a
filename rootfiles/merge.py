"""Joins ROOT files in the order given, every entry once, in bounded memory.

Every tree of the first file is merged; all branches must be plain numbers. Large baskets are copied as they
are stored; small ones are written again as large ones, which is what makes small files worth merging.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rootfiles.baskets import pieces
from rootfiles.errors import BAD_TASK, ENTRIES_DIFFER, MISSING_TREE, UNSUPPORTED, RootFileError
from rootfiles.lumis import LumiEvents, count_lumis
from rootfiles.trees import (
    EVENTS,
    Types,
    check_types,
    chunks,
    events_tree,
    open_file,
    tree_names,
    types_of,
)
from rootfiles.writing import TreeWriter, new_file


@dataclass(frozen=True, slots=True)
class Counted:
    """The events of one input; `lumi_events` None = its tree has no lumis."""

    events: int
    lumi_events: LumiEvents | None


def merge(sources: Sequence[str], target: str) -> list[Counted]:
    """Write the merged file and return what each source held. Raises RootFileError naming the source."""
    if not sources:
        raise RootFileError(BAD_TASK, "sources: there is nothing to merge")
    trees = _trees(sources[0])
    counted: list[Counted] = []
    with new_file(target, " ".join(Path(source).name for source in sources)) as file:
        for name, types in trees.items():
            writer = TreeWriter(file, name, types)
            for source in sources:
                found = _append(source, name, types, writer, expected=set(trees))
                if name == EVENTS:
                    counted.append(found)
            writer.flush()
    return counted


def _trees(source: str) -> dict[str, Types]:
    """Return the trees of the first file with their types; anything else in it is refused."""
    with open_file(source) as directory:
        events_tree(directory)
        names = tree_names(directory)
        kinds = directory.classnames(recursive=True, cycle=False)
        others = sorted(name for name, kind in kinds.items() if name not in names and kind != "TDirectory")
        if others:
            message = f"it holds {others[0]} ({kinds[others[0]]}); merge such files with hadd"
            raise RootFileError(UNSUPPORTED, message)
        return {name: types_of(directory[name]) for name in names}


def _append(source: str, name: str, types: Types, writer: TreeWriter, *, expected: set[str]) -> Counted:
    with open_file(source) as directory:
        found = set(tree_names(directory))
        if found != expected:
            raise RootFileError(MISSING_TREE, f"its trees are {sorted(found)}, not {sorted(expected)}")
        return _append_tree(directory[name], types, writer)


def _append_tree(tree: Any, types: Types, writer: TreeWriter) -> Counted:
    check_types(types_of(tree), types)
    before = writer.entries
    for start, stop, baskets in pieces(tree, types):
        if baskets is not None:
            writer.copy(baskets, stop - start)
        else:
            for chunk in chunks(tree, list(types), start=start, stop=stop):
                writer.write(chunk)
    done = writer.entries - before
    if done != tree.num_entries:
        raise RootFileError(ENTRIES_DIFFER, f"{done} of {tree.num_entries} entries could be read")
    return Counted(done, count_lumis(tree))
