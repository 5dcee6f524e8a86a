"""The pool's collector: the slots of each site, and those in use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from condor.bounded import BindingsError, BoundedCalls
from condor.types import SlotCount
from wms2_project.errors import ScheddUnreachable
from wms2_project.grammar import Name, matches

SITE_ATTRIBUTE = "GLIDEIN_CMSSite"
_ATTRIBUTES = [SITE_ATTRIBUTE, "SlotType", "State", "Cpus", "TotalSlotCpus"]
_CURE = "Retried automatically. Check that the collector runs and that CONDOR_CONFIG names its pool"


class Collector:
    """The collector of the configured pool. Calls that do not end in time raise ScheddUnreachable."""

    def __init__(self, *, timeout_sec: float = 15.0) -> None:
        self._timeout_sec = timeout_sec
        self._calls = BoundedCalls()

    def count_slots(self) -> dict[str, SlotCount]:
        """Return the cores of every site, by GLIDEIN_CMSSite of its slots."""
        try:
            ads = self._calls.call("slots", timeout_sec=self._timeout_sec, attributes=_ATTRIBUTES)
        except BindingsError as error:
            raise ScheddUnreachable(f"slots: {error}", cure=_CURE) from error
        return sum_slots(ads)

    def close(self) -> None:
        self._calls.close()


def sum_slots(ads: Iterable[Mapping[str, Any]]) -> dict[str, SlotCount]:
    """Sum partitionable and static slots by site; dynamic slots are parts of partitionable ones."""
    sums: dict[str, SlotCount] = {}
    for ad in ads:
        site, kind = ad.get(SITE_ATTRIBUTE), ad.get("SlotType")
        if kind == "Dynamic" or not matches(Name.SITE, site):
            continue
        cpus = int(ad.get("Cpus", 0))  # free ones, for a partitionable slot
        if kind == "Partitionable":
            total = int(ad.get("TotalSlotCpus", cpus))
            running = total - cpus
        else:
            total, running = cpus, cpus if ad.get("State") == "Claimed" else 0
        before = sums.get(str(site), SlotCount())
        sums[str(site)] = SlotCount(before.total + total, before.running + max(running, 0))
    return sums
