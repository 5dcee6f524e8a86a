"""Counts what a ROOT file holds: its trees, and the events by lumi where run and lumi are branches."""

from __future__ import annotations

from dataclasses import dataclass

from rootfiles.lumis import LumiEvents, count_lumis
from rootfiles.trees import EVENTS, Source, events_tree, open_file, tree_names


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
        return RootFacts(trees[EVENTS], count_lumis(tree), trees)
