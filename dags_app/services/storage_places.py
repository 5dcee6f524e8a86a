"""URL prefixes of the sites' storage: from the settings, else from Rucio, else the default prefix."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from django.conf import settings

from condor.layout import Asset
from dags_app.models import DAG
from sandbox.manifest import ManifestError, ManifestMissing
from sandbox.places import CA_FILE, STORAGE_FILE, Places, read_places
from sandbox.pull.runner import CA_FILE as JOBS_CA_FILE
from wms2_project.errors import PermanentError

logger = logging.getLogger(__name__)


class StorageUnusable(PermanentError):
    """A file about the storage cannot be read."""


def storage_places(*, prefixes: Mapping[str, Sequence[str]]) -> Places:
    """Return the storage of every site; `prefixes` are those that Rucio gives, by site."""
    known = {site: tuple(found) for site, found in prefixes.items() if found}
    own = {site: tuple(found) for site, found in settings.SITE_STORAGE.items()}
    return Places(known | own, settings.STORAGE_PREFIX, merged_fallback=settings.CHECK_OUTPUTS)


def storage_files(*, prefixes: Mapping[str, Sequence[str]]) -> tuple[Asset, ...]:
    """Return the files with the storage prefixes and certificate authorities for jobs."""
    files = [Asset(STORAGE_FILE, storage_places(prefixes=prefixes).as_json())]
    if settings.STORAGE_CA_FILE:
        try:
            files.append(Asset(CA_FILE, Path(settings.STORAGE_CA_FILE).read_bytes()))
        except OSError as error:
            raise StorageUnusable(
                f"{settings.STORAGE_CA_FILE} cannot be read: {error.strerror}",
                cure="Set WMS2_STORAGE_CA_FILE to a file with the certificate authorities of the storages",
            ) from error
    return tuple(files)


def jobs_ca_file() -> tuple[Asset, ...]:
    """Return the file with the certificate authorities by which runners verify WMS2, if one is set."""
    if not settings.JOBS_CA_FILE:
        return ()
    try:
        return (Asset(JOBS_CA_FILE, Path(settings.JOBS_CA_FILE).read_bytes()),)
    except OSError as error:
        raise StorageUnusable(
            f"{settings.JOBS_CA_FILE} cannot be read: {error.strerror}",
            cure="Set WMS2_JOBS_CA_FILE to a file with the certificate authorities of WMS2",
        ) from error


def dag_places(dag: DAG | None) -> Places:
    """Return the storage as the jobs of a DAG know it; for DAGs without the file, as the settings have it."""
    if dag is not None:
        try:
            return read_places(Path(dag.submit_dir) / STORAGE_FILE)
        except ManifestMissing:
            pass
        except ManifestError as error:
            logger.warning("DAG %s: the prefixes of its files are those of the settings: %s", dag.pk, error)
    return storage_places(prefixes={})


def is_storage_configured() -> bool:
    """Return whether the settings name any storage."""
    return bool(settings.STORAGE_PREFIX or settings.SITE_STORAGE)
