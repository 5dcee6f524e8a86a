"""Values exchanged with the CMS services.

Lumi sections are inclusive ranges `(run, first, last)`, sorted, merged where they touch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sandbox.lumis import Ranges, merged


@dataclass(frozen=True, slots=True)
class DatasetFile:
    """A valid file of a dataset in DBS; `adler32` is empty if DBS has none."""

    lfn: str
    size_bytes: int
    events: int
    adler32: str
    block_name: str
    lumis: Ranges


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """A dataset in DBS, with sums over its valid files."""

    name: str
    access_type: str
    primary_type: str
    acquisition_era: str
    processing_version: int
    physics_group: str
    prep_id: str
    blocks: int
    files: int
    lumis: int
    events: int
    size_bytes: int
    changed_at: int = 0  # last addition or change of a file, in seconds since 1970


@dataclass(frozen=True, slots=True)
class DatasetContent:
    """A dataset in DBS: access type, creator and names of its blocks."""

    access_type: str
    created_by: str
    blocks: frozenset[str]


@dataclass(frozen=True, slots=True)
class FileCounts:
    """Counts of a catalogue; None for what it does not count."""

    files: int
    bytes: int
    events: int | None = None
    lumis: int | None = None


@dataclass(frozen=True, slots=True)
class BlockFile:
    """A merged file to be registered; `lumi_events` are ranges with the events per lumi."""

    lfn: str
    size_bytes: int
    events: int
    adler32: str
    lumis: Ranges
    parents: tuple[str, ...] = ()
    lumi_events: tuple[tuple[int, int, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class BlockRecord:
    """An output block to be registered in DBS; `site` is the storage (RSE) where it was produced."""

    block_name: str
    dataset: str
    site: str
    files: tuple[BlockFile, ...]
    acquisition_era: str
    processing_version: int
    physics_group: str
    prep_id: str
    release: str
    global_tag: str
    primary_type: str
    created_at: int
    access_type: str = "PRODUCTION"
    parent_datasets: tuple[str, ...] = ()

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


class RuleState(StrEnum):
    """State of a rule in Rucio. A STUCK rule stays so until it is boosted."""

    INJECT = "INJECT"
    REPLICATING = "REPLICATING"
    OK = "OK"
    STUCK = "STUCK"
    SUSPENDED = "SUSPENDED"
    WAITING_APPROVAL = "WAITING_APPROVAL"


class ReplicaVerdict(StrEnum):
    """Declaration of a copy of a file: Rucio watches a suspicious one and gives up a bad one."""

    SUSPICIOUS = "suspicious"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Rule:
    """A replication rule. A deleted rule remains for an hour with `expires_at` set."""

    rule_id: str
    state: RuleState
    rse_expression: str
    locks_ok: int
    locks_replicating: int
    locks_stuck: int
    error: str
    account: str
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Destination:
    """Storages where a dataset is wanted, and how many copies; None: one at each."""

    rse_expression: str
    copies: int | None = 1


@dataclass(frozen=True, slots=True)
class SiteInfo:
    """A processing site, the storages its jobs read, and whether CRIC lists it as active."""

    name: str
    rses: tuple[str, ...]
    active: bool = True


def fold_lumis(rows: Iterable[tuple[int, int]]) -> Ranges:
    """Return (run, lumi) pairs, unordered and repeated, as sorted ranges."""
    return merged({(run, lumi, lumi) for run, lumi in rows})


@dataclass(frozen=True, slots=True)
class OutputModule:
    """The data tier that an output module writes, and the filter that is part of its dataset's name."""

    tier: str
    filter_name: str = ""


@dataclass(frozen=True, slots=True)
class Configuration:
    """One configuration and its output modules by label."""

    config_id: str
    content: bytes
    modules: Mapping[str, OutputModule]

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()
