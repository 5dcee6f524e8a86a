"""The failure matrix: failed jobs by site and exit code. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from dags_app.failures.clusters import Cluster

MAX_COLUMNS = 12
NO_SITE = "no site"


@dataclass(frozen=True, slots=True)
class Cell:
    """Failed jobs of one site and exit code; `shade` is their share of the largest cell, from 0 to 4."""

    key: str
    jobs: int
    shade: int


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows are sites, columns exit codes; both begin with the most failures."""

    codes: list[tuple[int, str, int]]  # exit code, category, jobs
    rows: list[tuple[str, int, list[Cell | None]]]  # site, jobs, cells
    jobs: int
    more_codes: int


def cell_key(site: str, exit_code: int) -> str:
    """Return the name of a cell, by which its clusters are found."""
    return f"{site or NO_SITE}/{exit_code}".replace(" ", "-")


def build_matrix(clusters: Iterable[Cluster]) -> Matrix | None:
    """Return the matrix of the clusters; None without failures."""
    cells: Counter[tuple[str, int]] = Counter()
    categories: dict[int, str] = {}
    for one in clusters:
        cells[one.site or NO_SITE, one.exit_code] += one.jobs
        categories.setdefault(one.exit_code, one.category)
    if not cells:
        return None
    by_code, by_site = Counter[int](), Counter[str]()
    for (site, code), jobs in cells.items():
        by_code[code] += jobs
        by_site[site] += jobs
    codes, most = by_code.most_common(MAX_COLUMNS), max(cells.values())
    return Matrix(
        codes=[(code, categories[code], jobs) for code, jobs in codes],
        rows=[
            (site, jobs, [_cell(site, code, cells[site, code], most) for code, _ in codes])
            for site, jobs in by_site.most_common()
        ],
        jobs=sum(cells.values()),
        more_codes=len(by_code) - len(codes),
    )


def _cell(site: str, code: int, jobs: int, most: int) -> Cell | None:
    return Cell(cell_key(site, code), jobs, min(4 * jobs // most, 4)) if jobs else None
