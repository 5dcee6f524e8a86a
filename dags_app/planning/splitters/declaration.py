"""What a splitter declares about itself, next to its code; everything else asks `SPLITTERS`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dags_app.planning.parameters import Parameters
from dags_app.planning.selection import Selection
from dags_app.planning.types import FileSpec, JobSpec
from dags_app.states import SplittingAlgo


@dataclass(frozen=True, slots=True)
class Splitter:
    """An algorithm: its function, the parameter that sizes jobs, and the one that ends the input early."""

    algo: SplittingAlgo
    split: Callable[[Sequence[list[FileSpec]], Parameters, Selection], Iterator[JobSpec]]
    size: str
    total: str
    cuts_events: bool = False  # cuts files at events, whatever lumis those belong to
