"""What calls of runners need of sites and workflows, cached for some seconds: distances, prefixes, room."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

from django.utils import timezone

from dags_app.failures.records import BadCopies, bad_copies
from dags_app.models import PlaceSet, Workflow
from dags_app.pull.distances import ANYWHERE, Geography, Source, rank_sources
from dags_app.services.storage_places import storage_places
from requests_app import admission
from sandbox.places import Places
from sites_app.models import Site
from sites_app.selectors import output_storage, usable_sites
from sites_app.services.site_settings import STORAGE_DISTANCES, storage_used

KEPT_SEC = 5.0  # a change of sites, distances or places is seen after this time
MAX_STORAGES = 3  # that a runner may try to upload to


@dataclass(frozen=True, slots=True)
class Atlas:
    """All sites: the storages that each reads, its own output storage, prefixes, and whether it is full."""

    geography: Geography
    places: Places
    own_storage: Mapping[str, str]
    full: frozenset[str]

    def readers(self, storage: str) -> list[str]:
        """Return the sites that read a storage and whose prefix is known, the owner of the storage first."""
        sites = self.geography.by_storage.get(storage, frozenset())
        known = (site for site in sites if self.places.prefixes(site))
        return sorted(known, key=lambda site: (self.own_storage.get(site) != storage, site))

    def source_site(self, site: str, storage: str) -> str:
        """Return the site whose prefix leads to the storage: the reader's own if it reads the storage."""
        readers = self.readers(storage)
        return site if site in readers else readers[0]

    def upload_sites(self, site: str, *, usable: frozenset[str]) -> list[str]:
        """Return up to three sites whose storage takes outputs, the nearest first, full ones last."""
        candidates = [one for one in usable | {site} if self.places.prefixes(one)]

        def order(one: str) -> tuple[bool, int, bool, str]:
            far = self.geography.distance(site, self.own_storage.get(one, one))
            return (one in self.full, 1000 if far is None else far, one != site, one)

        return sorted(candidates, key=order)[:MAX_STORAGES]


def atlas() -> Atlas:
    """Return the sites as of some seconds ago at most."""
    return _atlas(int(time.monotonic() / KEPT_SEC))


@lru_cache(maxsize=1)
def _atlas(_moment: int) -> Atlas:
    limit = admission.limits().storage_critical_fraction
    by_storage: dict[str, set[str]] = {}
    prefixes: dict[str, list[str]] = {}
    own_storage: dict[str, str] = {}
    edited: dict[tuple[str, str], int] = {}
    full = set()
    for site in Site.objects.only("name", "storage_elements", "storage_prefixes", "config_data"):
        for storage in site.storage_elements:
            by_storage.setdefault(storage, set()).add(site.name)
        prefixes[site.name] = site.storage_prefixes
        own_storage[site.name] = output_storage(site.name, site.storage_elements)
        for storage, distance in site.config_data.get(STORAGE_DISTANCES, {}).items():
            edited[site.name, storage] = distance
        used = storage_used(site.config_data)
        if used is not None and used > limit:
            full.add(site.name)
    return Atlas(
        geography=Geography({name: frozenset(sites) for name, sites in by_storage.items()}, edited),
        places=storage_places(prefixes=prefixes),
        own_storage=own_storage,
        full=frozenset(full),
    )


def sources_for(workflow: Workflow, site: str) -> list[Source]:
    """Return the sets of places that the site may read, nearest first, with storages that can be opened."""
    known, sets = atlas(), _place_sets(workflow.pk, int(time.monotonic() / KEPT_SEC))
    readable = [
        (key, [one for one in storages if one == ANYWHERE or known.readers(one)]) for key, storages in sets
    ]
    return rank_sources(
        site=site, sets=readable, geography=known.geography, max_distance=workflow.max_distance
    )


@lru_cache(maxsize=64)
def _place_sets(workflow_id: UUID, _moment: int) -> list[tuple[int, Sequence[str]]]:
    return list(PlaceSet.objects.filter(workflow_id=workflow_id).values_list("pk", "storages"))


def bad_copies_of(workflow: Workflow) -> BadCopies:
    """Return the copies that are known as bad."""
    return _bad_copies(workflow.pk, int(time.monotonic() / KEPT_SEC))


@lru_cache(maxsize=64)
def _bad_copies(workflow_id: UUID, _moment: int) -> BadCopies:
    return bad_copies(workflow=Workflow(pk=workflow_id))


def cached_workflow(workflow_id: UUID) -> Workflow:
    """Return the workflow as of some seconds ago at most."""
    return _workflow(workflow_id, int(time.monotonic() / KEPT_SEC))


@lru_cache(maxsize=64)
def _workflow(workflow_id: UUID, _moment: int) -> Workflow:
    return Workflow.objects.get(pk=workflow_id)


def usable_names(workflow: Workflow) -> frozenset[str]:
    """Return the sites that may be used by the workflow."""
    return _usable(workflow.pk, int(time.monotonic() / KEPT_SEC))


@lru_cache(maxsize=64)
def _usable(workflow_id: UUID, moment: int) -> frozenset[str]:
    return usable_sites(workflow=_workflow(workflow_id, moment), now=timezone.now()).names


def forget() -> None:
    """Clear the cache. For tests."""
    for kept in (_atlas, _place_sets, _bad_copies, _workflow, _usable):
        kept.cache_clear()
