"""Counts what a ROOT file holds: its trees, and the events by lumi where run and lumi are branches."""

from __future__ import annotations

from dataclasses import dataclass

from rootfiles.errors import ENTRIES_DIFFER, RootFileError
from rootfiles.lumis import LumiCounter, LumiEvents
from rootfiles.trees import EVENTS, LUMI, RUN, Source, chunks, events_tree, open_file, tree_names


@dataclass(frozen=True, slots=True)
class RootFacts:
    """`lumi_events`: run -> [[first lumi, last lumi, events in each], …]; None if the tree has no lumis."""

    events: int
    lumi_events: LumiEvents | None
    trees: dict[str, int]


def inspect(source: Source) -> RootFacts:
    """Read the trees of a path, URL or seekable binary file object, and the run and lumi of each event.

    Raises RootFileError.
    """
    with open_file(source) as directory:
        tree = events_tree(directory)
        trees = {name: int(directory[name].num_entries) for name in tree_names(directory)}
        lumi_events = None
        if RUN in tree.keys() and LUMI in tree.keys():  # noqa: SIM118 - it is no dictionary
            counter = LumiCounter()
            for chunk in chunks(tree, (RUN, LUMI)):
                counter.add_chunk(chunk)
            if counter.events != trees[EVENTS]:
                message = f"{counter.events} of {trees[EVENTS]} events could be read"
                raise RootFileError(ENTRIES_DIFFER, message)
            lumi_events = counter.lumi_events()
        return RootFacts(trees[EVENTS], lumi_events, trees)
