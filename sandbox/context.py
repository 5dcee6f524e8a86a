"""The work of a running job (Context) and what it has done so far (Tally).

The tally is filled while the job works, so that a report can be written whenever it stops.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox.failure import BAD_CONFIGURATION, WALL_TIME, JobFailure
from sandbox.lumis import Lumis
from sandbox.manifest import JobsManifest
from sandbox.places import Places
from sandbox.report import Output, PilotReport, Transfer
from sandbox.storage import Storage
from sandbox.tree import Tree
from sandbox.values import is_number

if TYPE_CHECKING:
    from sandbox.merge_tools import MergeTool
    from sandbox.registry import Registry


def wall_time_limit(payload: Mapping[str, Any]) -> float | None:
    """Return the wall-time limit of a payload_config in seconds; None = no limit of its own."""
    limit = payload.get("max_wall_time_sec")
    if limit is None:
        return None
    if not is_number(limit) or limit == 0:
        raise JobFailure(BAD_CONFIGURATION, f"payload: max_wall_time_sec: {limit!r:.80} is not a time")
    return limit


@dataclass(frozen=True)
class Context:
    """`memory_mb` is what the job asked the pool for; None = it does not know.

    `places` None = the manifest says where storage is, as in DAGs of earlier versions.
    """

    manifest: JobsManifest
    node: str
    site: str
    attempt: int
    scratch: Path
    tree: Tree
    registry: Registry
    memory_mb: int | None = None
    started: float = field(default_factory=time.monotonic)
    places: Places | None = None
    storage: Storage = field(default_factory=Storage)
    transfers: list[Transfer] = field(default_factory=list)

    @property
    def prefixes(self) -> tuple[str, ...]:
        """URL prefixes of the site's storage, the primary one first."""
        return self._known_places.prefixes(self.site)

    def output_prefixes(self, lfn: str) -> tuple[str, ...]:
        """URL prefixes to which an output file may be written, the primary one first."""
        if self.manifest.is_unmerged(lfn) or self._known_places.merged_fallback:
            return self.prefixes
        return self.prefixes[:1]

    @property
    def _known_places(self) -> Places:
        return Places(default=self.manifest.storage) if self.places is None else self.places

    @property
    def work(self) -> Path:
        """Directory of files before they are staged out."""
        return self.scratch / "work"

    @property
    def merge_tool(self) -> MergeTool:
        """The tool for the files of this request. Raises JobFailure if the configuration names none."""
        return self.registry.merge_tool_of(self.manifest.payload)

    @property
    def deadline(self) -> float | None:
        """End (monotonic clock) of the payload's own wall-time limit; None = no limit."""
        limit = wall_time_limit(self.manifest.payload)
        return None if limit is None else self.started + limit

    def out_of_time(self, what: str) -> JobFailure:
        limit = self.manifest.payload.get("max_wall_time_sec")
        return JobFailure(WALL_TIME, f"WallTime: {what} went over max_wall_time_sec = {limit}")


@dataclass(frozen=True)
class Touched:
    """An input file that was opened, and what was taken from it."""

    events: int
    lumis: Lumis


@dataclass
class Tally:
    events_read: int = 0
    events_written: int = 0
    inputs: dict[str, Touched] = field(default_factory=dict)
    outputs: list[Output] = field(default_factory=list)
    pilot: PilotReport | None = None
    note: str = ""
    transfers: list[Transfer] = field(default_factory=list)
