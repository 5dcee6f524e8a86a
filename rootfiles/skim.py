"""Reads windows of ROOT files, keeps what a lumi mask and a selection allow, and writes other ROOT files.

The first target has every branch of the input and the transverse momentum of the muon pair; further targets
leave out the branches in DROPPED, as a smaller data tier does.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rootfiles.errors import BAD_TASK, ENTRIES_DIFFER, RootFileError
from rootfiles.lumis import LumiCounter, Mask, allowed, passes
from rootfiles.trees import (
    EVENT,
    LUMI,
    RUN,
    Array,
    Chunk,
    Types,
    check_types,
    chunks,
    events_tree,
    open_file,
    require,
    types_of,
)
from rootfiles.writing import TreeWriter, new_events

MASS, PAIR_PT = "dimuon_mass", "Z_pt"
MUONS = ("mum_pt", "mum_phi", "mup_pt", "mup_phi")
DROPPED = ("nParticle", "mum_e", "mup_e")


@dataclass(frozen=True, slots=True)
class SkimSource:
    """Entries first … last of a file, counted from 0, both included; `events` is what the catalogue says."""

    path: str
    first: int
    last: int
    events: int | None = None
    mask: Mask | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    filter_efficiency: float = 1.0
    mass_window_gev: Sequence[float] | None = None

    def keep(self, chunk: Chunk) -> Array:
        kept = passes(self.filter_efficiency, chunk[EVENT])
        if self.mass_window_gev is not None:
            low, high = self.mass_window_gev
            kept &= (chunk[MASS] >= low) & (chunk[MASS] <= high)
        return kept


@dataclass(slots=True)
class Skimmed:
    """Events read from each source, before the selection, and the content of each target."""

    sources: list[LumiCounter] = field(default_factory=list)
    targets: list[LumiCounter] = field(default_factory=list)


def skim(sources: Sequence[SkimSource], targets: Sequence[str], selection: Selection) -> Skimmed:
    """Write the targets. Raises RootFileError naming the source it concerns."""
    if not sources or not targets:
        raise RootFileError(BAD_TASK, "sources and targets: at least one of each is needed")
    types, done = _source_types(sources[0].path, selection), Skimmed()
    identity = " ".join(f"{one.path.rpartition('/')[2]} {one.first} {one.last}" for one in sources)
    with ExitStack() as stack:
        writers = [
            stack.enter_context(new_events(target, target_types(types, number), f"{number} {identity}"))
            for number, target in enumerate(targets)
        ]
        for source in sources:
            done.sources.append(_skim_one(source, types, selection, writers))
    done.targets = [writer.counter for writer in writers]
    return done


def target_types(types: Types, number: int) -> Types:
    """Return the branches of one target."""
    found = {name: kind for name, kind in types.items() if not number or name not in DROPPED}
    if all(name in types for name in MUONS):
        found[PAIR_PT] = np.dtype(np.float32)
    return found


def _source_types(path: str, selection: Selection) -> Types:
    with open_file(path) as directory:
        types = types_of(events_tree(directory))
        require(types, (RUN, LUMI, EVENT))
        if selection.mass_window_gev is not None:
            require(types, (MASS,))
        return types


def _skim_one(
    source: SkimSource, types: Types, selection: Selection, writers: Sequence[TreeWriter]
) -> LumiCounter:
    counter = LumiCounter()
    with open_file(source.path) as directory:
        tree = events_tree(directory)
        check_types(types_of(tree), types)
        _check_entries(source, int(tree.num_entries))
        for chunk in chunks(tree, list(types), start=source.first, stop=source.last + 1):
            taken = allowed(source.mask, chunk[RUN], chunk[LUMI])
            counter.add(chunk[RUN][taken], chunk[LUMI][taken])
            taken &= selection.keep(chunk)
            kept = with_pair({name: array[taken] for name, array in chunk.items()})
            for writer in writers:
                writer.write(kept)
    return counter


def _check_entries(source: SkimSource, entries: int) -> None:
    if source.events is not None and source.events != entries:
        message = f"the file holds {entries} events where {source.events} were planned"
        raise RootFileError(ENTRIES_DIFFER, message)
    if source.first < 0 or source.last >= entries:
        message = f"the file holds {entries} events, the window ends at event {source.last}"
        raise RootFileError(ENTRIES_DIFFER, message)


def with_pair(chunk: Chunk) -> Chunk:
    """Add the transverse momentum of the muon pair, if both muons are there."""
    if not all(name in chunk for name in MUONS):
        return chunk
    (pt1, phi1, pt2, phi2) = (chunk[name] for name in MUONS)
    x, y = pt1 * np.cos(phi1) + pt2 * np.cos(phi2), pt1 * np.sin(phi1) + pt2 * np.sin(phi2)
    pair: Any = np.hypot(x, y).astype(np.float32)
    return {**chunk, PAIR_PT: pair}
