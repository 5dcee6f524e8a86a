"""Writes the sample files to the sites' storage and registers them in the simulated CMS services."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from lab.cms_world.known import SITE_OF_RSE
from lab.seed.datasets import InputDataset, InputFile
from lab.seed.formats import TOY, Format

TIMEOUT_SEC = 30.0


@dataclass(frozen=True, slots=True)
class Storage:
    """The directories of the sites' storages: a prefix with `{site}`."""

    prefix: str

    def path(self, lfn: str, rse: str) -> Path:
        return Path(self.prefix.replace("{site}", SITE_OF_RSE[rse]) + lfn)


class Laboratory:
    """Client of the endpoints of the lab."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy on loopback

    def add(self, what: str, document: dict[str, Any]) -> None:
        answer = self._session.post(f"{self._url}/lab/{what}", json=document, timeout=TIMEOUT_SEC)
        answer.raise_for_status()


def store_dataset(dataset: InputDataset, storage: Storage, format_: Format = TOY) -> dict[str, Any]:
    """Write every copy of every file; return the description of the dataset."""
    return {
        "dataset": dataset.name,
        "acquisition_era": dataset.acquisition_era,
        "blocks": [
            {
                "name": block.name,
                "rses": list(block.rses),
                "files": [_store_file(file, storage, format_) for file in block.files],
            }
            for block in dataset.blocks
        ],
    }


def _store_file(file: InputFile, storage: Storage, format_: Format) -> dict[str, Any]:
    paths = [storage.path(file.lfn, rse) for rse in file.rses]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
    facts = format_.store(file, paths)
    return {
        "lfn": file.lfn,
        "rses": list(file.rses),
        "size_bytes": facts.size_bytes,
        "events": facts.events,
        "adler32": facts.adler32,
        "lumis": facts.lumis,
    }
