"""Try the storage of every site: write, verify and delete a small file at each prefix."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from uuid import uuid4

from dags_app.services.credentials import storage_below
from dags_app.services.storage_places import storage_places
from sandbox.storage import Kind, Storage, StorageError, is_mounted, local_path
from sites_app.models import Site
from sites_app.selectors import open_for_work

DIRECTORY = "/store/unmerged/wms2-doctor"


@dataclass(frozen=True, slots=True)
class Probe:
    """The result for one prefix of a site; '' = it has none."""

    site: str
    prefix: str
    works: bool
    detail: str


def probe_storages(*, now: datetime) -> Iterator[Probe]:
    """Try every prefix of the sites that take work, with a token of the issuer, else of this process."""
    sites = Site.objects.filter(open_for_work(now=now)).order_by("name")
    rows = dict(sites.values_list("name", "storage_prefixes"))
    places = storage_places(prefixes=rows)
    with TemporaryDirectory(prefix="wms2-doctor-") as directory:
        local = Path(directory) / "probe"
        local.write_bytes(b"WMS2 checks that it can write here.\n")
        for site in rows:
            prefixes = places.prefixes(site)
            if not prefixes:
                yield Probe(site, "", works=False, detail="no storage prefix: set WMS2_SITE_STORAGE")
            for prefix in prefixes:
                with storage_below(DIRECTORY, now=now) as access:
                    found = _probe(access, site, prefix, local)
                yield found


def _probe(access: Storage, site: str, prefix: str, local: Path) -> Probe:
    began = monotonic()
    url = f"{prefix}{DIRECTORY}/{uuid4().hex}"
    try:
        if is_mounted(prefix) and not local_path(prefix).is_dir():
            return Probe(site, prefix, works=False, detail="there is no such directory on this host")
        if not is_mounted(prefix) and not access.has_token():
            return _without_token(access, site, prefix, url)
        access.put(local, url)
        access.delete(url)
        with suppress(StorageError):  # another probe may use it
            access.remove_directory(f"{prefix}{DIRECTORY}")
    except StorageError as error:
        return Probe(site, prefix, works=False, detail=error.message)
    return Probe(
        site, prefix, works=True, detail=f"written, verified and deleted in {monotonic() - began:.2f} s"
    )


def _without_token(access: Storage, site: str, prefix: str, url: str) -> Probe:
    """Check without a token: a storage that denies access counts as working."""
    try:
        access.stat(url)
    except StorageError as error:
        if error.kind not in (Kind.DENIED, Kind.ABSENT):
            raise
    detail = "answers; writing is not tried: this process has no token (BEARER_TOKEN_FILE)"
    return Probe(site, prefix, works=True, detail=detail)
