"""The queue of a schedd in memory: ads by batch, universe and cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

Ad = dict[str, Any]
DAGMAN, JOB = 7, 5  # JobUniverse


class AdQueue:
    """Ads of queued jobs in order of submission, found by their batch and universe without a search."""

    def __init__(self) -> None:
        self._ads: dict[int, dict[str, dict[int, Ad]]] = {DAGMAN: {}, JOB: {}}

    def add(self, ad: Ad) -> None:
        """Add the ad at the end."""
        self._ads[ad["JobUniverse"]].setdefault(ad["JobBatchName"], {})[ad["ClusterId"]] = ad

    def remove(self, ads: Iterable[Ad]) -> None:
        """Remove the ads; those that are not in the queue are ignored."""
        for ad in list(ads):
            batches = self._ads[ad["JobUniverse"]]
            batch = batches.get(ad["JobBatchName"], {})
            batch.pop(ad["ClusterId"], None)
            if not batch:
                batches.pop(ad["JobBatchName"], None)

    def count(self, universe: int) -> int:
        """Return how many ads of this universe are queued."""
        return sum(map(len, self._ads[universe].values()))

    def all(self, **wanted: Any) -> list[Ad]:
        """Return the ads with these attributes."""
        batch, universe = wanted.pop("JobBatchName", None), wanted.pop("JobUniverse", None)
        found = self._select(universe, batch)
        return [ad for ad in found if all(ad.get(key) == value for key, value in wanted.items())]

    def _select(self, universe: int | None, batch: str | None) -> Iterator[Ad]:
        for one in (DAGMAN, JOB) if universe is None else (universe,):
            if batch is not None:
                yield from self._ads[one].get(batch, {}).values()
            else:
                for ads in self._ads[one].values():
                    yield from ads.values()
