"""The sites' storage as the output check reads it: where merged files are, their size and checksum."""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from django.conf import settings

from dags_app.adapters import storage, storage_token
from dags_app.models import DAG
from dags_app.services.storage_places import dag_places, storage_places
from outputs_app.file_check import ROOT_MAGIC
from outputs_app.models import OutputBlock, OutputFile
from sandbox.places import Places
from sandbox.storage import Kind, Storage, StorageError, is_mounted, local_path
from sandbox.storage.client import XROOTD, family_of
from wms2_project.errors import TransientError

CHUNK_BYTES = 1024 * 1024


class StorageUnavailable(TransientError):
    """The storage of a site cannot be read now, which is not evidence about its files."""

    code = "storage_unavailable"


@dataclass(frozen=True, slots=True)
class Measured:
    """A file as it is on the storage; `may_be_root`: it begins like a ROOT file, or is unread."""

    size_bytes: int
    adler32: str
    may_be_root: bool


def _is_file(url: str) -> bool:
    """Return whether this is a regular file. A job may have left a pipe, which would block, or a link."""
    try:
        return stat.S_ISREG(os.lstat(local_path(url)).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise StorageError(Kind.DOWN, error.errno or 0, f"{url}: {error.strerror}") from error


class BlockStorage:
    """The storage of a block's site: by the settings, else by the files of the jobs that wrote it."""

    def __init__(self, block: OutputBlock) -> None:
        self._block = block
        self._places: dict[object, Places] = {}

    @cached_property
    def _client(self) -> Storage:
        return storage()

    def url(self, file: OutputFile) -> str:
        """Return where the file is. Raise StorageUnavailable if its storage is not known or not mounted."""
        primary = self._prefixes(file)[0]
        if is_mounted(primary) and not local_path(primary).is_dir():
            raise StorageUnavailable(
                f"the storage of {self._block.site} does not exist: {primary}",
                cure="Mount it, or correct its prefix",
            )
        return f"{primary}{file.lfn}"

    def fetch_from_fallback(self, file: OutputFile) -> Measured | None:
        """Move a file that its job had to write to another prefix of the site to the first one.

        Return what the first prefix has then, None if the site has no such file. Raises StorageUnavailable.
        """
        primary, others = self.url(file), [f"{prefix}{file.lfn}" for prefix in self._prefixes(file)[1:]]
        try:
            for url in others:
                found = self.measure(url)
                if found is None or (found.size_bytes, found.adler32) != (file.size_bytes, file.adler32):
                    continue
                self._client.copy(url, primary)
                self._client.delete(url)
                return self.measure(primary)
        except StorageError as error:
            message = f"{self._block.site}: {file.lfn} is at its fallback storage: {error.message}"
            raise StorageUnavailable(message) from error
        return None

    def _prefixes(self, file: OutputFile) -> tuple[str, ...]:
        site = self._block.site
        prefixes = self._places_of(file).prefixes(site)
        if not prefixes:
            raise StorageUnavailable(
                f"the storage of {site} is not known",
                cure="Set WMS2_SITE_STORAGE or WMS2_STORAGE_PREFIX, or switch WMS2_CHECK_OUTPUTS off",
            )
        return prefixes

    def measure(self, url: str) -> Measured | None:
        """Return what the storage has under this name, None if there is no such file."""
        try:
            if is_mounted(url) and not _is_file(url):
                return None
            found = self._client.stat(url)
            adler32 = found.adler32 or self._checksum(url)
            return Measured(found.size_bytes, adler32, self._may_be_root(url))
        except StorageError as error:
            if error.kind is Kind.ABSENT:
                return None
            raise StorageUnavailable(f"{self._block.site}: {error.message}") from error

    def token(self, urls: Iterable[str]) -> str:
        """Return the token that opens these files, '' if they need none."""
        if all(is_mounted(url) for url in urls):
            return ""
        try:
            return storage_token()
        except StorageError as error:
            raise StorageUnavailable(error.message) from error

    def _places_of(self, file: OutputFile) -> Places:
        """Return the prefixes that the DAG's jobs have. All DAGs of a round share a directory."""
        if self._block.site in settings.SITE_STORAGE:
            return storage_places(prefixes={})
        round_id = file.group.round_id
        if round_id not in self._places:
            self._places[round_id] = dag_places(DAG.objects.filter(round=round_id).first())
        return self._places[round_id]

    def _may_be_root(self, url: str) -> bool:
        if family_of(url) == XROOTD:
            return True  # to open it is to copy all of it: left to the process that counts its events
        with self._client.open(url) as handle:
            return handle.read(len(ROOT_MAGIC)) == ROOT_MAGIC

    def _checksum(self, url: str) -> str:
        value = 1
        with self._client.open(url) as handle:
            while chunk := handle.read(CHUNK_BYTES):
                value = zlib.adler32(chunk, value)
        return f"{value:08x}"
