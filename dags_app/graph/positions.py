"""Positions of rounds, merge groups and nodes in the graph of a workflow. Pure.

Rounds are bands below one another. A band holds the tiles of its groups in rows; a tile holds its nodes in
the order of the work: landing, jobs, merge, cleanup. All tiles of a round have the same size. A unit is a
quarter of a node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt

NODE = 4  # edge of a node, with its margin
PADDING = 3  # between the border of a tile and its nodes
HEADER = 7  # name and state bar of a tile
GAP = 4  # between tiles, and between the columns of a tile
BAND_HEADER = 12
BAND_GAP = 16
STEM = 12  # left of the bands, for the line from the request to its rounds
BAND_ASPECT = 2.2  # width of a band by its height


@dataclass(frozen=True, slots=True)
class RoundShape:
    """Input of the layout for a round: its number of groups, and the most jobs in one of them."""

    groups: int
    most_jobs: int


@dataclass(frozen=True, slots=True)
class Band:
    """Position of a round, and the size and number of its tiles."""

    x: int
    y: int
    width: int
    height: int
    tile_width: int
    tile_height: int
    columns: int

    def tile(self, number: int) -> tuple[int, int]:
        """Return the position of the round's tile of this number."""
        row, column = divmod(number, self.columns)
        left, top = self.x + PADDING, self.y + BAND_HEADER
        return left + column * (self.tile_width + GAP), top + row * (self.tile_height + GAP)


def build_bands(rounds: Sequence[RoundShape]) -> list[Band]:
    """Return the bands of the rounds, the first on top."""
    bands, y = [], 0
    for one in rounds:
        band = _band(one, y)
        bands.append(band)
        y += band.height + BAND_GAP
    return bands


def _band(one: RoundShape, y: int) -> Band:
    width, height = _tile_size(one.most_jobs)
    tiles = max(one.groups, 1)
    columns = min(tiles, max(1, ceil(sqrt(tiles * BAND_ASPECT * (height + GAP) / (width + GAP)))))
    rows = ceil(tiles / columns)
    return Band(
        x=STEM,
        y=y,
        width=2 * PADDING + columns * (width + GAP) - GAP,
        height=BAND_HEADER + rows * (height + GAP) - GAP + PADDING,
        tile_width=width,
        tile_height=height,
        columns=columns,
    )


def node_positions(jobs: int, *, most_jobs: int) -> list[tuple[int, int]]:
    """Return the positions of a group's nodes within its tile: landing, jobs, merge, cleanup."""
    columns = job_columns(most_jobs)
    rows = ceil(most_jobs / columns)
    middle = PADDING + HEADER + (rows - 1) * NODE // 2
    left = PADDING + NODE + GAP
    grid = [
        (left + NODE * (number % columns), PADDING + HEADER + NODE * (number // columns))
        for number in range(jobs)
    ]
    right = left + NODE * columns + GAP
    return [(PADDING, middle), *grid, (right, middle), (right + NODE + GAP, middle)]


def job_columns(most_jobs: int) -> int:
    """Return how many jobs a row of a tile has: tiles are about twice as wide as high."""
    return max(1, ceil(sqrt(2 * most_jobs)))


def _tile_size(most_jobs: int) -> tuple[int, int]:
    columns = job_columns(most_jobs)
    rows = max(1, ceil(most_jobs / columns))
    return 2 * PADDING + (columns + 3) * NODE + 3 * GAP, 2 * PADDING + HEADER + rows * NODE
