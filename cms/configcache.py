"""The ConfigCache: the configurations (PSets) that ReqMgr2's documents name by ConfigCacheID.

A CouchDB database beside ReqMgr2. A document describes the configuration, among others its output modules;
its attachment `configFile` is the configuration, a Python program that only jobs run. It is never run here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from cms.http import HttpOptions, JsonService, TooLarge
from cms.types import Configuration, OutputModule
from sandbox import names
from wms2_project.errors import NotFound, PermanentError
from wms2_project.grammar import Name, check

ATTACHMENT = "configFile"
MAX_BYTES = 20 * 1024 * 1024  # the largest ones are about 5 MB
MAX_SEC = 120.0
MAX_MODULES = 200
_TIER = re.compile(r"[A-Z0-9-]{1,99}", re.ASCII)
_FILTER = re.compile(r"[A-Za-z0-9_-]{0,99}", re.ASCII)
_MAKES_PROCESS = re.compile(r"^process\s*=", re.MULTILINE)


class BadConfiguration(PermanentError):
    """The ConfigCache answers with something that cannot be used as a configuration."""

    code = "bad_configuration"


@dataclass(frozen=True, slots=True)
class ConfigCacheConfig:
    """`url` is the database, such as https://host/couchdb/reqmgr_config_cache."""

    url: str
    http: HttpOptions = field(default_factory=HttpOptions)
    max_bytes: int = MAX_BYTES


class ConfigCacheClient:
    """Reads configurations; never writes any."""

    def __init__(self, config: ConfigCacheConfig) -> None:
        self._service = JsonService(service="ConfigCache", base_url=config.url, options=config.http)
        self._max_bytes = config.max_bytes

    def configuration(self, config_id: str) -> Configuration:
        """Return the configuration. Raises NotFound, BadConfiguration, or ServiceUnavailable."""
        check(Name.WORD, config_id, field="config_cache_id")
        try:
            document = self._service.get(config_id)
            content = self._service.download(
                f"{config_id}/{ATTACHMENT}", max_bytes=self._max_bytes, max_sec=MAX_SEC
            )
        except NotFound as error:
            raise NotFound(
                f"the ConfigCache has no configuration {config_id}: {error.message}",
                cure="Check ConfigCacheID, or upload the configuration; then release the request",
            ) from error
        except TooLarge as error:
            raise _refused(config_id, error.message) from error
        _check_program(config_id, content)
        return Configuration(config_id, content, read_modules(config_id, document))


def read_modules(config_id: str, document: Any) -> dict[str, OutputModule]:
    """Return the output modules that a document of the ConfigCache lists, with their tiers."""
    details = document.get("pset_tweak_details") if isinstance(document, dict) else None
    process = details.get("process") if isinstance(details, dict) else None
    labels = process.get("outputModules_") if isinstance(process, dict) else None
    if not isinstance(process, dict) or not isinstance(labels, list) or len(labels) > MAX_MODULES:
        raise _refused(config_id, "its document lists no output modules (pset_tweak_details)")
    found: dict[str, OutputModule] = {}
    for label in labels:
        module = process.get(label) if isinstance(label, str) else None
        dataset = module.get("dataset") if isinstance(module, dict) else None
        described = dataset if isinstance(dataset, dict) else {}
        tier, filter_name = described.get("dataTier") or "", described.get("filterName") or ""
        if not names.matches(names.MODULE, label):
            raise _refused(config_id, f"{str(label)[:80]!r} is not a label of an output module")
        if not tier:
            continue  # a module without a dataset: nothing of it is kept
        if not (names.matches(_TIER, tier) and names.matches(_FILTER, filter_name)):
            raise _refused(config_id, f"the dataset of {label} has the tier {str(tier)[:80]!r}")
        found[label] = OutputModule(tier, filter_name)
    return found


def _check_program(config_id: str, content: bytes) -> None:
    """Refuse what cannot be a configuration. It may be of Python 2, so it is not parsed."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _refused(config_id, f"its {ATTACHMENT} is not text: {error}") from error
    if not _MAKES_PROCESS.search(text):
        raise _refused(config_id, f"its {ATTACHMENT} does not define a process")


def _refused(config_id: str, message: str) -> BadConfiguration:
    return BadConfiguration(
        f"the configuration {config_id} cannot be used: {message}",
        cure="Upload a usable configuration and submit the request with its ConfigCacheID",
    )
