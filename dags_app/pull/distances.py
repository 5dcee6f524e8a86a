"""Distances of storages from sites, and the order in which a site is lent files. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

ANYWHERE = "*"  # the place of counter files, which every site can read
NEAR, SAME_COUNTRY, ELSEWHERE = 0, 50, 100


@dataclass(frozen=True, slots=True)
class Geography:
    """The sites that read each storage, and distances that operators set over the defaults."""

    by_storage: Mapping[str, frozenset[str]]
    edited: Mapping[tuple[str, str], int] = field(default_factory=dict)  # (site, storage) → distance

    def distance(self, site: str, storage: str) -> int | None:
        """Return the distance of a storage from a site; None if no site is known to read the storage."""
        readers = self.by_storage.get(storage, frozenset())
        if storage == ANYWHERE or site in readers:
            return self.edited.get((site, storage), NEAR)
        if not readers:
            return None
        near = country_of(site) in {country_of(one) for one in readers}
        return self.edited.get((site, storage), SAME_COUNTRY if near else ELSEWHERE)


@dataclass(frozen=True, slots=True)
class Source:
    """A set of files that a site may read: how far, and from which of its storages, nearest first."""

    set_id: int
    distance: int
    storages: tuple[str, ...]


def country_of(name: str) -> str:
    """Return the country in the name of a site: CH of T2_CH_CERN."""
    return name.split("_")[1] if name.count("_") > 1 else ""


def rank_sources(
    *, site: str, sets: Iterable[tuple[int, Sequence[str]]], geography: Geography, max_distance: int
) -> list[Source]:
    """Return the sets that the site may read within the distance, nearest first."""
    found = []
    for set_id, storages in sets:
        distances = ((geography.distance(site, storage), storage) for storage in storages)
        near = sorted((far, storage) for far, storage in distances if far is not None and far <= max_distance)
        if near:
            found.append(Source(set_id, near[0][0], tuple(storage for _, storage in near)))
    return sorted(found, key=lambda source: (source.distance, source.set_id))
